import numpy as np
import pytest

from vitkeras.evaluation import fewshot_accuracy, select_shots
from vitkeras.evaluation.fewshot import _least_squares, _standardised, _targets

SHOTS = (
    1,
    2,
    3,
    5,
    10,
)  # of 5 classes and 16 features: 5, 10 and 15 examples are fewer than 17 columns, 25 and 50 more


@pytest.fixture
def golden_fewshot(golden):
    return golden("fewshot_golden")


@pytest.mark.parametrize("shots", SHOTS)
def test_the_original_picks_the_same_examples(golden_fewshot, shots):
    g = golden_fewshot
    np.testing.assert_array_equal(select_shots(g["y_train"], shots, seed=0), g[f"seed0_shot{shots}_idx"])


@pytest.mark.parametrize("shots", SHOTS)
def test_accuracies_of_the_original(golden_fewshot, shots):
    g, compared = golden_fewshot, 0
    chosen = g[f"seed0_shot{shots}_idx"]
    for i, l2_reg in enumerate(g["l2_reg"]):
        support = g["x_train"][chosen], g["y_train"][chosen]
        found = fewshot_accuracy(*support, g["x_test"], g["y_test"], float(l2_reg))
        assert found == pytest.approx(float(g[f"seed0_shot{shots}_acc_float64"][i]), abs=1e-9)
        if l2_reg >= 32:  # below, the original's float32 has no digits left for some examples
            assert found == pytest.approx(float(g[f"seed0_shot{shots}_acc"][i]), abs=1e-6)
            compared += 1
    assert compared == 4


@pytest.mark.parametrize("shots", SHOTS)
def test_weights_of_the_original(golden_fewshot, shots):
    g = golden_fewshot
    chosen = g[f"seed0_shot{shots}_idx"]
    x, y = g["x_train"][chosen], g["y_train"][chosen]
    mean, deviation = x.mean(axis=0, dtype="float64"), x.std(axis=0, dtype="float64") + 1e-5
    for i, l2_reg in enumerate(g["l2_reg"]):
        weights = _least_squares(_standardised(x, mean, deviation), _targets(y, 5), l2_reg)
        # The golden arrays say how far the original's float32 weights are from its own in float64.
        bound = float(g[f"seed0_shot{shots}_w_absdiff_float64"][i])
        difference = np.abs(weights - g[f"seed0_shot{shots}_w"][i]).max()
        assert difference <= 1.01 * bound + 1e-7, (l2_reg, difference, bound)


def test_both_branches_give_one_answer(rng):
    for count in (7, 29):
        x, y = rng.normal(size=(count, 13)), rng.normal(size=(count, 3))
        primal = np.linalg.solve(x.T @ x + 5 * np.eye(13), x.T @ y)
        np.testing.assert_allclose(_least_squares(x, y, 5.0), primal, rtol=0, atol=1e-12)


def test_more_shots_contain_fewer_and_seeds_differ():
    labels = np.arange(77) % 7
    few, many = select_shots(labels, 2, seed=3), select_shots(labels, 11, seed=3)
    assert set(few) < set(many) and sorted(labels[few]) == sorted([*range(7)] * 2)
    assert set(many) == set(range(77))
    assert set(select_shots(labels, 2, seed=4)) != set(few)


def test_many_test_examples_are_counted_in_parts(monkeypatch, rng):
    x, y = rng.normal(size=(53, 5)), np.arange(53) % 3
    whole = fewshot_accuracy(x[:20], y[:20], x, y)
    monkeypatch.setattr("vitkeras.evaluation.fewshot._ROWS", 7)
    assert fewshot_accuracy(x[:20], y[:20], x, y) == whole


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(train_x=np.full((6, 4), np.nan)), "train_x must be finite, received 6 of 6 examples with nan or inf"),
        (dict(test_x=np.array([[1.0, np.inf, 0, 0]] * 3)), "test_x must be finite, received 3 of 3 examples"),
        (dict(train_y=np.full(6, 2)), "train_y must hold at least two classes, received only class 2"),
        (dict(train_y=np.zeros(5, int)), r"train_y must be ints of shape \(6,\), received int64 \(5,\)"),
        (dict(train_y=np.zeros(6)), r"train_y must be ints of shape \(6,\), received float64 \(6,\)"),
        (dict(train_x=np.zeros((6, 4), int)), r"train_x must be floating, .* received int64 \(6, 4\)"),
        (dict(test_x=np.zeros((3, 5))), "test_x must have train_x's 4 features, received 5"),
        (dict(num_classes=2), r"train_y must hold labels in 0...1, received 0...2"),
        (dict(l2_reg=0.0), "l2_reg must be > 0, received 0.0"),
    ],
)
def test_refused_arguments(change, message, rng):
    arguments = dict(
        train_x=rng.normal(size=(6, 4)), train_y=np.arange(6) % 3, test_x=rng.normal(size=(3, 4)), test_y=np.arange(3)
    )
    with pytest.raises(ValueError, match=message):
        fewshot_accuracy(**(arguments | change))


def test_refused_shots():
    with pytest.raises(ValueError, match="shots must be at most the 2 examples of class 1, received 3"):
        select_shots(np.array([0, 1, 0, 1, 0]), 3)
    with pytest.raises(ValueError, match="shots must be at most the 0 examples of class 2, received 1"):
        select_shots(np.array([0, 1]), 1, num_classes=3)
    with pytest.raises(ValueError, match="shots must be an int >= 1, received 0"):
        select_shots(np.array([0, 1]), 0)
    with pytest.raises(ValueError, match=r"labels must be ints of shape \(n,\), received float64"):
        select_shots(np.array([0.5]), 1)
