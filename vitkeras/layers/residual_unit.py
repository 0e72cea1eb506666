"""The bottleneck unit of the paper's ResNet (section 3.1, hybrids; appendix B.1, baselines).

Legend: B batch, H W map height and width, C channels, F width of the unit.
"""

import keras
from keras import ops

from vitkeras.layers.axial_attention import AxialAttention
from vitkeras.layers.group_norm import GroupNorm
from vitkeras.layers.std_conv import StdConv

EXPANSION = 4  # output channels of a unit, in widths
GROUPS = 32  # of every GroupNorm, the original's
ROOT_WIDTH = 64  # channels of the root before the units, times the width factor


def body_stride(blocks):
    """Returns how many pixels lie between two positions of the map after `blocks`, units a stage: 4 after the root."""
    return 4 * 2 ** max(len(tuple(blocks)) - 1, 0)


@keras.saving.register_keras_serializable(package="vitkeras")
class ResidualUnit(keras.layers.Layer):
    """`relu(shortcut + gn3(conv3(relu(gn2(conv2(relu(gn1(conv1(x)))))))))` of standardised convolutions.

    1 x 1 to F, 3 x 3 with the stride, 1 x 1 to 4 F. The shortcut is projected (1 x 1 and GroupNorm, without ReLU) where
    the channels or the stride change it. The last scale starts at zero, so that a new unit is its shortcut.

    Args:
        width: int > 0, F.
        strides: int > 0, of the 3 x 3 convolution. Default 1.
        attention_heads: None (default), or the heads of an `AxialAttention` in the place of the 3 x 3 convolution
            (appendix D.6); average pooling after its GroupNorm and ReLU then makes the stride.

    Call arguments:
        x: floating tensor (B, H, W, C).

    Returns:
        Tensor (B, ceil(H / stride), ceil(W / stride), 4 F).

    Raises:
        ValueError: if an argument isn't a positive int, or F is not a multiple of GroupNorm's 32 groups.

    Example:
        >>> tuple(ResidualUnit(32, strides=2)(keras.ops.ones((2, 5, 7, 64))).shape)
        (2, 3, 4, 128)
    """

    def __init__(self, width, strides=1, attention_heads=None, **kwargs):
        super().__init__(**kwargs)
        for argument, value in (
            ("width", width),
            ("strides", strides),
            ("attention_heads", 1 if attention_heads is None else attention_heads),
        ):
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{argument} must be a positive int, received {value!r}.")
        if width % GROUPS:
            raise ValueError(f"width must be a multiple of GroupNorm's {GROUPS} groups, received {width}.")
        dtype = self.dtype_policy
        self.width = width
        self.strides = strides
        self.attention_heads = attention_heads
        self.conv1 = StdConv(width, 1, dtype=dtype, name="conv1")
        self.gn1 = GroupNorm(GROUPS, dtype=dtype, name="gn1")
        if attention_heads is None:
            self.conv2 = StdConv(width, 3, strides, dtype=dtype, name="conv2")
        else:
            self.conv2 = AxialAttention(attention_heads, dtype=dtype, name="attention")
        self.gn2 = GroupNorm(GROUPS, dtype=dtype, name="gn2")
        self.conv3 = StdConv(EXPANSION * width, 1, dtype=dtype, name="conv3")
        self.gn3 = GroupNorm(GROUPS, scale_initializer="zeros", dtype=dtype, name="gn3")
        self.conv_proj = self.gn_proj = None

    def build(self, input_shape):
        if self.strides != 1 or input_shape[-1] != EXPANSION * self.width:
            dtype = self.dtype_policy
            self.conv_proj = StdConv(EXPANSION * self.width, 1, self.strides, dtype=dtype, name="conv_proj")
            self.gn_proj = GroupNorm(GROUPS, dtype=dtype, name="gn_proj")
            self.conv_proj.build(input_shape)
            self.gn_proj.build(self.compute_output_shape(input_shape))
        shape = input_shape
        for conv, norm in ((self.conv1, self.gn1), (self.conv2, self.gn2), (self.conv3, self.gn3)):
            conv.build(shape)
            shape = conv.compute_output_shape(shape)
            norm.build(shape)
            if conv is self.conv2 and self.attention_heads is not None:
                shape = self._pooled_shape(shape)

    def call(self, x):
        shortcut = x if self.conv_proj is None else self.gn_proj(self.conv_proj(x))
        y = ops.relu(self.gn1(self.conv1(x)))
        y = ops.relu(self.gn2(self.conv2(y)))
        if self.attention_heads is not None and self.strides != 1:
            y = ops.average_pool(y, self.strides, self.strides, padding="same", data_format="channels_last")
        return ops.relu(shortcut + self.gn3(self.conv3(y)))

    def _pooled_shape(self, shape):
        sides = (None if side is None else -(-side // self.strides) for side in shape[1:3])
        return (shape[0], *sides, shape[3])

    def compute_output_shape(self, input_shape):
        return (*self._pooled_shape(input_shape)[:3], EXPANSION * self.width)

    def get_config(self):
        sizes = {"width": self.width, "strides": self.strides, "attention_heads": self.attention_heads}
        return {**super().get_config(), **sizes}
