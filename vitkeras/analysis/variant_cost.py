"""The cost of a named model at any resolution, without its weights."""

import dataclasses
import re
from concurrent.futures import ThreadPoolExecutor

import keras

from vitkeras.analysis.cost import Cost, flops
from vitkeras.layers.patch_embedding import pair
from vitkeras.models.variants import VARIANTS, build_variant


def variant_cost(variant, image_size=224, classes=1000, patch_size=None):
    """Counts what a named model costs, as `flops` does, in a fraction of a second and without memory for weights.

    Args:
        variant: str, key of `vitkeras.models.VARIANTS`, such as "vit_h14" or "bit_r200x3".
        image_size: int or (height, width) in pixels, any that the model takes. Default 224.
        classes: int, width of the head, or None for the model without a head. Default 1000.
        patch_size: int or (height, width), another patch than the variant's. Default None.

    Returns:
        `Cost`.

    Raises:
        ValueError: for an unknown variant, or sizes that the model does not take.
        TypeError: for the patch size of a model without patches.

    Example:
        >>> cost = variant_cost("vit_b16", 384)
        >>> cost.parameters, cost.macs
        (86859496, 55484350464)
    """
    sides = pair(image_size, "image_size")
    head = {"include_top": False} if classes is None else {"classes": classes}
    patch = {} if patch_size is None else {"patch_size": patch_size}
    row = VARIANTS.get(variant)
    shape = {"input_shape": (*sides, 3), **head, **patch, **_shortened(row)}
    # What Keras keeps of variables without values belongs to the thread, and goes with it.
    with ThreadPoolExecutor(1) as other:
        cost = other.submit(_without_weights, variant, shape).result()
    return Cost(tuple(_lengthened(cost.layers, row)))


def _without_weights(variant, arguments):
    with keras.StatelessScope(initialize_variables=False):
        return flops(build_variant(variant, weights=None, **arguments))


def _stages(row):
    """(argument, units a stage) of a row's ResNet, or of one without stages."""
    name = "blocks" if hasattr(row, "blocks") else "stem_blocks"
    return name, getattr(row, name, None) or ()


def _shortened(row):
    """Arguments that build one block of each kind: the others of a stage or an encoder cost the same."""
    name, units = _stages(row)
    short = {name: tuple(min(count, 2) for count in units)} if units else {}
    return {"num_layers": 1, **short} if hasattr(row, "num_layers") else short


def _lengthened(rows, variant):
    """Yields the rows with the left out blocks in their places."""
    units = _stages(variant)[1]
    for row in rows:
        unit = re.fullmatch(r"(block(\d+)_unit)02", row.name)
        if row.name == "encoder_block_00":
            names = [f"encoder_block_{i:02d}" for i in range(variant.num_layers)]
        elif unit:
            names = [f"{unit[1]}{i + 1:02d}" for i in range(1, units[int(unit[2]) - 1])]
        else:
            names = [row.name]
        yield from (dataclasses.replace(row, name=name) for name in names)
