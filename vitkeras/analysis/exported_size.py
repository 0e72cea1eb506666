"""How large an exported file will be."""

import math

SCALE_BYTES = 12  # of an int8 kernel's output channel: a float32 scale and an int64 zero point
PRESETS = ("fp32", "int8_dynamic")


def exported_size(cost, preset="int8_dynamic"):
    """Returns how many bytes the weights of a `.tflite` file take, by calculation.

    fp32 has four bytes a parameter. int8_dynamic has one byte for each number of a dense layer's or convolution's
    kernel, a scale for each output channel, and four bytes for every other parameter. The file's graph comes on top,
    a few kilobytes a layer.

    Args:
        cost: `Cost`, from `flops` or `variant_cost`.
        preset: "fp32" or "int8_dynamic" (default).

    Returns:
        int.

    Raises:
        ValueError: for another preset.

    Example:
        >>> from vitkeras.analysis import variant_cost
        >>> [round(exported_size(variant_cost("vit_b16"), preset) / 1e6, 1) for preset in ("fp32", "int8_dynamic")]
        [346.3, 88.4]
    """
    if preset not in PRESETS:
        raise ValueError(f"preset must be one of {PRESETS}, received {preset!r}.")
    if preset == "fp32":
        return 4 * cost.parameters
    total = 0
    for layer in cost.layers:
        for name, shape in layer.weights.items():
            is_kernel = name.split("/")[-1] == "kernel"
            total += math.prod(shape) + SCALE_BYTES * shape[-1] if is_kernel else 4 * math.prod(shape)
    return total
