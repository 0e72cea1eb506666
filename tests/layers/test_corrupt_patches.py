"""CorruptPatches and PickTokens take two inputs, so that the contract's points are tested here."""

import keras
import numpy as np
import pytest
from backends import BACKEND, compiled, gradients

from vitkeras import layers

B, N, D = 3, 11, 5
SOURCES = np.array([[-1] * N, np.arange(N), [3, 1, -1, 0, 4, -1, 6, 6, 10, -1, 2]], "int32")
POSITIONS = np.array([[10, 0, 3, 7], [1, 2, 0, 5], [4, 8, 6, 9]], "int32")
CASES = {
    "CorruptPatches": (layers.CorruptPatches, {}, (B, N, D), SOURCES, (B, N, D), 1),
    "PickTokens": (layers.PickTokens, {"num_prefix_tokens": 2}, (B, 2 + N, D), POSITIONS, (B, 4, D), 0),
}
each = pytest.mark.parametrize("cls, arguments, shape, indices, output_shape, weights", CASES.values(), ids=CASES)


def expected_of(cls, x, indices, token):
    if cls is layers.PickTokens:
        return np.stack([row[2 + index] for row, index in zip(x, indices)])
    return np.stack([[token if i < 0 else row[i] for i in index] for row, index in zip(x, indices)])


class Fixed(keras.layers.Layer):
    """The layer with its indices fixed: a function of the tokens alone, for the helpers of one input."""

    def __init__(self, layer, indices):
        super().__init__()
        self.layer, self.indices = layer, indices

    def call(self, x):
        return self.layer(x, keras.ops.convert_to_tensor(self.indices))


@each
def test_equals_numpy(cls, arguments, shape, indices, output_shape, weights, rng):
    x, layer = rng.normal(size=shape).astype("float32"), cls(**arguments)
    y = keras.ops.convert_to_numpy(layer(x, indices))
    assert y.shape == output_shape and len(layer.weights) == weights
    token = keras.ops.convert_to_numpy(layer.mask_token) if weights else None
    np.testing.assert_array_equal(y, expected_of(cls, x, indices, token))


@each
def test_shapes_are_what_it_says(cls, arguments, shape, indices, output_shape, weights):
    layer = cls(**arguments)
    assert tuple(layer.compute_output_shape((None, *shape[1:]), (None, *indices.shape[1:]))) == (
        None,
        *output_shape[1:],
    )
    symbolic = layer(keras.Input(shape[1:]), keras.Input(indices.shape[1:], dtype="int32"))
    assert tuple(symbolic.shape) == (None, *output_shape[1:])


@each
def test_config_round_trip_and_saved_model(cls, arguments, shape, indices, output_shape, weights, rng, tmp_path):
    layer = cls(**arguments, name="given", dtype="mixed_bfloat16")
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    assert type(again) is cls and again.get_config() == layer.get_config()
    own = set(layer.get_config()) - set(keras.layers.Layer().get_config())
    assert own == set(arguments) and all(getattr(layer, key) == value for key, value in arguments.items())
    inputs = [keras.Input(shape[1:]), keras.Input(indices.shape[1:], dtype="int32")]
    model = keras.Model(inputs, cls(**arguments)(*inputs))
    model.save(tmp_path / "model.keras")
    x = [rng.normal(size=shape).astype("float32"), indices]
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(*(keras.ops.convert_to_numpy(m(x)) for m in (model, loaded)))


@each
def test_mixed_precision_keeps_float32_weights(cls, arguments, shape, indices, output_shape, weights, rng):
    layer = cls(**arguments, dtype="mixed_bfloat16")
    y = layer(rng.normal(size=shape).astype("float32"), indices)
    assert keras.backend.standardize_dtype(y.dtype) == "bfloat16"
    assert {weight.dtype for weight in layer.weights} <= {"float32"}


@each
@pytest.mark.parametrize("how", ["graph", "xla"])
def test_compiled_equals_eager(how, cls, arguments, shape, indices, output_shape, weights, rng):
    layer = Fixed(cls(**arguments), indices)
    x = keras.ops.convert_to_tensor(rng.normal(size=shape).astype("float32"))
    y = layer(x)
    np.testing.assert_array_equal(*(keras.ops.convert_to_numpy(value) for value in (compiled(layer, how)(x), y)))


@each
def test_gradient_reaches_every_weight_and_only_the_tokens_that_are_used(
    cls, arguments, shape, indices, output_shape, weights, rng
):
    layer = Fixed(cls(**arguments), indices)
    x = rng.normal(size=shape).astype("float32")
    layer(x)
    by_weight, by_input = gradients(layer, x)
    assert len(by_weight) == weights and all(np.abs(g).min() > 1e-4 for g in by_weight.values())
    prefix = arguments.get("num_prefix_tokens", 0)
    for example, used in zip(by_input, indices):
        used = sorted({prefix + i for i in used.tolist() if i >= 0})
        assert sorted(np.flatnonzero(np.abs(example).max(axis=1))) == used


def test_int64_indices_and_a_batch_of_unknown_size(rng):
    if BACKEND != "tensorflow":
        pytest.skip("a graph of unknown batch is TensorFlow's")
    import tensorflow as tf

    layer = layers.CorruptPatches()
    x = rng.normal(size=(B, N, D)).astype("float32")
    y = layer(x, SOURCES)
    signature = [tf.TensorSpec((None, N, D)), tf.TensorSpec((None, N), tf.int64)]
    traced = tf.function(lambda a, b: layer(a, b), input_signature=signature)
    np.testing.assert_array_equal(traced(x, SOURCES.astype("int64")), y)


def test_errors():
    with pytest.raises(ValueError, match=r"sources must hold one index for each of 11 patches, received 7"):
        layers.CorruptPatches()(np.zeros((B, N, D)), np.zeros((B, 7), "int32"))
    with pytest.raises(ValueError, match=r"tokens must have shape .* and sources \(batch, count\), received"):
        layers.CorruptPatches()(np.zeros((B, 2, N, D)), np.zeros((B, N), "int32"))
    with pytest.raises(ValueError, match=r"and positions \(batch, count\), received \(3, 11, 5\) and \(3, 4, 1\)"):
        layers.PickTokens()(np.zeros((B, N, D)), np.zeros((B, 4, 1), "int32"))
    with pytest.raises(ValueError, match="num_prefix_tokens must be an int >= 0, received -1"):
        layers.PickTokens(-1)
