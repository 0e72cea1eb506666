"""From the encoder's tokens to one vector an image (paper Eq. 4 and appendix D.3).

Legend: B batch, N tokens, D hidden dimension.
"""

import keras
from keras import ops

POOLINGS = ("token", "avg", "max")


@keras.saving.register_keras_serializable(package="vitkeras")
class TokenPooling(keras.layers.Layer):
    """Reads one vector off the tokens.

    Args:
        pooling: "token" (the class token, paper Eq. 4), "avg" (global average pooling over the
            patch tokens, appendix D.3) or "max".
        num_prefix_tokens: int >= 0, tokens before the patches, left out of "avg" and "max".

    Call arguments:
        tokens: floating tensor (B, N, D).

    Returns:
        Tensor (B, D).

    Raises:
        ValueError: for an unknown pooling, or "token" without a class token.

    Example:
        >>> tuple(TokenPooling("token")(keras.ops.ones((2, 5, 48))).shape)
        (2, 48)
    """

    def __init__(self, pooling, num_prefix_tokens=1, **kwargs):
        super().__init__(**kwargs)
        if pooling not in POOLINGS:
            raise ValueError(f"pooling must be one of {POOLINGS}, received {pooling!r}.")
        if pooling == "token" and num_prefix_tokens < 1:
            raise ValueError("pooling 'token' needs a class token, received num_prefix_tokens=0.")
        self.pooling = pooling
        self.num_prefix_tokens = num_prefix_tokens

    def call(self, tokens):
        if self.pooling == "token":
            # A slice of length one and a reshape: x[:, 0] would split the converted TFLite graph.
            return ops.reshape(tokens[:, 0:1], (-1, tokens.shape[-1]))  # (B, 1, D) -> (B, D)
        patches = tokens[:, self.num_prefix_tokens :] if self.num_prefix_tokens else tokens
        if self.pooling == "max":
            return ops.max(patches, axis=1)
        return ops.cast(ops.mean(ops.cast(patches, "float32"), axis=1), self.compute_dtype)

    def compute_output_shape(self, input_shape):
        return input_shape[0], input_shape[-1]

    def get_config(self):
        return {
            **super().get_config(),
            "pooling": self.pooling,
            "num_prefix_tokens": self.num_prefix_tokens,
        }
