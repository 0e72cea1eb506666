"""Each layer against an independent NumPy float64 forward pass, and what stays float32 under mixed precision."""

import keras
import ml_dtypes
import numpy as np
import numpy_reference as reference
import pytest
from backends import randomise

from vitkeras import layers

B, N, D, HEADS, MLP = 2, 7, 15, 3, 11


def pair(dense):
    return tuple(keras.ops.convert_to_numpy(v).astype("float64") for v in (dense.kernel, dense.bias))


@pytest.fixture
def tokens(rng):
    return rng.normal(size=(B, N, D)).astype("float32")


def built(layer, x):
    layer(x)
    return randomise(layer)


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 0.5])
def test_layer_norm(tokens, epsilon, assert_close):
    layer = built(layers.LayerNorm(epsilon), tokens)
    scale, bias = (keras.ops.convert_to_numpy(v) for v in (layer.scale, layer.bias))
    assert_close(layer(tokens), reference.layer_norm(tokens, scale, bias, epsilon), atol=3e-6)


def test_layer_norm_epsilon_is_inside_the_root_and_defaults_to_the_originals(assert_close):
    # Variance 1e-6: with epsilon 1e-6 inside the root the result is 1 / sqrt(2); outside it would be about 0.999.
    x = np.array([[-1e-3, 1e-3]], "float32")
    assert_close(layers.LayerNorm()(x), np.array([[-1, 1]]) / np.sqrt(2), atol=1e-5)


@pytest.mark.parametrize("kind", ["gelu_tanh", "gelu"])
def test_mlp(tokens, kind, assert_close):
    layer = built(layers.MlpBlock(MLP, kind), tokens)
    expand, project = pair(layer.expand), pair(layer.project)
    assert_close(layer(tokens), reference.mlp(tokens.astype("float64"), expand, project, kind), atol=3e-6)


def test_the_two_gelus_differ_by_more_than_the_tolerance(tokens, assert_close):
    x = 3 * tokens
    tanh = built(layers.MlpBlock(MLP, "gelu_tanh"), x)
    erf = built(layers.MlpBlock(MLP, "gelu"), x)
    with pytest.raises(AssertionError, match="max abs difference"):
        assert_close(tanh(x), erf(x), atol=3e-5)


def attention_reference(layer, x):
    dense = {name: pair(getattr(layer, name)) for name in ("query", "key", "value", "out")}
    x = x.astype("float64")
    weights = reference.attention_weights(x, dense["query"], dense["key"], HEADS)
    return weights, reference.attention(x, **dense, heads=HEADS)


def test_attention_and_its_weights(tokens, assert_close):
    layer = built(layers.MultiHeadSelfAttention(HEADS), tokens)
    weights, output = attention_reference(layer, tokens)
    assert_close(layer.attention_weights(tokens), weights, atol=2e-6)
    assert_close(layer(tokens), output, atol=3e-6)


def test_encoder_block(tokens, assert_close):
    layer = built(layers.EncoderBlock(HEADS, MLP, activation="gelu", layer_norm_epsilon=1e-3), tokens)
    x = tokens.astype("float64")

    def norm(sublayer, value):
        return reference.layer_norm(value, *map(keras.ops.convert_to_numpy, (sublayer.scale, sublayer.bias)), 1e-3)

    x = x + attention_reference(layer.attention, norm(layer.attention_norm, x))[1]
    y = reference.mlp(norm(layer.mlp_norm, x), pair(layer.mlp.expand), pair(layer.mlp.project), "gelu")
    assert_close(layer(tokens), x + y, atol=1e-5)


def test_patch_embedding_is_a_reshape_and_a_matrix_product(rng, assert_close):
    images = rng.uniform(-1, 1, size=(2, 21, 55, 3)).astype("float32")
    layer = built(layers.PatchEmbedding((3, 5), 13), images)
    assert_close(layer(images), reference.patch_embedding(images, *pair(layer.projection)), atol=5e-6)


def test_class_token_comes_first(tokens, assert_close):
    layer = built(layers.ClassToken(), tokens)
    token = np.broadcast_to(keras.ops.convert_to_numpy(layer.token), (B, 1, D))
    assert_close(layer(tokens), np.concatenate([token, tokens], axis=1), atol=0)


def test_class_token_starts_at_zero(tokens):
    assert not keras.ops.convert_to_numpy(layers.ClassToken()(tokens))[:, 0].any()


def test_position_embedding_is_added_to_the_class_token_too(rng, assert_close):
    x = rng.normal(size=(B, 36, D)).astype("float32")
    layer = built(layers.PositionEmbedding((5, 7)), x)
    assert_close(layer(x), x + keras.ops.convert_to_numpy(layer.embedding), atol=0)


