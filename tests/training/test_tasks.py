import keras
import numpy as np
import pytest
import tensorflow as tf

import vitkeras
from vitkeras.training import Classification

LABELS = np.array([4, 0, 6, 2, 4], "int32")


@pytest.fixture
def logits(rng):
    return rng.normal(scale=3, size=(5, 7)).astype("float32")


@pytest.fixture
def mixed(rng):
    targets = rng.uniform(size=(5, 7))
    return (targets / targets.sum(axis=1, keepdims=True)).astype("float32")


def expected(loss, logits, targets, smoothing):
    z, t = logits.astype("float64"), targets.astype("float64") * (1 - smoothing) + smoothing / 7
    if loss == "softmax":
        return (t * (np.log(np.exp(z).sum(axis=1, keepdims=True)) - z)).sum(axis=1)
    return (t * np.log1p(np.exp(-z)) + (1 - t) * np.log1p(np.exp(z))).sum(axis=1)


@pytest.mark.parametrize("loss", ["softmax", "sigmoid"])
@pytest.mark.parametrize("smoothing", [0.0, 0.13])
def test_losses_equal_numpy(loss, smoothing, logits, mixed, assert_close):
    task = Classification(loss, smoothing)
    for targets, dense in ((LABELS, np.eye(7)[LABELS]), (mixed, mixed)):
        values, correct = task(tf.constant(logits), tf.constant(targets))
        assert_close(values, expected(loss, logits, dense, smoothing), atol=5e-6)
        assert_close(correct, (logits.argmax(axis=1) == dense.argmax(axis=1)).astype("float32"), atol=0)


def test_bfloat16_logits_give_float32_losses(logits, mixed):
    for targets in (LABELS, mixed):
        values, correct = Classification()(tf.cast(logits, tf.bfloat16), tf.constant(targets))
        assert values.dtype == correct.dtype == tf.float32


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_any_integer_label(dtype, logits, assert_close):
    values, correct = Classification()(tf.constant(logits), tf.constant(LABELS.astype(dtype)))
    assert_close(values, expected("softmax", logits, np.eye(7)[LABELS], 0.0), atol=5e-6)
    assert_close(correct, (logits.argmax(axis=1) == LABELS).astype("float32"), atol=0)


def test_bad_arguments(logits):
    with pytest.raises(ValueError, match=r"loss must be one of \('softmax', 'sigmoid'\), received 'hinge'"):
        Classification("hinge")
    for value in (1.0, -0.1):
        with pytest.raises(ValueError, match=rf"label_smoothing must be in \[0, 1\), received {value}"):
            Classification(label_smoothing=value)
    with pytest.raises(ValueError, match=r"needs logits \(batch, classes\), received shape \(2, 3, 5\)"):
        Classification()(tf.zeros((2, 3, 5)), tf.constant([0, 1]))
    for targets, said in ((mixed_of(6), r"float32 \(5, 6\)"), (LABELS[:, None], r"int32 \(5, 1\)")):
        with pytest.raises(ValueError, match=rf"int \(batch,\) or floating \(batch, 7\), received {said}"):
            Classification()(tf.constant(logits), tf.constant(targets))
    model = vitkeras.VisionTransformer((16, 32, 3), 16, 1, 12, 3, 24, classes=5)
    with pytest.raises(ValueError, match="must end in logits .* its last layer has 'softmax'"):
        Classification().check(model)
    Classification().check(keras.Model(model.input, model.get_layer("pool").output))


def mixed_of(classes):
    return np.full((5, classes), 1 / classes, "float32")
