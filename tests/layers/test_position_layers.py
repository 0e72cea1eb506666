"""Position embeddings on tokens and maps, in two dimensions, and resized inside the graph."""

import keras
import numpy as np
import pytest
from backends import compiled, randomise

from vitkeras import layers
from vitkeras.layers.position_embedding import bilinear_tensor, resize_position_embedding

B, D = 2, 6
GRID = (5, 7)
SIZES = [(3, 11), (13, 2), (7, 5), (1, 1), (1, 17), (5, 7)]


def numpy(x):
    return keras.ops.convert_to_numpy(x)


def made(layer_class, prefix, rng, **arguments):
    layer = layer_class(GRID, prefix, **arguments)
    layer(np.zeros((B, prefix + 35, D), "float32"))
    return randomise(layer)


def both(rng, prefix, size):
    """Tokens of a grid of `size` after `prefix` others, and a map of that size."""
    count = prefix + size[0] * size[1]
    return rng.normal(size=(B, count, D)).astype("float32"), np.zeros((B, *size, D), "float32")


@pytest.mark.parametrize("old, new", [(5, 3), (5, 13), (2, 29), (1, 7), (7, 1), (11, 11)])
def test_the_weights_in_the_graph_are_those_of_numpy(old, new, assert_close):
    ramp = np.eye(old)[None, :, None].transpose(0, 1, 3, 2).reshape(1, old, old)
    expected = resize_position_embedding(ramp, (old, 1), (new, 1), 0)[0]
    assert_close(bilinear_tensor(old, new), expected, atol=1e-6)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("prefix", [0, 1, 2])
def test_resized_in_the_graph_as_in_numpy(size, prefix, rng, assert_close):
    layer = made(layers.PositionEmbedding, prefix, rng)
    tokens, grid = both(rng, prefix, size)
    expected = tokens + resize_position_embedding(numpy(layer.embedding), GRID, size, prefix)
    assert_close(layer(tokens, grid), expected, atol=2e-6)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("layer_class", [layers.PositionEmbedding, layers.PositionEmbedding2D])
def test_resized_in_the_graph_as_by_resized_weights(layer_class, size, rng, assert_close):
    layer, fixed = made(layer_class, 1, rng), layer_class(size, 1)
    tokens, grid = both(rng, 1, size)
    fixed(tokens)
    for name, weight in layer.resized_weights(size).items():
        getattr(fixed, name).assign(weight)
    assert_close(layer(tokens, grid), fixed(tokens), atol=2e-6)


@pytest.mark.parametrize("layer_class", [layers.PositionEmbedding, layers.PositionEmbedding2D])
def test_its_own_grid_is_resized_to_itself_bit_for_bit(layer_class, rng):
    layer = made(layer_class, 1, rng)
    tokens, grid = both(rng, 1, GRID)
    np.testing.assert_array_equal(numpy(layer(tokens, grid)), numpy(layer(tokens)))


@pytest.mark.parametrize("how", ["graph", "xla"])
@pytest.mark.parametrize("layer_class", [layers.PositionEmbedding, layers.PositionEmbedding2D])
def test_resized_in_a_compiled_graph(layer_class, how, rng, assert_close):
    tokens, grid = both(rng, 0, (3, 11))
    image = keras.Input((3, 11, D))
    model = keras.Model(image, layer_class(GRID, 0)(keras.layers.Reshape((-1, D))(image), image))
    randomise(model)
    x = keras.ops.reshape(keras.ops.convert_to_tensor(tokens), (B, 3, 11, D))
    assert_close(compiled(model, how)(x), model(x), atol=2e-6)


@pytest.mark.parametrize("resized", [False, True])
def test_a_map_gets_the_embedding_of_each_of_its_positions(resized, rng, assert_close):
    layer = made(layers.PositionEmbedding, 0, rng)
    size = (3, 11) if resized else GRID
    tokens, grid = both(rng, 0, size)
    x = tokens.reshape(B, *size, D)
    arguments = (grid,) if resized else ()
    assert_close(layer(x, *arguments), numpy(layer(tokens, *arguments)).reshape(x.shape), atol=0)


