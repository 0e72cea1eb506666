"""Relative position logits against loops; axial layers against the inner layer on each row and column."""

import keras
import numpy as np
import numpy_reference as reference
import pytest
from backends import randomise

from vitkeras import layers
from vitkeras.layers.attention import attention_weights

B, N, D, HEADS, MLP = 2, 7, 15, 3, 11


def numpy(x):
    return keras.ops.convert_to_numpy(x)


def built(layer, x):
    layer.build(x.shape)
    return randomise(layer)


def relative_logits(query, embedding, prefix):
    """Product by product: query q with the embedding of the offset k - q, which is row k - q + L - 1."""
    batch, heads, count, dim = query.shape
    length, out = count - prefix, np.zeros((batch, heads, count, count))
    rows = embedding.reshape(2 * length - 1, heads, dim).astype("float64")
    for q in range(length):
        for k in range(length):
            out[:, :, prefix + q, prefix + k] = np.einsum(
                "bhd,hd->bh", query[:, :, prefix + q], rows[k - q + length - 1]
            )
    return out


@pytest.mark.parametrize("prefix", [0, 1, 2])
@pytest.mark.parametrize("count", [3, 7, 13])
def test_relative_position_logits(count, prefix, rng, assert_close):
    query = rng.normal(size=(B, HEADS, count, 5)).astype("float32")
    layer = built(layers.RelativePositionLogits(prefix), query)
    assert_close(layer(query), relative_logits(query, numpy(layer.embedding), prefix), atol=2e-6)


def test_the_opposite_sign_of_the_offset_would_fail_that_test(rng, assert_close):
    query = rng.normal(size=(B, HEADS, N, 5)).astype("float32")
    layer = built(layers.RelativePositionLogits(), query)
    with pytest.raises(AssertionError, match="max abs difference"):
        assert_close(layer(query), relative_logits(query, numpy(layer.embedding)[::-1], 0), atol=0.1)


def test_relative_positions_start_as_normal_with_deviation_0_02():
    layer = layers.RelativePositionLogits()
    layer.build((None, 7, 89, 31))
    assert tuple(layer.embedding.shape) == (2 * 89 - 1, 7 * 31)  # one a offset: appendix D.4
    assert numpy(layer.embedding).std() == pytest.approx(0.02, rel=0.02)


