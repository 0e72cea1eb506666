"""timm's names of the hybrid's ResNet stem (paper section 3.1): which array is which of the original's.

timm computes the stem with two other epsilons: 1e-8 under the root of a kernel's variance, where the original adds 1e-5
to its deviation, and 1e-5 in GroupNorm, where the original has 1e-6. Its published hybrids are the original's weights
under other names, so they are computed here with the constants that they were trained with; docs/checkpoints.md says
by how much the logits differ.
"""

import re

from vitkeras.checkpoints.torch_layout import convolution_entry
from vitkeras.checkpoints.view import plain

PREFIX = "patch_embed.backbone."
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
    return convolution_entry(source, header) if len(header.shape) == 4 else plain(source, header)


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
