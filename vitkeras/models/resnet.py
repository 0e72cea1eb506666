"""The paper's ResNet (GroupNorm, standardised convolutions): the hybrids' stem and the baselines' body.

Paper section 3.1 "Hybrid Architecture" and appendix B.1. Legend: B batch, H W image height and width, C channels.
"""

import math

import keras

from vitkeras import layers
from vitkeras.checkpoints.sizes import Sizes
from vitkeras.layers.residual_unit import GROUPS, ROOT_WIDTH
from vitkeras.models.parts import check_sizes, check_top, check_units, image_input, model_input, zero_head
from vitkeras.models.weights import plan_weights

POOLINGS = (None, "avg", "max")


def resnet_body(image, blocks, width_factor=1.0, attention_heads=None, prefix=""):
    """Applies the root block and the stages of bottleneck units.

    Layers: `conv_root`, `gn_root`, `relu_root`, `pool_root`, then `block1_unit01`, `block1_unit02`, ...

    Args:
        image: Keras tensor (B, H, W, C).
        blocks: sequence of ints >= 1, units a stage, such as (3, 4, 6, 3); empty for the root alone.
        width_factor: float, multiplies the widths 64, 128, 256, ... Default 1.
        attention_heads: None (default), or the heads of axial attention in the place of each 3 x 3 convolution.
        prefix: str, what the caller's names of `blocks` and `width_factor` begin with, for the errors. Default "".

    Returns:
        Keras tensor: (B, H / 4, W / 4, 64) without stages, else (B, H / 2 ** (n + 1), W / 2 ** (n + 1),
        128 * 2 ** n) after n of them; the factor multiplies the channels, and sides are rounded up.

    Raises:
        ValueError: if a stage has no unit, or the width is not a multiple of GroupNorm's 32 groups.
    """
    check_units(**{f"{prefix}blocks": blocks})
    is_number = isinstance(width_factor, (int, float)) and math.isfinite(width_factor)
    width = round(ROOT_WIDTH * width_factor) if is_number else 0
    if width < 1 or width != ROOT_WIDTH * width_factor or width % GROUPS:
        raise ValueError(
            f"{prefix}width_factor must make {ROOT_WIDTH} a multiple of GroupNorm's {GROUPS} groups, "
            f"received {width_factor!r}."
        )
    x = layers.StdConv(width, 7, strides=2, name="conv_root")(image)
    x = layers.GroupNorm(name="gn_root")(x)
    x = keras.layers.ReLU(name="relu_root")(x)
    x = keras.layers.MaxPooling2D(3, 2, "same", "channels_last", name="pool_root")(x)
    for b, units in enumerate(blocks):
        for u in range(units):
            strides = 2 if b and not u else 1
            x = layers.ResidualUnit(width * 2**b, strides, attention_heads, name=f"block{b + 1}_unit{u + 1:02d}")(x)
    return x


def ResNet(
    input_shape,
    blocks,
    width_factor=1.0,
    include_top=True,
    classes=None,
    classifier_activation="softmax",
    weights=None,
    pooling=None,
    input_tensor=None,
    attention_heads=None,
    name=None,
):
    """Builds the paper's ResNet baseline, "ResNet (BiT)", of any size as a functional `keras.Model` (section 4.1).

    Batch normalisation is replaced by GroupNorm and convolutions are standardised (appendix B.1); it is the hybrids'
    stem with all four stages, global average pooling and a linear head. Layers are named as in `resnet_body`, then
    `pool` and `head`. Images are expected as -1...1 (`vitkeras.preprocess_input`).

    Args:
        input_shape: (height, width, channels); None for any height and width.
        blocks: sequence of ints >= 1, units a stage: (3, 4, 6, 3) is ResNet50, () the root alone.
        width_factor: float, multiplies the widths: 2 is "x2". Default 1.
        include_top, classes, classifier_activation, weights, input_tensor, name: as in `VisionTransformer`.
        pooling: None (default, the map), "avg" or "max"; used without the head.
        attention_heads: None (default), or int: each 3 x 3 convolution becomes axial attention with so many heads
            (appendix D.6); height and width must be known then.

    Returns:
        A `keras.Model` from (B, height, width, channels) to (B, K), or to the features asked for.

    Raises:
        ValueError: for an argument outside its range; the message names it.

    Example:
        >>> ResNet((64, 96, 3), (1, 1), 0.5, classes=7).count_params()
        121127
    """
    check_units(blocks=blocks)
    plan = plan_weights(weights, include_top, classes, sizes=Sizes(0, None, None, tuple(blocks)))
    classes = plan.classes
    check_top(include_top, classes, pooling, POOLINGS)
    if attention_heads is not None:
        check_sizes(attention_heads=attention_heads)
    image = image_input(input_shape, input_tensor)
    if attention_heads is not None and None in image.shape[1:3]:
        raise ValueError(f"input_shape must be known for axial attention, received {tuple(image.shape[1:])}.")
    x = resnet_body(image, blocks, width_factor, attention_heads)
    if include_top or pooling == "avg":
        x = keras.layers.GlobalAveragePooling2D("channels_last", name="pool")(x)
    elif pooling == "max":
        x = keras.layers.GlobalMaxPooling2D("channels_last", name="pool")(x)
    if include_top:
        x = zero_head(classes, classifier_activation)(x)
    return plan.load(keras.Model(model_input(image), x, name=name or "resnet"))
