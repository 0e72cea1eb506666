import numpy as np
import pytest

from vitkeras.evaluation import brier_score, negative_log_likelihood
from vitkeras.recipes.class_map import ClassMap
from vitkeras.recipes.measuring import Measures

SCORES = np.array([[3.0, 1.0, 2.0, 0.0, -1.0], [0.0, 1.0, 2.0, 5.0, 4.0], [0.0, 0.0, 0.0, 0.0, 0.0]])
TWO = ClassMap(((4, 2), (), (1,)), 5)  # class 0 has two outputs, class 1 none
SINGLE = ClassMap(((2,), (4,)), 5)


def test_any_output_of_a_class_is_right():
    found = Measures(TWO, "model", "logits")(SCORES, np.array([0, 0, 2]))
    assert found["rank"].tolist() == [1, 1, 1]
    assert found["predicted"].tolist() == [-1, -1, -1]  # outputs 0, 3 and, of equal ones, 0 answer for no class
    assert found["best"].tolist() == [0, 3, 0] and found["top"][1].tolist() == [3, 4, 2, 1, 0]
    assert "confidence" not in found  # a class of two outputs has no probability of its own


def test_among_the_datas_classes_the_best_output_of_each_counts():
    measures = Measures(TWO, "data", "logits")
    found = measures(SCORES, np.array([0, 0, 2]))
    assert measures.choices == 2 and measures.other.choices == 5
    assert found["rank"].tolist() == [0, 0, 1] and found["predicted"].tolist() == [0, 0, 0]
    assert found["top"].tolist() == [[0, 2]] * 3
    np.testing.assert_array_equal(found["top_scores"], [[2, 1], [4, 1], [0, 0]])
    assert measures.other.ranks(SCORES, np.array([0, 0, 2])).tolist() == [1, 1, 1]


@pytest.mark.parametrize("head", ["logits", "softmax", "sigmoid"])
def test_probabilities_among_all_outputs_and_among_the_datas(head):
    exact = np.exp(SCORES) / np.exp(SCORES).sum(axis=1, keepdims=True)
    scores, labels = SCORES if head == "logits" else exact, np.array([0, 1, 1])
    found = Measures(SINGLE, "model", head)(scores, labels)
    np.testing.assert_allclose(found["confidence"], exact.max(axis=1))
    independent = head == "sigmoid"
    assert found["nll"].mean() == pytest.approx(negative_log_likelihood(exact, [2, 4, 4], independent))
    assert found["brier"].mean() == pytest.approx(brier_score(exact, [2, 4, 4]))
    few = exact[:, [2, 4]]
    if not independent:  # as a softmax over these two logits
        few = few / few.sum(axis=1, keepdims=True)
    found = Measures(SINGLE, "data", head)(scores, labels)
    np.testing.assert_allclose(found["confidence"], few.max(axis=1))
    assert found["nll"].mean() == pytest.approx(negative_log_likelihood(few, labels, independent))


def test_an_output_of_two_classes_is_right_for_both():
    shared = ClassMap(((3,), (3,), (0,)), 5)
    found = Measures(shared, "model", "logits")(SCORES[[1, 1, 1]], np.array([0, 1, 2]))
    assert found["rank"].tolist() == [0, 0, 4] and found["predicted"].tolist() == [0, 1, 0]
    assert not shared.is_single


def test_a_whole_map_has_no_other_choice():
    assert Measures(ClassMap(((1,), (0,)), 2), "model", "logits").other is None
    assert not Measures(ClassMap(((1,), (0,)), 2), "model", "top_k").calibrates
