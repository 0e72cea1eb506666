"""Multi-head self-attention (paper appendix A, Eq. 5 to 8).

Two pure functions, then a thin layer with the four projections.

Legend: B batch, N tokens, D hidden dimension, H heads, d = D / H head dimension.
"""

import keras
from keras import ops

from vitkeras.layers.relative_position import RelativePositionLogits


def attention_weights(query, key, bias=None):
    """Softmax over the keys of the scaled dot products, in float32 (paper Eq. 6).

    The scale 1 / sqrt(d) is expected to be in `query` already.

    Args:
        query: floating tensor (B, H, N, d).
        key: floating tensor (B, H, M, d).
        bias: optional floating tensor (B, H, N, M), added to the products before the softmax.

    Returns:
        float32 tensor (B, H, N, M); each row sums to 1.
    """
    # The key is transposed explicitly: a transposed operand of the product costs TFLite a partition.
    scores = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2)))  # (B, H, N, M)
    if bias is not None:
        scores = scores + bias
    return ops.softmax(ops.cast(scores, "float32"), axis=-1)


def attend(weights, value):
    """Weighted sums of the values (paper Eq. 7).

    Args:
        weights: floating tensor (B, H, N, M).
        value: floating tensor (B, H, M, d).

    Returns:
        Tensor (B, H, N, d) in the dtype of `value`.
    """
    return ops.matmul(ops.cast(weights, value.dtype), value)


@keras.saving.register_keras_serializable(package="vitkeras")
class MultiHeadSelfAttention(keras.layers.Layer):
    """Every token attends to every token, with H heads of dimension D / H.

    Paper appendix A. Query, key and value have separate projections, all with bias; the softmax
    runs in float32 under every dtype policy.

    Args:
        num_heads: int > 0, must divide D.
        dropout_rate: float in [0, 1), dropout on the attention weights. Default 0.
        relative_positions: bool, whether `RelativePositionLogits` are added before the softmax (appendix D.4).
            Default False.
        num_prefix_tokens: int >= 0, tokens before the patches, which have no relative position. Default 0.

    Call arguments:
        x: floating tensor (B, N, D).
        training: bool or None.

    Returns:
        Tensor (B, N, D).

    Raises:
        ValueError: if D is not a multiple of `num_heads`.

    Example:
        >>> tuple(MultiHeadSelfAttention(num_heads=3)(keras.ops.ones((2, 5, 48))).shape)
        (2, 5, 48)
    """

    def __init__(self, num_heads, dropout_rate=0.0, relative_positions=False, num_prefix_tokens=0, **kwargs):
        super().__init__(**kwargs)
        if num_heads < 1:
            raise ValueError(f"num_heads must be a positive int, received {num_heads}.")
        self.num_heads = num_heads
        self.dropout_rate = dropout_rate
        self.relative_positions = relative_positions
        self.num_prefix_tokens = num_prefix_tokens
        self.relative = None
        self.dropout = keras.layers.Dropout(dropout_rate, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape):
        dim = input_shape[-1]
        if dim % self.num_heads:
            raise ValueError(f"hidden_dim must be a multiple of num_heads {self.num_heads}, received {dim}.")
        for name in ("query", "key", "value", "out"):
            dense = keras.layers.Dense(dim, kernel_initializer="glorot_uniform", dtype=self.dtype_policy, name=name)
            dense.build((None, dim))
            setattr(self, name, dense)
        if self.relative_positions:
            self.relative = RelativePositionLogits(self.num_prefix_tokens, dtype=self.dtype_policy, name="relative")
            self.relative.build((None, self.num_heads, input_shape[1], dim // self.num_heads))

    @staticmethod
    def _count(x):
        """N: an int where the graph knows it, as converters want it, else a scalar tensor."""
        return ops.shape(x)[1] if x.shape[1] is None else x.shape[1]

    def _split_heads(self, x, count):
        """(B * N, D) -> (B, H, N, d)."""
        x = ops.reshape(x, (-1, count, self.num_heads, x.shape[-1] // self.num_heads))  # (B, N, H, d)
        return ops.transpose(x, (0, 2, 1, 3))

    def _flatten(self, x):
        """(B, N, D) -> (B * N, D): rank 2 keeps each bias next to its product, where backends fuse the two."""
        return ops.reshape(x, (-1, x.shape[-1]))

    def attention_weights(self, x):
        """Returns the float32 softmax weights (B, H, query, key) for the tokens `x` (B, N, D)."""
        count, dim = self._count(x), x.shape[-1]
        x = self._flatten(x)
        # Scaling before the split keeps the product next to the projection, where converters fuse it.
        query = self._split_heads(self.query(x) * (dim // self.num_heads) ** -0.5, count)
        bias = None if self.relative is None else self.relative(query)
        return attention_weights(query, self._split_heads(self.key(x), count), bias)

    def call(self, x, training=None):
        count, dim = self._count(x), x.shape[-1]
        weights = self.dropout(self.attention_weights(x), training=training)
        y = self.mix(weights, self._split_heads(self.value(self._flatten(x)), count))
        y = ops.transpose(y, (0, 2, 1, 3))  # (B, N, H, d)
        y = self.out(ops.reshape(y, (-1, dim)))  # (B * N, D)
        return ops.reshape(y, (-1, count, dim))

    def mix(self, weights, value):
        """`attend`: the sums (B, H, N, d) of the values (B, H, M, d) by the weights (B, H, N, M)."""
        return attend(weights, value)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "dropout_rate": self.dropout_rate,
            "relative_positions": self.relative_positions,
            "num_prefix_tokens": self.num_prefix_tokens,
        }
