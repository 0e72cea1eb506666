"""What every public layer keeps: one table, one run. Sizes are prime where the layer allows it, and all distinct."""

import inspect
from dataclasses import dataclass

import keras
import numpy as np
import pytest
from backends import compiled, gradients, randomise

import vitkeras.layers

B, N, D, HEADS, MLP = 2, 7, 15, 3, 11  # D = 3 heads of 5


@dataclass(frozen=True)
class Case:
    """What a layer is made of and gives.

    `scale` is the deviation of its random weights, smaller where many channels add up, so that no softmax is a maximum.
    `depth` counts the attentions and blocks in a row: each takes the rounding of the one before as its input.
    """

    arguments: dict
    input_shape: tuple
    output_shape: tuple
    weights: int
    scale: float = 0.3
    depth: int = 1


BLOCK = dict(
    num_heads=HEADS,
    mlp_dim=MLP,
    dropout_rate=0.11,
    attention_dropout_rate=0.13,
    stochastic_depth_rate=0.17,
    activation="gelu",
    layer_norm_epsilon=1e-5,
)
RELATIVE = dict(relative_positions=True, num_prefix_tokens=2)

CASES = {
    "AxialAttention": Case(dict(num_heads=HEADS), (B, 5, N, D), (B, 5, N, D), 2 * 9, depth=2),
    "AxialEncoderBlock": Case(BLOCK, (B, 5, N, D), (B, 5, N, D), 2 * 16, depth=2),
    "ClassToken": Case({}, (B, N, D), (B, N + 1, D), 1),
    "EncoderBlock": Case(BLOCK | RELATIVE, (B, N, D), (B, N, D), 17),
    "GroupNorm": Case(dict(groups=3, epsilon=1e-5, scale_initializer="zeros"), (B, 5, N, 33), (B, 5, N, 33), 2),
    "LayerNorm": Case(dict(epsilon=1e-5), (B, N, D), (B, N, D), 2),
    "MlpBlock": Case(dict(mlp_dim=MLP, activation="gelu", dropout_rate=0.11), (B, N, D), (B, N, D), 4),
    "MultiHeadSelfAttention": Case(dict(num_heads=HEADS, dropout_rate=0.11) | RELATIVE, (B, N, D), (B, N, D), 9),
    "PatchEmbedding": Case(dict(patch_size=(3, 5), hidden_dim=13), (B, 21, 55, 3), (B, 7, 11, 13), 2),
    "PositionEmbedding": Case(dict(grid_size=(5, 7), num_prefix_tokens=2), (B, 37, 13), (B, 37, 13), 1),
    "PositionEmbedding2D": Case(dict(grid_size=(5, 7), num_prefix_tokens=2), (B, 37, 26), (B, 37, 26), 3),
    "RelativePositionLogits": Case(dict(num_prefix_tokens=2), (B, HEADS, N, 5), (B, HEADS, N, N), 1),
    # A width of 64 gives each of the 32 groups two channels; of one, it would take away what a bias adds. Three
    # convolutions and the projection, each with its norm, and attention (18 weights) in the place of the second.
    "ResidualUnit": Case(
        dict(width=64, strides=2, attention_heads=4), (B, 5, N, 3), (B, 3, 4, 256), 3 * 3 + 2 + 18, scale=0.1, depth=4
    ),
    "StdConv": Case(dict(filters=13, kernel_size=(3, 5), strides=(2, 3)), (B, 5, N, 3), (B, 3, 3, 13), 1),
    "StochasticDepth": Case(dict(rate=0.17, seed=19), (B, N, D), (B, N, D), 0),
    "TokenPooling": Case(dict(pooling="avg", num_prefix_tokens=2), (B, N, D), (B, D), 0),
}

# No row here: tests/models/test_features.py and tests/layers/test_corrupt_patches.py hold theirs.
SEVERAL_INPUTS = {"CorruptPatches", "PickTokens", "TokenMap"}

each_layer = pytest.mark.parametrize("name", sorted(CASES))


def make(name, /, **extra):
    return getattr(vitkeras.layers, name)(**CASES[name].arguments, **extra)


def built(name, /, **extra):
    layer = make(name, **extra)
    layer.build(CASES[name].input_shape)
    return randomise(layer, scale=CASES[name].scale)


@pytest.fixture
def images(rng):
    return lambda name: rng.normal(size=CASES[name].input_shape).astype("float32")


def test_no_public_layer_is_missing_from_the_table():
    assert sorted({*CASES, *SEVERAL_INPUTS}) == sorted(vitkeras.layers.__all__)


@each_layer
def test_the_table_sets_every_argument_to_something_else_than_its_default(name):
    parameters = _constructor_arguments(name)
    assert set(parameters) == set(CASES[name].arguments)
    for key, parameter in parameters.items():
        assert CASES[name].arguments[key] != parameter.default, key


