"""Dropout and stochastic depth are a pure function of (seed, step, replica, micro-batch)."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import vitkeras
from vitkeras.training import Engine, make_optimizer
from vitkeras.training.seeds import draw_states, seed_states


def build(**kwargs):
    keras.utils.set_random_seed(11)
    model = vitkeras.VisionTransformer((16, 48, 3), 16, 2, 12, 3, 24, classes=5, classifier_activation=None, **kwargs)
    head = model.get_layer("head")
    head.kernel.assign(np.random.default_rng(6).normal(size=head.kernel.shape))
    return model


def one_batch(count=14):
    rng = np.random.default_rng(7)
    images = rng.normal(size=(count, 16, 48, 3)).astype("float32")
    return tf.data.Dataset.from_tensors((images, rng.integers(0, 5, count).astype("int32"))).repeat()


def losses(steps=2, rate=0.1, model=None, **kwargs):
    """The losses of `steps` steps that change nothing but the step count."""
    model = model or build(dropout_rate=rate, attention_dropout_rate=rate, stochastic_depth_rate=rate)
    engine = Engine(model, make_optimizer("sgd", 0.0), **kwargs)
    return engine.run(engine.iterator(one_batch()), steps)["loss"]


def test_states_differ_in_every_argument():
    positions = [(3, 5, 0, 0), (4, 5, 0, 0), (3, 6, 0, 0), (3, 5, 1, 0), (3, 5, 0, 1), (3, 0, 5, 0)]
    drawn = [tuple(int(s[0]) for s in draw_states(3, *position)) for position in positions]
    assert len({number for numbers in drawn for number in numbers}) == 18
    assert drawn[0] == tuple(int(s[0]) for s in draw_states(3, *positions[0]))


@pytest.mark.parametrize(
    "policy, kwargs",
    [("float32", {}), pytest.param("mixed_bfloat16", {"accumulate": 2, "remat": True}, marks=pytest.mark.slow)],
)
def test_the_run_depends_on_seed_and_step_only(policy, kwargs):
    keras.config.set_dtype_policy(policy)
    first, again, other = losses(3, **kwargs), losses(3, **kwargs), losses(3, seed=1, **kwargs)
    np.testing.assert_array_equal(first, again)
    assert len({*first, *other}) == 6


def test_without_dropout_the_steps_are_alike():
    assert len(set(losses(3, rate=0.0))) == 1


@pytest.mark.parametrize("which", ["dropout_rate", "attention_dropout_rate", "stochastic_depth_rate"])
def test_each_kind_of_layer_is_reached(which):
    model = build(**{which: 0.3})
    before = [state.numpy() for state in seed_states(model)]
    values = losses(2, model=model)
    assert before and values[0] != values[1]
    for old, state in zip(before, seed_states(model)):
        np.testing.assert_array_equal(old, state.numpy())  # Keras' own counters are neither used nor moved


def test_micro_batches_drop_different_units():
    masks = []

    @keras.saving.register_keras_serializable(package="test")
    class Spy(keras.layers.Dropout):
        def call(self, x, training=None):
            y = super().call(x, training=training)
            if training:
                masks.append(y)
            return y

    image = keras.Input((16, 48, 3))
    x = Spy(0.5, name="spy")(image)
    model = keras.Model(image, keras.layers.Dense(5, name="head")(keras.layers.GlobalAveragePooling2D()(x)))
    engine = Engine(model, make_optimizer("sgd", 0.0), accumulate=2)
    x = tf.ones((6, 16, 48, 3))
    engine._loss_and_gradients(x, tf.zeros(6, tf.int32), tf.constant(0), tf.constant(0))
    kept = [mask.numpy() > 0 for mask in masks]
    assert len(kept) == 2 and kept[0].shape == (3, 16, 48, 3)
    agree = (kept[0] == kept[1]).mean()
    assert 0.47 < agree < 0.53 and all(0.47 < k.mean() < 0.53 for k in kept)


def test_a_layer_that_writes_its_own_state_is_refused():
    image = keras.Input((16, 48, 3))
    x = keras.layers.BatchNormalization()(image)
    model = keras.Model(image, keras.layers.Dense(5, name="head")(keras.layers.GlobalAveragePooling2D()(x)))
    with pytest.raises(ValueError, match="writes variables while it trains .* use GroupNorm or LayerNorm"):
        losses(1, model=model)


@pytest.mark.parametrize("seed", [-1, 2**31, 1.5, True])
def test_bad_seeds(seed):
    with pytest.raises(ValueError, match=r"seed must be an int in 0...2147483647, received"):
        Engine(build(), seed=seed)
