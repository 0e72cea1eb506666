"""timm's names of the hybrid's ResNet stem (paper section 3.1): which array is which of the original's.

timm computes the stem with two other epsilons. It divides a kernel of deviation s by sqrt(s^2 + 1e-8), the original by
s + 1e-5: the kernels are scaled here, channel by channel, so that the second gives the first's numbers. GroupNorm has
1e-5 there and 1e-6 here, beside variances of some units after a standardised convolution; docs/checkpoints.md says
what is left of that in the logits.
"""

import re
from dataclasses import replace

import numpy as np

from vitkeras.checkpoints.torch_layout import convolution_entry
from vitkeras.checkpoints.view import plain
from vitkeras.layers.std_conv import StdConv

PREFIX = "patch_embed.backbone."
EPSILON = 1e-8  # timm's, under the root
ROOT = "stem."  # in front of the root's names where stages follow it
_SOURCE = re.compile(
    re.escape(PREFIX)
    + r"(?:(?:stem\.)?|stages\.(\d+)\.blocks\.(\d+)\.(downsample\.)?)(conv|norm)([123]?)\.(weight|bias)"
)
_KEY = re.compile(r"(?:block(\d+)/unit(\d+)/)?(conv|gn)(\d|_root|_proj)/(kernel|scale|bias)")


def stem_key(source):
    """Returns the original's name of timm's stem array `source`, or None if the paper's ResNet has no such array.

    Example:
        >>> stem_key("patch_embed.backbone.stages.0.blocks.1.norm3.weight")
        'block1/unit2/gn3/scale'
    """
    match = _SOURCE.fullmatch(source)
    if match is None:
        return None
    stage, unit, is_projection, kind, number, leaf = match.groups()
    is_root = stage is None
    if bool(number) == (is_root or bool(is_projection)) or (kind, leaf) == ("conv", "bias"):
        return None
    part = "_root" if is_root else "_proj" if is_projection else number
    name = f"conv{part}/kernel" if kind == "conv" else f"gn{part}/{'scale' if leaf == 'weight' else 'bias'}"
    return name if is_root else f"block{int(stage) + 1}/unit{int(unit) + 1}/{name}"


def stem_entry(source, header):
    """The `Entry` of timm's stem array `source`."""
    if len(header.shape) != 4:
        return plain(source, header)
    entry = convolution_entry(source, header)
    return replace(entry, part=lambda array: restandardised(entry.part(array)))


def restandardised(kernel):
    """Returns the kernel (h, w, I, O) whose standardisation here is timm's of the given one.

    With r = sqrt(s^2 + 1e-8), the factor f of a channel must make f / (f s + 1e-5) equal 1 / r.

    Example:
        >>> kernel = np.random.default_rng(0).normal(size=(3, 3, 5, 7))
        >>> scaled = restandardised(kernel).astype("float64")
        >>> theirs = kernel / np.sqrt(kernel.var(axis=(0, 1, 2)) + 1e-8)
        >>> float(np.abs(scaled / (scaled.std(axis=(0, 1, 2)) + 1e-5) - theirs).max()) < 1e-6
        True
    """
    deviation = kernel.std(axis=(0, 1, 2), dtype="float64")
    root = np.sqrt(deviation**2 + EPSILON)
    factor = StdConv.epsilon * (root + deviation) / EPSILON  # epsilon / (root - deviation), without the difference
    return (kernel * factor).astype("float32")


def stem_name(key, has_stages):
    """Returns what timm calls the original's stem array `key`, or None if it is none.

    Args:
        key: str, such as "block1/unit2/gn3/scale".
        has_stages: bool, whether units follow the root, whose names timm prefixes then.
    """
    match = _KEY.fullmatch(key)
    if match is None:
        return None
    block, unit, kind, part, leaf = match.groups()
    kind, leaf = "conv" if kind == "conv" else "norm", "bias" if leaf == "bias" else "weight"
    if block is None:
        return f"{PREFIX}{ROOT if has_stages else ''}{kind}.{leaf}"
    module = f"downsample.{kind}" if part == "_proj" else kind + part
    return f"{PREFIX}stages.{int(block) - 1}.blocks.{int(unit) - 1}.{module}.{leaf}"
