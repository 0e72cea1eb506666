"""From the encoder's tokens back to a map of the image.

Legend: B batch, P prefix tokens, h w patch grid, D hidden dimension.
"""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="vitkeras")
class TokenMap(keras.layers.Layer):
    """Drops the prefix tokens and lays the patch tokens out as a map.

    Args:
        num_prefix_tokens: int >= 0, P. Default 1.

    Call arguments:
        tokens: floating tensor (B, P + h * w, D), patches in raster order.
        grid: tensor (B, h, w, any), whose shape says the grid, such as the patch embedding's output.

    Returns:
        Tensor (B, h, w, D).

    Example:
        >>> tuple(TokenMap()(keras.ops.ones((2, 16, 48)), keras.ops.ones((2, 3, 5, 7))).shape)
        (2, 3, 5, 48)
    """

    def __init__(self, num_prefix_tokens=1, **kwargs):
        super().__init__(**kwargs)
        self.num_prefix_tokens = num_prefix_tokens

    def call(self, tokens, grid):
        height, width = ops.shape(grid)[1:3]
        patches = tokens[:, self.num_prefix_tokens :] if self.num_prefix_tokens else tokens
        return ops.reshape(patches, (-1, height, width, tokens.shape[-1]))

    def compute_output_shape(self, tokens_shape, grid_shape):
        return (tokens_shape[0], *grid_shape[1:3], tokens_shape[-1])

    def get_config(self):
        return {**super().get_config(), "num_prefix_tokens": self.num_prefix_tokens}
