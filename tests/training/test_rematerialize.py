"""Rematerialisation changes memory, not numbers."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import vitkeras
from vitkeras.training import Engine, make_optimizer


def build(layers=2, hidden=12, rate=0.1, kind="vit"):
    keras.utils.set_random_seed(3)
    if kind == "resnet":
        return vitkeras.models.ResNet((32, 64, 3), (1, 1), width_factor=0.5, classes=5, classifier_activation=None)
    model = vitkeras.VisionTransformer(
        *((16, 48, 3), 16, layers, hidden, 3, 4 * hidden),
        classes=5,
        classifier_activation=None,
        dropout_rate=rate,
        stochastic_depth_rate=rate,
    )
    head = model.get_layer("head")
    head.kernel.assign(np.random.default_rng(6).normal(size=head.kernel.shape))
    return model


def gradients(remat, kind="vit", rate=0.1):
    model = build(kind=kind, rate=rate)
    engine = Engine(model, make_optimizer("sgd", 1.0, clip_norm=None), remat=remat)
    rng = np.random.default_rng(7)
    images = rng.normal(size=(6, *model.input_shape[1:])).astype("float32")
    before = [v.numpy() for v in model.trainable_variables]
    data = tf.data.Dataset.from_tensors((images, rng.integers(0, 5, 6).astype("int32")))
    loss = engine.run(engine.iterator(data), 1)["loss"]
    return loss, [v.numpy() - old for v, old in zip(model.trainable_variables, before)]


@pytest.mark.parametrize("kind", ["vit", pytest.param("resnet", marks=pytest.mark.slow)])
def test_gradients_are_those_of_the_same_masks(kind):
    loss, expected = gradients(False, kind)
    loss_again, actual = gradients(True, kind)
    np.testing.assert_allclose(loss_again, loss, rtol=0, atol=1e-6)
    assert len(expected) == len(actual) and max(np.abs(e).max() for e in expected) > 1e-2
    for ours, theirs in zip(actual, expected):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-6 * max(1, np.abs(theirs).max()))


def test_the_comparison_sees_other_masks():
    other = gradients(False, rate=0.11)[1]
    assert max(np.abs(a - b).max() for a, b in zip(gradients(False)[1], other)) > 1e-3


def count_products(remat):
    engine = Engine(build(), make_optimizer("sgd", 1.0), remat=remat)
    step = tf.function(engine._step)
    graph = step.get_concrete_function((tf.zeros((6, 16, 48, 3)), tf.zeros(6, tf.int32))).graph
    return sum(op.type in ("MatMul", "BatchMatMulV2") for op in graph.get_operations())


def test_each_block_is_computed_twice():
    # A block: four projections, two of the MLP, and two products of the attention.
    assert count_products(True) - count_products(False) == 2 * 8


def test_the_model_is_left_as_it_was():
    model = build()
    count_before = vars(model.get_layer("encoder_block_00")).keys()
    engine = Engine(model, make_optimizer("sgd", 1.0), remat=True)
    tf.function(engine._step).get_concrete_function((tf.zeros((6, 16, 48, 3)), tf.zeros(6, tf.int32)))
    assert "call" not in vars(model.get_layer("encoder_block_00"))
    assert vars(model.get_layer("encoder_block_00")).keys() == count_before


def test_a_model_without_blocks_is_refused():
    image = keras.Input((16, 48, 3))
    model = keras.Model(image, keras.layers.Dense(5, name="head")(keras.layers.Flatten()(image)), name="flat")
    with pytest.raises(ValueError, match="needs a model of encoder blocks or residual units, 'flat' has none"):
        Engine(model, make_optimizer("sgd", 1.0), remat=True)
