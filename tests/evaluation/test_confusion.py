import numpy as np
import pytest

from vitkeras.evaluation import class_table, confusion_matrix, most_confused

LABELS, PREDICTIONS = [0, 0, 0, 1, 1, 2, 2, 2], [0, 0, 1, 1, 1, 0, 1, 2]
MATRIX = [[2, 1, 0], [0, 2, 0], [1, 1, 1]]


def test_the_matrix_by_hand():
    np.testing.assert_array_equal(confusion_matrix(LABELS, PREDICTIONS, 3), MATRIX)


def test_other_classes_get_the_last_column():
    found = confusion_matrix([0, 1, 1], [0, -1, 1], 2, with_others=True)
    np.testing.assert_array_equal(found, [[1, 0, 0], [0, 1, 1]])
    with pytest.raises(ValueError, match="predictions must be in 0...1, received -1...1"):
        confusion_matrix([0, 1, 1], [0, -1, 1], 2)


def test_the_table_by_hand():
    table = class_table(np.array(MATRIX))
    assert table["count"].tolist() == [3, 2, 3] and table["predicted"].tolist() == [3, 4, 1]
    np.testing.assert_allclose(table["recall"], [2 / 3, 1, 1 / 3])
    np.testing.assert_allclose(table["accuracy"], table["recall"])
    np.testing.assert_allclose(table["precision"], [2 / 3, 1 / 2, 1])
    np.testing.assert_allclose(table["f1"], [2 / 3, 2 / 3, 1 / 2])


def test_the_table_equals_that_of_scikit_learn(rng):
    metrics = pytest.importorskip("sklearn.metrics")
    labels, predictions = rng.integers(0, 7, 211), rng.integers(0, 7, 211)
    table = class_table(confusion_matrix(labels, predictions, 7))
    np.testing.assert_array_equal(
        confusion_matrix(labels, predictions, 7), metrics.confusion_matrix(labels, predictions)
    )
    precision, recall, f1, count = metrics.precision_recall_fscore_support(labels, predictions)
    for name, values in {"precision": precision, "recall": recall, "f1": f1, "count": count}.items():
        np.testing.assert_allclose(table[name], values)


def test_what_has_nothing_to_divide_by_is_nan():
    table = class_table(confusion_matrix([0, 0], [0, -1], 3, with_others=True))
    np.testing.assert_array_equal(table["recall"], [0.5, np.nan, np.nan])  # the last two have no images
    np.testing.assert_array_equal(table["precision"], [1.0, np.nan, np.nan])
    np.testing.assert_allclose(table["f1"], [2 / 3, np.nan, np.nan])
    never = class_table(np.array([[1, 0], [1, 0]]))
    assert np.isnan(never["precision"][1]) and never["recall"][1] == 0 and never["f1"][1] == 0


def test_one_class():
    table = class_table(confusion_matrix([0, 0], [0, 0], 1))
    assert [table[name].tolist() for name in ("count", "precision", "recall", "f1")] == [[2], [1.0], [1.0], [1.0]]


def test_the_commonest_mistakes_come_first():
    assert most_confused(np.array(MATRIX)) == [(0, 1, 1, 1 / 3), (2, 0, 1, 1 / 3), (2, 1, 1, 1 / 3)]
    assert most_confused(np.array([[5, 0, 2], [4, 1, 9]])) == [(1, 2, 9, 9 / 14), (1, 0, 4, 4 / 14), (0, 2, 2, 2 / 7)]
    assert most_confused(np.array(MATRIX), most=1) == [(0, 1, 1, 1 / 3)]
    assert most_confused(np.eye(3, dtype=int)) == []


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: confusion_matrix([0], [2], 2), "predictions must be in 0...1, received 2...2"),
        (lambda: confusion_matrix([2], [0], 2), "labels must be in 0...1, received 2...2"),
        (lambda: confusion_matrix([0, 1], [0], 2), r"predictions must be ints of shape \(2,\)"),
        (lambda: confusion_matrix([0], [0], 0), "num_classes must be an int >= 1, received 0"),
        (lambda: class_table(np.zeros((2, 4), int)), r"matrix must be ints of shape \(K, K\) or \(K, K \+ 1\)"),
        (lambda: class_table(np.eye(2)), "received float64"),
        (lambda: most_confused(-np.eye(2, dtype=int)), "counts >= 0"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