def _constructor_arguments(name):
    cls = getattr(vitkeras.layers, name)
    if "__init__" not in vars(cls):
        return {}
    parameters = dict(list(inspect.signature(cls.__init__).parameters.items())[1:])
    return {key: p for key, p in parameters.items() if p.kind is not p.VAR_KEYWORD}


@each_layer
def test_constructor_arguments_are_attributes_are_config_keys(name):
    layer = make(name, name="given")
    own = set(layer.get_config()) - set(keras.layers.Layer(name="base").get_config())
    assert own == set(_constructor_arguments(name))
    for key, value in CASES[name].arguments.items():
        assert getattr(layer, key) == value == layer.get_config()[key]


@each_layer
def test_building_changes_no_argument_and_makes_the_expected_weights(name):
    layer = make(name)
    before = layer.get_config()
    layer(np.zeros(CASES[name].input_shape, "float32"))
    assert layer.get_config() == before
    assert len(layer.weights) == CASES[name].weights


@each_layer
def test_config_round_trip(name):
    layer = make(name, name="given", dtype="mixed_bfloat16", trainable=False)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    assert type(again) is type(layer)
    assert again.get_config() == layer.get_config()
    assert again.dtype_policy.name == "mixed_bfloat16" and again.trainable is False


@each_layer
def test_output_shape_is_what_it_says(name, images):
    case = CASES[name]
    layer = make(name)
    assert tuple(layer(images(name)).shape) == case.output_shape
    assert tuple(layer.compute_output_shape(case.input_shape)) == case.output_shape
    symbolic = make(name)(keras.Input(case.input_shape[1:]))
    assert tuple(symbolic.shape) == (None, *case.output_shape[1:])
    assert tuple(layer.compute_output_shape((None, *case.input_shape[1:]))) == (None, *case.output_shape[1:])


@each_layer
def test_saved_and_loaded_inside_a_model_without_custom_objects(name, images, tmp_path):
    inputs = keras.Input(CASES[name].input_shape[1:])
    model = keras.Model(inputs, make(name)(inputs))
    randomise(model)
    model.save(tmp_path / "model.keras")
    assert "Lambda" not in model.to_json()
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert type(again.layers[-1]) is getattr(vitkeras.layers, name)
    x = images(name)
    np.testing.assert_array_equal(*(keras.ops.convert_to_numpy(m(x)) for m in (model, again)))


@each_layer
def test_mixed_precision_computes_in_bfloat16_and_keeps_float32_weights(name, images, whole):
    layer = built(name, dtype="mixed_bfloat16")
    y = whole(layer)(images(name))
    assert keras.backend.standardize_dtype(y.dtype) == "bfloat16"
    assert {weight.dtype for weight in layer.weights} <= {"float32"}


@each_layer
def test_mixed_precision_stays_near_float32(name, images, assert_close, whole):
    half, full = whole(built(name, dtype="mixed_bfloat16")), built(name)
    x = images(name)
    y = keras.ops.cast(half(x), "float32")
    scale = float(np.abs(keras.ops.convert_to_numpy(full(x))).max())
    assert_close(y, full(x), atol=0.03 * scale * CASES[name].depth)  # 2^-8 a rounding, a handful of roundings in a row


@each_layer
@pytest.mark.parametrize("how", ["graph", "xla"])
def test_compiled_equals_eager(name, how, images, assert_close):
    layer = built(name)
    x = keras.ops.convert_to_tensor(images(name))
    assert_close(compiled(layer, how)(x), layer(x), atol=5e-6 * CASES[name].depth)


@each_layer
def test_gradient_reaches_every_weight_and_the_input(name, images, whole):
    by_weight, by_input = gradients(whole(built(name)), images(name))
    assert len(by_weight) == CASES[name].weights
    for path, gradient in [*by_weight.items(), ("input", by_input)]:
        assert gradient is not None, f"no gradient reaches {path}"
        assert np.isfinite(gradient).all(), path
        # A constant added to every key moves all scores of a row alike, which softmax does not see.
        if not path.endswith("key/bias"):
            assert np.abs(gradient).max() > 1e-4, f"the gradient of {path} is zero"


@each_layer
def test_examples_of_a_batch_do_not_see_each_other(name, images, assert_close):
    layer, x = built(name), images(name)
    y = layer(x)
    for i in range(B):
        other = images(name)
        other[i] = x[i]
        assert_close(layer(other)[i], y[i], atol=2e-6 * CASES[name].depth)


@each_layer
def test_a_second_layer_from_the_config_is_built_the_same(name):
    layer = built(name)
    again = type(layer).from_config(layer.get_config())
    again.build(CASES[name].input_shape)
    assert [w.shape for w in again.weights] == [w.shape for w in layer.weights]