def test_position_embedding_starts_as_normal_with_deviation_0_02():
    layer = layers.PositionEmbedding((23, 29))
    layer.build((None, 668, 31))
    values = keras.ops.convert_to_numpy(layer.embedding)
    assert abs(values.mean()) < 1e-3 and values.std() == pytest.approx(0.02, rel=0.02)


def test_attention_and_mlp_start_xavier_uniform_and_mlp_biases_tiny():
    block = layers.EncoderBlock(num_heads=7, mlp_dim=389)
    block.build((None, N, 203))
    for dense, fans in ((block.attention.query, 203 + 203), (block.attention.out, 406), (block.mlp.expand, 203 + 389)):
        kernel, limit = keras.ops.convert_to_numpy(dense.kernel), np.sqrt(6 / fans)
        assert np.abs(kernel).max() <= limit and kernel.std() == pytest.approx(limit / np.sqrt(3), rel=0.02)
    assert not keras.ops.convert_to_numpy(block.attention.query.bias).any()
    assert keras.ops.convert_to_numpy(block.mlp.expand.bias).std() == pytest.approx(1e-6, rel=0.2)


@pytest.mark.parametrize("prefix", [0, 1, 2])
def test_pooling(tokens, prefix, assert_close):
    patches = tokens[:, prefix:]
    assert_close(layers.TokenPooling("avg", prefix)(tokens), patches.mean(1, dtype="float64"), atol=1e-6)
    assert_close(layers.TokenPooling("max", prefix)(tokens), patches.max(1), atol=0)
    if prefix:
        assert_close(layers.TokenPooling("token", prefix)(tokens), tokens[:, 0], atol=0)


# Mixed precision. Under bfloat16 a number has 8 significant bits: statistics in it are wrong by whole units here.


def offset_tokens(rng):
    return 256 + 2.0 * rng.integers(0, 8, size=(B, N, 61))  # exact in bfloat16


def test_layer_norm_statistics_are_float32_under_mixed_precision(rng, assert_close):
    x = offset_tokens(rng)
    y = layers.LayerNorm(dtype="mixed_bfloat16")(keras.ops.cast(x, "bfloat16"))
    assert_close(keras.ops.cast(y, "float32"), reference.layer_norm(x, 1, 0), atol=0.01)  # rounding of the output


def test_bfloat16_statistics_would_fail_that_test(rng, assert_close):
    x = offset_tokens(rng).astype(ml_dtypes.bfloat16)
    centred = x - x.mean(-1, keepdims=True, dtype=ml_dtypes.bfloat16)
    variance = np.mean(centred * centred, -1, keepdims=True, dtype=ml_dtypes.bfloat16)
    y = centred / np.sqrt(variance)
    with pytest.raises(AssertionError, match="max abs difference"):
        assert_close(
            y.astype("float32"), reference.layer_norm(offset_tokens(np.random.default_rng(20101929)), 1, 0), 0.01
        )


def test_softmax_is_float32_under_mixed_precision(tokens, assert_close):
    layer = built(layers.MultiHeadSelfAttention(HEADS, dtype="mixed_bfloat16"), tokens)
    weights = layer.attention_weights(keras.ops.cast(tokens, "bfloat16"))
    assert keras.backend.standardize_dtype(weights.dtype) == "float32"
    weights = keras.ops.convert_to_numpy(weights)
    assert_close(weights.sum(-1, dtype="float64"), np.ones((B, HEADS, N)), atol=1e-6)
    rounded = weights.astype(ml_dtypes.bfloat16).astype("float64")
    with pytest.raises(AssertionError, match="max abs difference"):  # a bfloat16 softmax would not sum to 1
        assert_close(rounded.sum(-1), np.ones((B, HEADS, N)), atol=1e-6)


def test_layer_norm_applies_a_float32_scale_under_mixed_precision(tokens):
    layer = layers.LayerNorm(dtype="mixed_bfloat16")
    layer(tokens)
    layer.scale.assign(np.full(D, 1 + 2**-9))  # 1 in bfloat16
    layer.bias.assign(np.full(D, -1.0))
    x = np.tile([1.0, -1.0, 0.0], 5).astype("float32")[None, None]
    y = keras.ops.convert_to_numpy(keras.ops.cast(layer(x), "float32"))
    errors = [np.abs(y - reference.layer_norm(x, scale, -1))[..., 0::3].max() for scale in (1 + 2**-9, 1)]
    # The result, about 0.227, is rounded by at most 2^-11; a bfloat16 scale would be off by 1.22 * 2^-9.
    assert errors[0] <= 2**-11 + 1e-6 < errors[1]


def test_average_pooling_is_float32_under_mixed_precision(rng, assert_close):
    tokens = offset_tokens(rng)
    y = layers.TokenPooling("avg", 0, dtype="mixed_bfloat16")(keras.ops.cast(tokens, "bfloat16"))
    assert_close(keras.ops.cast(y, "float32"), tokens.mean(1), atol=1.0)  # half a step of bfloat16 at 256
