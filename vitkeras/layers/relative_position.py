"""Relative position as a bias of the attention (paper appendix D.4).

Legend: B batch, H heads, P prefix tokens, L positions, N = P + L tokens, d head dimension.
"""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="vitkeras")
class RelativePositionLogits(keras.layers.Layer):
    """Products of each query's content with an embedding of every query-key offset.

    Appendix D.4: the positions are those of the raster order, each of the 2 L - 1 offsets has an embedding, and the
    products are added to the content logits before the softmax. Prefix tokens have no position: their logits are zero.

    Args:
        num_prefix_tokens: int >= 0, P. Default 0.

    Call arguments:
        query: floating tensor (B, H, P + L, d), scaled by 1 / sqrt(d) already.

    Returns:
        Tensor (B, H, P + L, P + L); entry (q, k) belongs to the offset k - q.

    Raises:
        ValueError: if the number of tokens is not known when the layer is built, or is another one later.

    Example:
        >>> tuple(RelativePositionLogits()(keras.ops.ones((2, 3, 5, 16))).shape)
        (2, 3, 5, 5)
    """

    def __init__(self, num_prefix_tokens=0, **kwargs):
        super().__init__(**kwargs)
        if not isinstance(num_prefix_tokens, int) or num_prefix_tokens < 0:
            raise ValueError(f"num_prefix_tokens must be an int >= 0, received {num_prefix_tokens!r}.")
        self.num_prefix_tokens = num_prefix_tokens

    def build(self, input_shape):
        _, heads, count, dim = input_shape
        if count is None or count <= self.num_prefix_tokens:
            raise ValueError(
                f"relative positions need a known number of tokens above {self.num_prefix_tokens}, received {count}."
            )
        self.length = count - self.num_prefix_tokens
        # Row r belongs to the offset r - (L - 1).
        self.embedding = self.add_weight(
            name="embedding",
            shape=(2 * self.length - 1, heads * dim),
            initializer=keras.initializers.RandomNormal(stddev=0.02),
        )

    def call(self, query):
        heads, count, dim = query.shape[1:]
        length, prefix = self.length, self.num_prefix_tokens
        if count != length + prefix:
            raise ValueError(f"tokens must number {length + prefix}, for which this layer was built, received {count}.")
        keys = ops.reshape(ops.cast(self.embedding, query.dtype), (2 * length - 1, heads, dim))
        query = query[:, :, prefix:] if prefix else query
        logits = ops.matmul(query, ops.transpose(keys, (1, 2, 0)))  # (B, H, L, 2 L - 1), a column an offset
        # A row's columns start at its own offset -q. Padding each row by one and reading the numbers in rows that are
        # one shorter moves row q by q places, which lines the keys up without a gather.
        logits = ops.pad(logits, ((0, 0), (0, 0), (0, 0), (0, 1)))
        logits = ops.reshape(logits, (-1, heads, 2 * length * length))[:, :, : length * (2 * length - 1)]
        logits = ops.reshape(logits, (-1, heads, length, 2 * length - 1))[:, :, :, length - 1 :]
        return ops.pad(logits, ((0, 0), (0, 0), (prefix, 0), (prefix, 0))) if prefix else logits

    def compute_output_shape(self, input_shape):
        return (*input_shape[:3], input_shape[2])

    def get_config(self):
        return {**super().get_config(), "num_prefix_tokens": self.num_prefix_tokens}
