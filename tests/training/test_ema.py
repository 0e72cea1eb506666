"""The moving average of the weights is kept apart from them (paper Table 2)."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import vitkeras
from vitkeras.training import Engine, make_optimizer

RNG = np.random.default_rng(7)
IMAGES, LABELS = RNG.normal(size=(6, 16, 48, 3)).astype("float32"), RNG.integers(0, 5, 6).astype("int32")
BATCH = tf.data.Dataset.from_tensors((IMAGES, LABELS))
PART = tf.data.Dataset.from_tensors((IMAGES, LABELS, np.ones(6, "float32")))


def build():
    keras.utils.set_random_seed(3)
    model = vitkeras.VisionTransformer((16, 48, 3), 16, 1, 12, 3, 24, classes=5, classifier_activation=None)
    model.get_layer("class_token").trainable = False
    return model


@pytest.fixture(scope="module")
def run():
    engine = Engine(build(), make_optimizer("sgd", 0.5, clip_norm=None), ema_decay=0.7)
    iterator = engine.iterator(BATCH.repeat())
    head = engine.model.get_layer("head")
    head.bias.assign(np.arange(5.0))  # after the engine was made: the average starts with the first step
    history = [head.bias.numpy()]
    for _ in range(3):
        engine.run(iterator, 1)
        history.append(head.bias.numpy())
    return engine, history


def test_the_average_is_numpys(run):
    engine, history = run
    expected = history[0].astype("float64")
    for value in history[1:]:
        expected = 0.7 * expected + 0.3 * value
    np.testing.assert_allclose(engine.ema["head/bias"], expected, rtol=0, atol=1e-6)
    assert np.abs(engine.ema["head/bias"] - history[-1]).max() > 1e-3
    assert sorted(engine.ema) == sorted(v.path for v in engine.model.trainable_variables)


def test_evaluation_and_the_copy_use_it(run):
    engine, history = run
    weights, average = engine.evaluate(PART), engine.evaluate(PART, use_ema=True)
    copy = engine.ema_model()
    assert abs(weights["loss"] - average["loss"]) > 1e-4
    assert abs(Engine(copy).evaluate(PART)["loss"] - average["loss"]) < 1e-6
    np.testing.assert_array_equal(engine.model.get_layer("head").bias.numpy(), history[-1])  # still the weights
    np.testing.assert_array_equal(copy.get_layer("head").bias.numpy(), engine.ema["head/bias"])
    assert [v.path for v in copy.weights] == [v.path for v in engine.model.weights]


def test_a_resumed_run_does_not_start_over(run):
    engine, _ = run
    other = Engine(build(), make_optimizer("sgd", 0.5, clip_norm=None), ema_decay=0.7)
    other.restore(engine.state())
    before = other.ema["head/bias"]
    other.run(other.iterator(BATCH), 1)
    expected = 0.7 * before + 0.3 * other.model.get_layer("head").bias.numpy()
    np.testing.assert_allclose(other.ema["head/bias"], expected, rtol=0, atol=1e-6)


def test_without_an_average():
    engine = Engine(build(), make_optimizer("sgd", 0.5))
    assert engine.ema is None
    for call in (engine.ema_model, lambda: engine.evaluate(PART, use_ema=True)):
        with pytest.raises(ValueError, match="keeps no average of the weights; give it an ema_decay, such as 0.9999"):
            call()


@pytest.mark.parametrize("decay", [0, 1.0, -0.5])
def test_bad_decay(decay):
    with pytest.raises(ValueError, match=r"ema_decay must be in \(0, 1\) or None, received"):
        Engine(build(), make_optimizer("sgd", 0.5), ema_decay=decay)