def test_a_layer_may_be_built_by_a_call_that_resizes(rng):
    tokens, grid = both(rng, 1, (3, 11))
    for layer in (layers.PositionEmbedding(GRID), layers.PositionEmbedding2D(GRID)):
        assert tuple(layer(tokens, grid).shape) == tokens.shape
    assert tuple(layers.PositionEmbedding(GRID)(keras.Input((None, D)), keras.Input((None, None, D))).shape)[1:] == (
        None,
        D,
    )


@pytest.mark.parametrize("prefix", [0, 1, 2])
def test_two_dimensional_embedding_is_an_x_half_and_a_y_half(prefix, rng, assert_close):
    layer = made(layers.PositionEmbedding2D, prefix, rng)
    tokens, _ = both(rng, prefix, GRID)
    added = numpy(layer(tokens)) - tokens
    for i in range(GRID[0]):
        for j in range(GRID[1]):
            expected = np.concatenate([numpy(layer.x_embedding)[j], numpy(layer.y_embedding)[i]])
            assert_close(added[:, prefix + 7 * i + j], np.stack([expected] * B), atol=1e-6)
    if prefix:
        assert_close(added[0, :prefix], numpy(layer.prefix_embedding), atol=1e-6)
    assert len(layer.weights) == 2 + bool(prefix)


def test_two_dimensional_embedding_starts_as_normal_with_deviation_0_02():
    layer = layers.PositionEmbedding2D((89, 97))
    layer.build((None, 1 + 89 * 97, 122))
    for weight in (layer.x_embedding, layer.y_embedding):
        assert numpy(weight).std() == pytest.approx(0.02, rel=0.03)


def test_two_dimensional_resize_keeps_rows_and_columns(rng, assert_close):
    layer = made(layers.PositionEmbedding2D, 1, rng)
    weights = layer.resized_weights((3, 11))
    assert {name: weight.shape for name, weight in weights.items()} == {
        "x_embedding": (11, 3),
        "y_embedding": (3, 3),
        "prefix_embedding": (1, D),
    }
    for name in ("x_embedding", "y_embedding"):  # align-corners: the ends stay
        assert_close(weights[name][[0, -1]], numpy(getattr(layer, name))[[0, -1]], atol=1e-7)
    np.testing.assert_array_equal(weights["prefix_embedding"], numpy(layer.prefix_embedding))


@pytest.mark.parametrize("layer_class", [layers.PositionEmbedding, layers.PositionEmbedding2D])
def test_mixed_precision_resizes_in_float32(layer_class, rng, assert_close):
    half, full = made(layer_class, 1, rng, dtype="mixed_bfloat16"), made(layer_class, 1, rng)
    tokens, grid = both(rng, 1, (3, 11))
    y = half(keras.ops.zeros(tokens.shape, "bfloat16"), grid)
    assert keras.backend.standardize_dtype(y.dtype) == "bfloat16"
    # One rounding of weights of about 1 before and one after: 2 * 2^-9.
    assert_close(keras.ops.cast(y, "float32"), full(np.zeros_like(tokens), grid), atol=2**-8)


def test_gradients_reach_an_embedding_through_the_resize(rng):
    from backends import gradients

    image = keras.Input((3, 11, D))
    for layer_class in (layers.PositionEmbedding, layers.PositionEmbedding2D):
        model = keras.Model(image, layer_class(GRID, 0)(keras.layers.Reshape((-1, D))(image), image))
        by_weight, _ = gradients(randomise(model), rng.normal(size=(B, 3, 11, D)).astype("float32"))
        assert by_weight and all(np.abs(gradient).max() > 1e-3 for gradient in by_weight.values())
