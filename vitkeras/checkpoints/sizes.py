"""Depth and widths of a model, told by the shapes of its arrays: what a file of another model is refused for."""

import re
from collections import Counter
from dataclasses import dataclass, fields

_BLOCK = re.compile(r"Transformer/encoderblock_(\d+)/(.+)")
_UNIT = re.compile(r"block(\d+)/unit(\d+)/.+")
_ROOT = "conv_root/kernel"
# Arrays of a block that tell a size, and the axis that does.
WIDTH_AXES = {"LayerNorm_0/scale": 0, "LayerNorm_0/bias": 0, "LayerNorm_2/scale": 0, "LayerNorm_2/bias": 0}
MLP_AXES = {"MlpBlock_3/Dense_0/kernel": 1, "MlpBlock_3/Dense_0/bias": 0, "MlpBlock_3/Dense_1/kernel": 0}


@dataclass(frozen=True)
class Sizes:
    """Depth and widths of a ViT, a hybrid or a ResNet.

    Attributes:
        num_layers: int, encoder blocks; 0 for a ResNet.
        hidden_dim, mlp_dim: int, or None if no array tells.
        stem_blocks: tuple of ints, residual units a stage, or None without a ResNet stem.
    """

    num_layers: int
    hidden_dim: int | None
    mlp_dim: int | None
    stem_blocks: tuple | None = None

    def __str__(self):
        parts = []
        if self.stem_blocks is not None:
            parts.append(f"a ResNet of {self.stem_blocks} units a stage")
        if self.num_layers:
            parts.append(
                f"{self.num_layers} encoder blocks of width {self.hidden_dim} and MLP dimension {self.mlp_dim}"
            )
        return " and ".join(parts) or "no encoder block"


def read_sizes(shapes):
    """Returns the `Sizes` that most of the arrays tell, so that a damaged one is not believed.

    Args:
        shapes: dict of the original's array name -> shape.
    """
    blocks = [match for match in map(_BLOCK.fullmatch, shapes) if match]
    units = {match.groups() for match in map(_UNIT.fullmatch, shapes) if match}
    stages = Counter(int(stage) for stage, _ in units)
    has_stem = _ROOT in shapes or bool(units)
    counts = Counter(match[1] for match in blocks)
    whole = max(counts.values(), default=0)
    return Sizes(
        sum(2 * count > whole for count in counts.values()),  # one array too many doesn't make a block
        most_told(shapes, WIDTH_AXES),
        most_told(shapes, MLP_AXES),
        tuple(stages[stage] for stage in sorted(stages)) if has_stem else None,
    )


def most_told(shapes, axes, told=()):
    """The size that most arrays of the blocks tell, or None.

    Args:
        shapes: dict of the original's array name -> shape.
        axes: dict of array name in a block -> which axis tells the size.
        told: what other arrays tell, first among equals.
    """
    told = Counter(told)
    for key, shape in shapes.items():
        match = _BLOCK.fullmatch(key)
        if match and match[2] in axes and len(shape) > axes[match[2]]:
            told[shape[axes[match[2]]]] += 1
    return told.most_common(1)[0][0] if told else None


def check_same_sizes(view, wanted):
    """Refuses a file of another depth or width in one sentence, instead of naming each of its arrays.

    Args:
        view: `CheckpointView`.
        wanted: the model's `Sizes`.

    Raises:
        ValueError: if they differ. What no array of the file tells is left to the comparison of the arrays.
    """
    found = read_sizes({key: entry.shape for key, entry in view.entries.items()})
    pairs = [(getattr(found, field.name), getattr(wanted, field.name)) for field in fields(Sizes)]
    if any(own and own != other for own, other in pairs):
        raise ValueError(f"checkpoint {view.path!r} is of another model: it has {found}, the model has {wanted}.")
