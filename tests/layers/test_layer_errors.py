"""Every error names the argument, the rule and what came."""

import re

import keras
import numpy as np
import pytest

from vitkeras import layers
from vitkeras.layers.patch_embedding import pair
from vitkeras.layers.position_embedding import resize_position_embedding

ERRORS = {
    "heads must be positive": (
        lambda: layers.MultiHeadSelfAttention(0),
        "num_heads must be a positive int, received 0.",
    ),
    "heads divide the width": (
        lambda: layers.MultiHeadSelfAttention(4)(np.ones((2, 7, 15), "float32")),
        "hidden_dim must be a multiple of num_heads 4, received 15.",
    ),
    "negative epsilon": (lambda: layers.LayerNorm(-1e-6), "epsilon must be >= 0, received -1e-06."),
    "unknown activation": (
        lambda: layers.MlpBlock(11, "relu"),
        "activation must be 'gelu_tanh' (original JAX weights) or 'gelu' (erf: timm, Hugging Face, DINO), "
        "received 'relu'.",
    ),
    "patch of three": (
        lambda: layers.PatchEmbedding((3, 5, 7), 13),
        "patch_size must be a positive int or a pair (height, width) of them, received (3, 5, 7).",
    ),
    "patch of zero": (
        lambda: layers.PatchEmbedding(0, 13),
        "patch_size must be a positive int or a pair (height, width) of them, received 0.",
    ),
    "images of rank 3": (
        lambda: layers.PatchEmbedding(3, 13)(np.ones((21, 15, 3), "float32")),
        "images must have shape (batch, height, width, channels), received (21, 15, 3).",
    ),
    "height is no multiple": (
        lambda: layers.PatchEmbedding((3, 5), 13)(np.ones((2, 22, 55, 3), "float32")),
        "image height must be a multiple of the patch height 3, received 22 (remainder 1).",
    ),
    "width is no multiple": (
        lambda: layers.PatchEmbedding((3, 5), 13)(np.ones((2, 21, 58, 3), "float32")),
        "image width must be a multiple of the patch width 5, received 58 (remainder 3).",
    ),
    "grid of floats": (
        lambda: layers.PositionEmbedding((2.0, 3)),
        "grid_size must be a positive int or a pair (height, width) of them, received (2.0, 3).",
    ),
    "tokens that don't fit the grid": (
        lambda: layers.PositionEmbedding((5, 7))(np.ones((2, 35, 13), "float32")),
        "tokens must number 36 (1 prefix + grid (5, 7)), received shape (2, 35, 13).",
    ),
    "map of another shape with as many positions": (
        lambda: layers.PositionEmbedding((5, 7), 0)(np.ones((2, 7, 5, 13), "float32")),
        "tokens must number 35 (0 prefix + grid (5, 7)), received shape (2, 7, 5, 13).",
    ),
    "map with prefix tokens": (
        lambda: layers.PositionEmbedding((5, 7))(np.ones((2, 5, 7, 13), "float32")),
        "tokens must have shape (batch, tokens, hidden_dim) with 1 prefix tokens, received (2, 5, 7, 13).",
    ),
    "two dimensions of an odd width": (
        lambda: layers.PositionEmbedding2D((5, 7))(np.ones((2, 36, 13), "float32")),
        "hidden_dim must be even for two-dimensional position embeddings, received 13.",
    ),
    "two dimensions, tokens that don't fit": (
        lambda: layers.PositionEmbedding2D((5, 7), 2)(np.ones((2, 36, 14), "float32")),
        "tokens must number 37 (2 prefix + grid (5, 7)), received shape (2, 36, 14).",
    ),
    "two dimensions, grid of three": (
        lambda: layers.PositionEmbedding2D((5, 7, 9)),
        "grid_size must be a positive int or a pair (height, width) of them, received (5, 7, 9).",
    ),
    "relative positions of unknown tokens": (
        lambda: layers.RelativePositionLogits()(keras.Input((3, None, 5))),
        "relative positions need a known number of tokens above 0, received None.",
    ),
    "relative positions of prefix tokens alone": (
        lambda: layers.RelativePositionLogits(2)(np.ones((2, 3, 2, 5), "float32")),
        "relative positions need a known number of tokens above 2, received 2.",
    ),
    "relative positions of another length": (
        lambda: relative_of_seven()(np.ones((2, 3, 5, 5), "float32")),
        "tokens must number 7, for which this layer was built, received 5.",
    ),
    "negative prefix": (
        lambda: layers.RelativePositionLogits(-1),
        "num_prefix_tokens must be an int >= 0, received -1.",
    ),
    "axial heads": (lambda: layers.AxialAttention(0), "num_heads must be a positive int, received 0."),
    "axial heads divide the width": (
        lambda: layers.AxialEncoderBlock(4, 11)(np.ones((2, 5, 7, 15), "float32")),
        "hidden_dim must be a multiple of num_heads 4, received 15.",
    ),
    "axial attention of an unknown width": (
        lambda: layers.AxialAttention(3)(keras.Input((5, None, 15))),
        "relative positions need a known number of tokens above 0, received None.",
    ),
    "filters": (lambda: layers.StdConv(0, 3), "filters must be a positive int, received 0."),
    "filters of a float": (lambda: layers.StdConv(8.0, 3), "filters must be a positive int, received 8.0."),
    "kernel of three": (
        lambda: layers.StdConv(8, (3, 3, 3)),
        "kernel_size must be a positive int or a pair (height, width) of them, received (3, 3, 3).",
    ),
    "stride of zero": (
        lambda: layers.StdConv(8, 3, 0),
        "strides must be a positive int or a pair (height, width) of them, received 0.",
    ),
    "groups": (lambda: layers.GroupNorm(0), "groups must be a positive int, received 0."),
    "groups do not divide": (
        lambda: layers.GroupNorm(5)(np.ones((2, 3, 7, 11), "float32")),
        "channels must be a multiple of groups 5, received 11.",
    ),
    "negative epsilon of groups": (lambda: layers.GroupNorm(5, -1.0), "epsilon must be >= 0, received -1.0."),
    "unknown initializer": (lambda: layers.GroupNorm(scale_initializer="onez"), "onez"),
    "unit width": (lambda: layers.ResidualUnit(0), "width must be a positive int, received 0."),
    "unit width of 33": (
        lambda: layers.ResidualUnit(33),
        "width must be a multiple of GroupNorm's 32 groups, received 33.",
    ),
    "unit stride": (lambda: layers.ResidualUnit(32, (2, 2)), "strides must be a positive int, received (2, 2)."),
    "unit heads": (
        lambda: layers.ResidualUnit(32, attention_heads=0),
        "attention_heads must be a positive int, received 0.",
    ),
    "rate of one": (lambda: layers.StochasticDepth(1.0), "rate must be in [0, 1), received 1.0."),
    "negative rate": (lambda: layers.StochasticDepth(-0.1), "rate must be in [0, 1), received -0.1."),
    "unknown pooling": (
        lambda: layers.TokenPooling("mean"),
        "pooling must be one of ('token', 'avg', 'max'), received 'mean'.",
    ),
    "token pooling without class token": (
        lambda: layers.TokenPooling("token", 0),
        "pooling 'token' needs a class token, received num_prefix_tokens=0.",
    ),
    "unknown resize": (
        lambda: resize_position_embedding(np.ones((1, 7, 5)), (2, 3), (3, 5), method="nearest"),
        "method must be one of ('bilinear', 'bicubic'), received 'nearest'.",
    ),
    "resize of the wrong grid": (
        lambda: resize_position_embedding(np.ones((1, 7, 5)), (2, 5), (3, 5)),
        "embedding must have shape (1, 11, D) for grid (2, 5) and 1 prefix tokens, received (1, 7, 5).",
    ),
    "resize to nothing": (
        lambda: resize_position_embedding(np.ones((1, 7, 5)), (2, 3), (0, 5)),
        "new_grid must be a positive int or a pair (height, width) of them, received (0, 5).",
    ),
    "resize from nothing": (
        lambda: resize_position_embedding(np.ones((1, 7, 5)), -1, (3, 5)),
        "old_grid must be a positive int or a pair (height, width) of them, received -1.",
    ),
}


def relative_of_seven():
    layer = layers.RelativePositionLogits()
    layer.build((None, 3, 7, 5))
    return layer


@pytest.mark.parametrize("call, message", ERRORS.values(), ids=ERRORS)
def test_error(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


@pytest.mark.parametrize("name", ["dropout_rate", "attention_dropout_rate", "stochastic_depth_rate"])
def test_a_rate_outside_its_range_is_refused_by_the_block(name):
    with pytest.raises(ValueError, match="-0.1"):
        layers.EncoderBlock(3, 11, **{name: -0.1})


def test_pair_accepts_an_int_and_two():
    assert pair(3, "x") == (3, 3) and pair([3, 5], "x") == (3, 5)


def test_an_unknown_height_is_left_to_the_call():
    layer = layers.PatchEmbedding((3, 5), 13)
    assert tuple(layer(keras.Input((None, None, 3))).shape) == (None, None, None, 13)
