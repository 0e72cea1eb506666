import numpy as np
import pytest

from vitkeras.evaluation import label_ranks, topk_accuracy


def test_ranks_by_hand():
    scores = [[0.1, 0.7, 0.2], [0.5, 0.2, 0.3], [-1.0, -2.0, -3.0]]
    assert label_ranks(scores, [2, 0, 2]).tolist() == [1, 0, 2]
    assert topk_accuracy(scores, [2, 0, 2]) == pytest.approx(1 / 3)
    assert topk_accuracy(scores, [2, 0, 2], k=2) == pytest.approx(2 / 3)
    assert topk_accuracy(scores, [2, 0, 2], k=3) == 1.0


def test_of_equal_scores_the_lower_class_comes_first_as_for_argmax():
    equal = np.zeros((5, 5))
    assert label_ranks(equal, np.arange(5)).tolist() == [0, 1, 2, 3, 4]
    assert topk_accuracy(equal, np.arange(5)) == pytest.approx(1 / 5)  # not 1
    assert topk_accuracy(equal, np.arange(5), k=2) == pytest.approx(2 / 5)


def test_equals_a_stable_sort(rng):
    scores, labels = rng.integers(0, 4, (97, 11)), rng.integers(0, 11, 97)  # many ties
    order = np.argsort(-scores, axis=1, kind="stable")
    np.testing.assert_array_equal(label_ranks(scores, labels), (order == labels[:, None]).argmax(axis=1))
    for k in (1, 3, 11):
        assert topk_accuracy(scores, labels, k) == (order[:, :k] == labels[:, None]).any(axis=1).mean()


def test_one_class():
    assert topk_accuracy([[0.3], [0.1]], [0, 0]) == 1.0


@pytest.mark.parametrize(
    "scores, labels, message",
    [
        ([[0.0, np.nan], [0.0, 1.0]], [0, 1], "scores must be finite, received 1 of 2 images with nan or inf"),
        ([[0.0, np.inf]], [0], "received 1 of 1 images with nan or inf"),
        (np.zeros((0, 3)), [], r"scores must be numbers of shape \(images, classes\), received float64 \(0, 3\)"),
        (np.zeros(3), [0], "must be numbers of shape"),
        ([[0.0, 1.0]], [2], "labels must be in 0...1, received 2...2"),
        ([[0.0, 1.0]], [-1], "labels must be in 0...1, received -1...-1"),
        ([[0.0, 1.0]], [0, 1], r"labels must be ints of shape \(1,\), received int64 \(2,\)"),
        ([[0.0, 1.0]], [0.0], r"labels must be ints of shape \(1,\), received float64"),
    ],
)
def test_bad_input(scores, labels, message):
    with pytest.raises(ValueError, match=message):
        label_ranks(scores, labels)


@pytest.mark.parametrize("k", [0, 3, 1.0, True])
def test_k_is_in_range(k):
    with pytest.raises(ValueError, match=f"k must be an int in 1...2, received {k!r}"):
        topk_accuracy([[0.0, 1.0]], [0], k)
