"""Self-attention along the rows, then along the columns of a map (paper appendix D.6).

Legend: B batch, h w map height and width, D hidden dimension.
"""

import keras
from keras import ops

from vitkeras.layers.attention import MultiHeadSelfAttention

AXES = ("row", "column")


def along_axis(layer, x, axis, **kwargs):
    """Applies `layer`, made for tokens (B, N, D), to each row or column of a map (B, h, w, D)."""
    if axis == "column":
        return ops.transpose(along_axis(layer, ops.transpose(x, (0, 2, 1, 3)), "row", **kwargs), (0, 2, 1, 3))
    lines, count, dim = ops.shape(x)[1:]
    y = layer(ops.reshape(x, (-1, count, dim)), **kwargs)  # (B * h, w, D)
    return ops.reshape(y, (-1, lines, count, dim))


def line_shape(shape, axis):
    """Returns the tokens' shape that `along_axis` gives to its layer for a map of `shape`."""
    return (None, shape[2 if axis == "row" else 1], shape[3])


@keras.saving.register_keras_serializable(package="vitkeras")
class AxialAttention(keras.layers.Layer):
    """Multi-head self-attention on each row, then on each column, with relative positions.

    Appendix D.6, AxialResNet: what takes the place of a 3 x 3 convolution.

    Args:
        num_heads: int > 0, must divide D. Default 8.

    Call arguments:
        x: floating tensor (B, h, w, D); h and w must be known.

    Returns:
        Tensor (B, h, w, D).

    Raises:
        ValueError: if D is not a multiple of `num_heads`, or h or w is not known.

    Example:
        >>> tuple(AxialAttention(num_heads=4)(keras.ops.ones((2, 3, 5, 64))).shape)
        (2, 3, 5, 64)
    """

    def __init__(self, num_heads=8, **kwargs):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        for axis in AXES:
            attention = MultiHeadSelfAttention(num_heads, relative_positions=True, dtype=self.dtype_policy, name=axis)
            setattr(self, axis, attention)

    def build(self, input_shape):
        for axis in AXES:
            getattr(self, axis).build(line_shape(input_shape, axis))

    def call(self, x):
        for axis in AXES:
            x = along_axis(getattr(self, axis), x, axis)
        return x

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {**super().get_config(), "num_heads": self.num_heads}
