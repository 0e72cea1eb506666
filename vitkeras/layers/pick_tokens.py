"""Picks some tokens of each example, by their indices.

Legend: B batch, N tokens, M picked tokens, D hidden dimension.
"""

import keras
from keras import ops


def take_tokens(tokens, indices):
    """Returns tokens (B, M, D) at int indices (B, M) of tokens (B, N, D); all indices are in 0...N - 1."""
    # Rows of one matrix: `take_along_axis` would look up every single number.
    count, dim = ops.shape(tokens)[1], tokens.shape[-1]
    starts = count * ops.arange(ops.shape(tokens)[0], dtype="int32")  # (B,)
    rows = ops.reshape(ops.cast(indices, "int32") + starts[:, None], (-1,))  # (B * M,)
    picked = ops.take(ops.reshape(tokens, (-1, dim)), rows, axis=0)  # (B * M, D)
    return ops.reshape(picked, (-1, ops.shape(indices)[1], dim))


@keras.saving.register_keras_serializable(package="vitkeras")
class PickTokens(keras.layers.Layer):
    """Picks the tokens at given positions: of masked-patch prediction (paper appendix B.1.2), the corrupted ones.

    Args:
        num_prefix_tokens: int >= 0, tokens before the first patch, which positions don't count. Default 1.

    Call arguments:
        tokens: floating tensor (B, num_prefix_tokens + N, D).
        positions: int tensor (B, M), in 0...N - 1; a number outside is not noticed.

    Returns:
        Tensor (B, M, D), in the order of `positions`.

    Raises:
        ValueError: if the shapes are not of these ranks, or `num_prefix_tokens` is negative.

    Example:
        >>> picked = PickTokens()(keras.ops.ones((2, 8, 48)), np.array([[0, 6, 3], [5, 1, 2]]))
        >>> tuple(picked.shape)
        (2, 3, 48)
    """

    def __init__(self, num_prefix_tokens=1, **kwargs):
        super().__init__(**kwargs)
        if not isinstance(num_prefix_tokens, int) or num_prefix_tokens < 0:
            raise ValueError(f"num_prefix_tokens must be an int >= 0, received {num_prefix_tokens!r}.")
        self.num_prefix_tokens = num_prefix_tokens

    def build(self, tokens_shape, positions_shape):
        check_token_shapes(tokens_shape, "positions", positions_shape)

    def call(self, tokens, positions):
        return take_tokens(tokens, positions + self.num_prefix_tokens)

    def compute_output_shape(self, tokens_shape, positions_shape):
        return (*positions_shape[:2], tokens_shape[-1])

    def get_config(self):
        return {**super().get_config(), "num_prefix_tokens": self.num_prefix_tokens}


def check_token_shapes(tokens_shape, name, indices_shape):
    """Raises ValueError unless the shapes are (B, N, D) and (B, M); `name` is what the indices are called."""
    if len(tokens_shape) != 3 or len(indices_shape) != 2:
        raise ValueError(
            f"tokens must have shape (batch, tokens, hidden_dim) and {name} (batch, count), "
            f"received {tuple(tokens_shape)} and {tuple(indices_shape)}."
        )
