"""Properties: zero rates change nothing, dropped branches are whole examples, order comes from positions alone."""

import keras
import numpy as np
import pytest
from backends import randomise

from vitkeras import layers

B, N, D, HEADS, MLP = 2, 7, 15, 3, 11


def numpy(x):
    return keras.ops.convert_to_numpy(x)


@pytest.fixture
def tokens(rng):
    return rng.normal(size=(B, N, D)).astype("float32")


def test_stochastic_depth_drops_whole_examples_and_rescales_the_rest():
    rate, x = 0.3, np.random.default_rng(3).normal(size=(9973, 3, 5)).astype("float32")
    y = numpy(layers.StochasticDepth(rate, seed=5)(x, training=True))
    dropped = (y == 0).all(axis=(1, 2))
    assert dropped.mean() == pytest.approx(rate, abs=4 * np.sqrt(rate * (1 - rate) / 9973))  # four deviations
    np.testing.assert_allclose(y[~dropped], x[~dropped] / (1 - rate), rtol=1e-6)


def test_stochastic_depth_keeps_the_expectation():
    x = np.ones((9973, 2, 3), "float32")
    y = numpy(layers.StochasticDepth(0.2, seed=5)(x, training=True))
    assert y.mean() == pytest.approx(1, abs=4 * 0.5 / np.sqrt(9973))  # four deviations: sqrt(rate / (1 - rate)) = 0.5


def test_stochastic_depth_draws_anew_each_call():
    layer, x = layers.StochasticDepth(0.5, seed=5), np.ones((101, 2, 3), "float32")
    assert (numpy(layer(x, training=True)) != numpy(layer(x, training=True))).any()


def test_stochastic_depth_with_one_seed_repeats():
    x = np.ones((101, 2, 3), "float32")
    first, second = (numpy(layers.StochasticDepth(0.5, seed=5)(x, training=True)) for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("rate, training", [(0.0, True), (0.4, False), (0.4, None)])
def test_stochastic_depth_is_the_identity_without_rate_or_training(tokens, rate, training):
    np.testing.assert_array_equal(numpy(layers.StochasticDepth(rate)(tokens, training=training)), tokens)


def test_stochastic_depth_keeps_bfloat16():
    y = layers.StochasticDepth(0.3, dtype="mixed_bfloat16")(np.ones((5, 2, 3), "float32"), training=True)
    assert keras.backend.standardize_dtype(y.dtype) == "bfloat16"


def test_a_block_whose_branches_are_dropped_is_the_identity_for_that_example():
    x = np.random.default_rng(3).normal(size=(211, N, D)).astype("float32")
    block = layers.EncoderBlock(HEADS, MLP, stochastic_depth_rate=0.5)
    block(x)
    randomise(block)
    y = numpy(block(x, training=True))
    untouched = (y == x).all(axis=(1, 2)).mean()
    assert 0.15 < untouched < 0.35  # both branches: 0.5 * 0.5


DROPPING = {
    "attention weights": lambda r: layers.MultiHeadSelfAttention(HEADS, r),
    "mlp": lambda r: layers.MlpBlock(MLP, dropout_rate=r),
    "block, dense layers": lambda r: layers.EncoderBlock(HEADS, MLP, dropout_rate=r),
    "block, attention weights": lambda r: layers.EncoderBlock(HEADS, MLP, attention_dropout_rate=r),
    "block, branches": lambda r: layers.EncoderBlock(HEADS, MLP, stochastic_depth_rate=r),
}


@pytest.mark.parametrize("make", DROPPING.values(), ids=DROPPING)
def test_dropout_is_active_only_while_training_and_only_with_a_rate(tokens, make, whole):
    quiet, noisy = make(0.0), make(0.5)
    for layer in (quiet, noisy):
        layer(tokens)
        randomise(layer)
    expected = numpy(quiet(tokens))
    np.testing.assert_array_equal(numpy(quiet(tokens, training=True)), expected)
    np.testing.assert_array_equal(numpy(noisy(tokens, training=False)), expected)
    np.testing.assert_array_equal(numpy(noisy(tokens)), expected)
    assert np.abs(numpy(whole(noisy)(tokens, training=True)) - expected).max() > 1e-3  # beyond rounding


def test_the_qkv_projections_have_no_dropout(tokens):
    """Paper appendix B.1: after every dense layer except the qkv projections."""
    block = layers.EncoderBlock(HEADS, MLP, dropout_rate=0.5)
    block(tokens)
    randomise(block)
    np.testing.assert_array_equal(numpy(block.attention(tokens, training=True)), numpy(block.attention(tokens)))


def test_permuting_tokens_permutes_the_output_of_a_block(tokens, rng, assert_close):
    block = layers.EncoderBlock(HEADS, MLP)
    block(tokens)
    randomise(block)
    order = rng.permutation(N)
    assert_close(block(tokens[:, order]), numpy(block(tokens))[:, order], atol=5e-6)


def test_position_embedding_breaks_that_symmetry(tokens, rng):
    layer = randomise_built(layers.PositionEmbedding((2, 3)), tokens)
    order = np.roll(np.arange(N), 1)
    assert np.abs(numpy(layer(tokens[:, order])) - numpy(layer(tokens))[:, order]).max() > 0.1


def randomise_built(layer, x):
    layer(x)
    return randomise(layer)


def test_patch_embedding_sees_each_patch_alone(rng):
    images = rng.normal(size=(1, 6, 15, 3)).astype("float32")
    layer = randomise_built(layers.PatchEmbedding((3, 5), 13), images)
    before = numpy(layer(images))
    images[0, 3:6, 5:10] += 1  # the patch in row 1, column 1
    changed = np.abs(numpy(layer(images)) - before).max(-1)[0] > 1e-6
    assert np.argwhere(changed).tolist() == [[1, 1]]


def test_attention_takes_any_number_of_tokens(tokens):
    layer = layers.MultiHeadSelfAttention(HEADS)
    assert tuple(layer(keras.Input((None, D))).shape) == (None, None, D)
    assert tuple(layer(tokens).shape) == tokens.shape and tuple(layer(tokens[:, :5]).shape) == (B, 5, D)
