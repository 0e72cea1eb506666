import numpy as np
import pytest

from vitkeras.evaluation import brier_score, head_probabilities, negative_log_likelihood

PROBABILITIES = [[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]]


def test_by_hand():
    assert negative_log_likelihood(PROBABILITIES, [1, 1]) == pytest.approx((np.log(4) - np.log(0.8)) / 2)
    # 0.25 + 0.5625 + 0.0625 and 0.01 + 0.04 + 0.01
    assert brier_score(PROBABILITIES, [1, 1]) == pytest.approx((0.875 + 0.06) / 2)
    assert brier_score([[1.0, 0.0]], [1]) == 2.0 and brier_score([[1.0, 0.0]], [0]) == 0.0


def test_independent_probabilities_count_every_class():
    wanted = -np.log(0.25) - np.log(1 - 0.5) - np.log(1 - 0.25)
    assert negative_log_likelihood(PROBABILITIES[:1], [1], independent=True) == pytest.approx(wanted)


def test_a_probability_that_rounded_to_zero_stays_finite():
    assert negative_log_likelihood([[1.0, 0.0]], [1]) == pytest.approx(87.3365, abs=1e-3)
    assert negative_log_likelihood([[1.0, 1.0]], [0], independent=True) == pytest.approx(87.3365, abs=1e-3)


def test_heads(rng):
    logits = rng.normal(size=(13, 7)) * 5
    exact = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(head_probabilities(logits, "logits"), exact, rtol=1e-12)
    np.testing.assert_allclose(head_probabilities(logits, "sigmoid_logits"), 1 / (1 + np.exp(-logits)), rtol=1e-12)
    np.testing.assert_array_equal(head_probabilities(exact, "softmax"), exact)
    np.testing.assert_array_equal(head_probabilities(exact, "sigmoid"), exact)
    assert np.isfinite(head_probabilities([[1e5, -1e5]], "logits")).all()
    np.testing.assert_array_equal(head_probabilities([[1e5, -1e5]], "sigmoid_logits"), [[1.0, 0.0]])
    np.testing.assert_array_equal(head_probabilities([[1.0004, -0.0004]], "softmax"), [[1.0, 0.0]])  # rounding


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda: head_probabilities([[3.0, 1.0]], "softmax"),
            "of a softmax head must be in 0...1, received 1...3",
        ),
        (lambda: head_probabilities([[0.5, -0.1]], "sigmoid"), "scores of a sigmoid head must be in 0...1"),
        (lambda: head_probabilities([[0.5]], "linear"), "head must be one of logits, softmax, sigmoid, sigmoid_logits"),
        (lambda: head_probabilities([[np.nan, 1.0]], "logits"), "received 1 of 1 images with nan or inf"),
        (lambda: negative_log_likelihood([[3.0, 1.0]], [0]), "probabilities must be in 0...1, received 1...3"),
        (lambda: brier_score([[-1.0, 1.0]], [0]), "head_probabilities makes them of logits"),
        (lambda: brier_score([[0.5, 0.5]], [2]), "labels must be in 0...1"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
