"""Convolution with weight standardisation (arXiv 1903.10520), as in the paper's ResNet (section 3.1, appendix B.1).

Legend: B batch, H W map height and width, C channels.
"""

import keras
from keras import ops

from vitkeras.layers.patch_embedding import pair


@keras.saving.register_keras_serializable(package="vitkeras")
class StdConv(keras.layers.Layer):
    """A SAME convolution without bias whose kernel is standardised for each output channel before use.

    `w = (w - mean) / (std + 1e-5)` over height, width and input channels, with the population's standard
    deviation and the epsilon outside the root, as the original does it (in float32 under every dtype policy).

    Args:
        filters: int > 0, output channels.
        kernel_size: int or (height, width).
        strides: int or (height, width). Default 1.

    Call arguments:
        x: floating tensor (B, H, W, C).

    Returns:
        Tensor (B, ceil(H / stride), ceil(W / stride), filters); where the padding is odd, the extra row and column
        lie at the bottom and right.

    Raises:
        ValueError: if an argument isn't positive.

    Example:
        >>> tuple(StdConv(8, 3, strides=2)(keras.ops.ones((2, 7, 10, 3))).shape)
        (2, 4, 5, 8)
    """

    epsilon = 1e-5  # the original's constant, outside the root

    def __init__(self, filters, kernel_size, strides=1, **kwargs):
        super().__init__(**kwargs)
        if not isinstance(filters, int) or filters < 1:
            raise ValueError(f"filters must be a positive int, received {filters!r}.")
        self.filters = filters
        self.kernel_size = pair(kernel_size, "kernel_size")
        self.strides = pair(strides, "strides")

    def build(self, input_shape):
        self.kernel = self.add_weight(
            name="kernel",
            shape=(*self.kernel_size, input_shape[-1], self.filters),
            initializer="lecun_normal",
            autocast=False,
        )

    def standardised_kernel(self):
        """Returns the float32 kernel that the convolution uses."""
        centred = self.kernel - ops.mean(self.kernel, axis=(0, 1, 2), keepdims=True)
        deviation = ops.sqrt(ops.mean(centred * centred, axis=(0, 1, 2), keepdims=True))
        return centred / (deviation + self.epsilon)

    def call(self, x):
        kernel = ops.cast(self.standardised_kernel(), self.compute_dtype)
        return ops.conv(x, kernel, strides=self.strides, padding="same", data_format="channels_last")

    def compute_output_shape(self, input_shape):
        batch, *sides, _ = input_shape
        sides = (None if side is None else -(-side // stride) for side, stride in zip(sides, self.strides))
        return (batch, *sides, self.filters)

    def get_config(self):
        sizes = {"filters": self.filters, "kernel_size": self.kernel_size, "strides": self.strides}
        return {**super().get_config(), **sizes}