@pytest.mark.parametrize("prefix", [0, 2])
def test_attention_adds_them_to_the_logits_before_the_softmax(prefix, rng, assert_close):
    x = rng.normal(size=(B, N, D)).astype("float32")
    layer = built(layers.MultiHeadSelfAttention(HEADS, relative_positions=True, num_prefix_tokens=prefix), x)
    query, key = (
        (x.astype("float64") @ numpy(dense.kernel) + numpy(dense.bias)).reshape(B, N, HEADS, -1).transpose(0, 2, 1, 3)
        for dense in (layer.query, layer.key)
    )
    query = query / np.sqrt(D // HEADS)  # both logits are scaled
    content = query @ key.transpose(0, 1, 3, 2)
    expected = reference.softmax(content + relative_logits(query, numpy(layer.relative.embedding), prefix))
    assert_close(layer.attention_weights(x), expected, atol=2e-6)
    with pytest.raises(AssertionError, match="max abs difference"):
        assert_close(layer.attention_weights(x), reference.softmax(content), atol=0.05)


def test_the_bias_of_the_attention_function_is_optional(rng, assert_close):
    query, key = rng.normal(size=(2, B, HEADS, N, 5)).astype("float32")
    bias = rng.normal(size=(B, HEADS, N, N)).astype("float32")
    products = np.einsum("bhqd,bhkd->bhqk", query.astype("float64"), key)
    arguments = [keras.ops.convert_to_tensor(x) for x in (query, key, bias)]
    assert_close(attention_weights(*arguments[:2]), reference.softmax(products), atol=2e-6)
    assert_close(attention_weights(*arguments), reference.softmax(products + bias), atol=2e-6)


def test_relative_attention_sees_order_but_not_absolute_position(rng, assert_close):
    """Shifting tokens along a background of equal ones shifts the logits; permuting them changes them."""
    query = np.tile(rng.normal(size=(1, HEADS, 1, 5)), (1, 1, N, 1)).astype("float32")
    layer = built(layers.RelativePositionLogits(), query)
    logits = numpy(layer(query))
    assert_close(logits[:, :, 1:, 1:], logits[:, :, :-1, :-1], atol=1e-6)  # constant along each diagonal
    assert np.abs(logits[:, :, 0, 1:] - logits[:, :, 0, :-1]).max() > 0.1


AXIAL = {
    "attention": lambda: layers.AxialAttention(HEADS),
    "block": lambda: layers.AxialEncoderBlock(HEADS, MLP, activation="gelu", layer_norm_epsilon=1e-3),
}
each_axial = pytest.mark.parametrize("make", AXIAL.values(), ids=AXIAL)


@pytest.fixture
def grid(rng):
    return rng.normal(size=(B, 5, N, D)).astype("float32")


@each_axial
def test_an_axial_layer_is_its_inner_layers_on_each_row_then_on_each_column(make, grid, assert_close, whole):
    layer = built(make(), grid)
    row, column, scores = whole(layer.row), whole(layer.column), whole(layer)(grid)
    rows = np.stack([numpy(row(grid[:, i])) for i in range(5)], axis=1)
    columns = np.stack([numpy(column(rows[:, :, j])) for j in range(N)], axis=2)
    assert_close(scores, columns, atol=1e-5)
    with pytest.raises(AssertionError, match="max abs difference"):
        assert_close(scores, rows, atol=0.1)


@each_axial
def test_transposing_the_map_swaps_rows_and_columns(make, grid, assert_close, whole):
    layer, turned = built(make(), grid), built(make(), grid.transpose(0, 2, 1, 3))
    for axis, other in (("row", "column"), ("column", "row")):
        for ours, theirs in zip(getattr(turned, axis).weights, getattr(layer, other).weights, strict=True):
            ours.assign(theirs)
    # `turned` on the transposed map does `layer`'s column step first, and `layer`'s row step then.
    y = numpy(whole(turned)(grid.transpose(0, 2, 1, 3))).transpose(0, 2, 1, 3)
    row, column = whole(layer.row), whole(layer.column)
    columns = np.stack([numpy(column(grid[:, :, j])) for j in range(N)], axis=2)
    assert_close(y, np.stack([numpy(row(columns[:, i])) for i in range(5)], axis=1), atol=1e-5)


@each_axial
def test_one_changed_position_reaches_all_others_in_two_steps(make, grid):
    layer = built(make(), grid)
    before = numpy(layer(grid))
    grid[0, 2, 3] *= -1  # LayerNorm would not see a constant added to all channels
    changed = np.abs(numpy(layer(grid)) - before).max(-1) > 1e-6
    assert changed[0].all() and not changed[1].any()


@each_axial
def test_the_inner_layers_are_told_apart_in_saved_files(make, grid):
    names = {weight.path.split("/")[1] for weight in built(make(), grid).weights}
    assert names == {"row", "column"}


def test_only_axial_attention_has_relative_positions(grid):
    """Appendix D.6: AxialResNet needs them, Axial-ViT adds its positions to the patches."""
    attention, block = built(layers.AxialAttention(HEADS), grid), built(layers.AxialEncoderBlock(HEADS, MLP), grid)
    assert tuple(attention.row.relative.embedding.shape) == (2 * N - 1, D)
    assert tuple(attention.column.relative.embedding.shape) == (2 * 5 - 1, D)
    assert block.row.attention.relative is None and block.column.attention.relative is None


def test_a_block_takes_maps_of_any_size(grid, assert_close):
    block = layers.AxialEncoderBlock(HEADS, MLP)
    assert tuple(block(keras.Input((None, None, D))).shape) == (None, None, None, D)
    randomise(block)
    known = layers.AxialEncoderBlock(HEADS, MLP)
    assert_close(block(grid), built(known, grid)(grid), atol=1e-6)


@pytest.mark.parametrize("rate", ["dropout_rate", "attention_dropout_rate", "stochastic_depth_rate"])
def test_rates_reach_both_inner_blocks(rate, grid, whole):
    block = built(layers.AxialEncoderBlock(HEADS, MLP, **{rate: 0.5}), grid)
    assert getattr(block.row, rate) == getattr(block.column, rate) == 0.5
    np.testing.assert_array_equal(numpy(block(grid)), numpy(built(layers.AxialEncoderBlock(HEADS, MLP), grid)(grid)))
    assert (numpy(whole(block)(grid, training=True)) != numpy(whole(block)(grid))).any()
