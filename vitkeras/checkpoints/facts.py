"""Reading a model's configuration off its arrays.

Legend: N tokens, h w patch grid, D hidden dimension, H heads, P patch, C channels.
"""

import re
from dataclasses import dataclass

from vitkeras.checkpoints.positions import read_grid
from vitkeras.checkpoints.sizes import MLP_AXES, WIDTH_AXES, most_told
from vitkeras.checkpoints.view import POSITION_KEY
from vitkeras.layers.patch_embedding import pair
from vitkeras.layers.residual_unit import ROOT_WIDTH, body_stride

WIDTHS = {192: 3, 384: 6, 768: 12, 1024: 16, 1280: 16}  # hidden dimensions of the known models -> heads
_QUERY = "Transformer/encoderblock_0/MultiHeadDotProductAttention_1/query/kernel"
_EXPAND = "Transformer/encoderblock_0/MlpBlock_3/Dense_0/kernel"


@dataclass(frozen=True)
class Facts:
    """The configuration of the model that a file belongs to.

    Attributes:
        is_resnet: bool, whether there is no Transformer.
        arguments: dict of the builder's arguments that the arrays tell.
        classes: int or None, width of the head.
        representation_size: int or None, width of `pre_logits`.
        image_size: (height, width) or None, in pixels.
        channels: int, of the image.
    """

    is_resnet: bool
    arguments: dict
    classes: int | None
    representation_size: int | None
    image_size: tuple | None
    channels: int


def head_classes(view):
    """Returns the width of the file's head, or None."""
    return _width(view, "head/kernel")


def representation_size(view):
    """Returns the width of the file's `pre_logits`, or None."""
    return _width(view, "pre_logits/kernel")


def _width(view, key):
    entry = view.entries.get(key)
    return entry.shape[1] if entry is not None and len(entry.shape) == 2 else None


def read_facts(view, position_grid=None, num_heads=None):
    """Reads the configuration of the model that a checkpoint belongs to.

    Args:
        view: `CheckpointView`.
        position_grid: (h, w) or None; needed where the file's grid isn't square.
        num_heads: int or None; needed where neither the file nor a known width tells it.

    Returns:
        `Facts`.

    Raises:
        ValueError: if an array that the configuration is read from is missing or of another rank, or the grid or the
            number of heads can't be told.
    """
    blocks = _stem_blocks(view)
    is_resnet = blocks is not None and not any(key.startswith("Transformer/") for key in view.entries)
    image_size, arguments = None, {}
    first = "embedding/kernel" if blocks is None else "conv_root/kernel"
    channels = _shape(view, first, 4)[2]
    if blocks is not None:
        factor = _shape(view, first, 4)[3] / ROOT_WIDTH
        names = ("blocks", "width_factor") if is_resnet else ("stem_blocks", "stem_width_factor")
        arguments = dict(zip(names, (blocks, factor)))
    if not is_resnet:
        transformer, grid = _transformer(view, position_grid, num_heads)
        arguments |= transformer
        stride = 1 if blocks is None else body_stride(blocks)
        image_size = view.facts.image_size
        image_size = pair(image_size, "image_size") if image_size is not None else None
        from_grid = grid and tuple(n * side * stride for n, side in zip(grid, arguments["patch_size"]))
        if image_size and from_grid and image_size != from_grid:
            raise ValueError(
                f"checkpoint {view.path!r}: its positions form the grid {grid}, images of {from_grid}, and its "
                f"settings say {image_size}."
            )
        image_size = image_size or from_grid
    return Facts(is_resnet, arguments, head_classes(view), representation_size(view), image_size, channels)


def _shape(view, key, rank):
    entry = view.entries.get(key)
    if entry is None:
        raise ValueError(f"checkpoint {view.path!r} has no array {view.name(key)!r} to read the configuration from.")
    if len(entry.shape) != rank or 0 in entry.shape:
        raise ValueError(
            f"checkpoint {view.path!r}, array {entry.name!r}: must have rank {rank} and no empty axis, received shape "
            f"{entry.file_shape}."
        )
    return entry.shape


def _stem_blocks(view):
    """Units a stage of the ResNet, () for its root alone, None without one."""
    if "conv_root/kernel" not in view.entries:
        return None
    units = [re.fullmatch(r"block(\d+)/unit(\d+)/.+", key) for key in view.entries]
    found = {(int(match[1]), int(match[2])) for match in units if match}
    stages = [sum(stage == s for stage, _ in found) for s in range(1, len({stage for stage, _ in found}) + 1)]
    if found != {(s + 1, u + 1) for s, count in enumerate(stages) for u in range(count)}:
        raise ValueError(
            f"checkpoint {view.path!r}: its ResNet units must be numbered from 1, received {sorted(found)}."
        )
    return tuple(stages)


def _transformer(view, position_grid, num_heads):
    """(arguments of `VisionTransformer`, grid or None)."""
    kernel = _shape(view, "embedding/kernel", 4)
    matches = [re.fullmatch(r"Transformer/encoderblock_(\d+)/.+", key) for key in view.entries]
    indices = {int(match[1]) for match in matches if match}
    if indices != set(range(len(indices))):
        raise ValueError(f"checkpoint {view.path!r}: its blocks must be numbered from 0, received {sorted(indices)}.")
    grid = read_grid(view, None if position_grid is None else pair(position_grid, "position_grid"))
    has_positions = POSITION_KEY in view.entries
    if has_positions and grid is None and position_grid is not None:
        raise ValueError(
            f"position_grid must hold the positions of checkpoint {view.path!r}, array {view.name(POSITION_KEY)!r} of "
            f"shape {view.entries[POSITION_KEY].file_shape} (beside one for a class token), received {position_grid!r}."
        )
    if has_positions and grid is None:
        raise ValueError(
            f"checkpoint {view.path!r}, array {view.name(POSITION_KEY)!r} of shape "
            f"{view.entries[POSITION_KEY].file_shape}: its positions form no square "
            "(beside one for a class token); pass position_grid=(h, w)."
        )
    shapes = {key: entry.shape for key, entry in view.entries.items()}
    mlp_dim = most_told(shapes, MLP_AXES, [_shape(view, _EXPAND, 2)[1]])
    hidden_dim = most_told(shapes, WIDTH_AXES, [kernel[3]])
    arguments = {
        "patch_size": kernel[:2],
        "num_layers": len(indices),
        "hidden_dim": hidden_dim,
        "num_heads": _heads(view, hidden_dim, num_heads),
        "mlp_dim": mlp_dim,
        "classifier": "token" if "cls" in view.entries else "gap",
        "position_embedding": "learned_1d" if has_positions else "none",
    }
    return arguments, grid


def _heads(view, hidden_dim, num_heads):
    query = view.entries.get(_QUERY)
    told = view.facts.num_heads
    if told is None and query is not None and len(query.shape) == 3:
        told = query.shape[1]
    if told is not None:
        if num_heads not in (None, told):
            raise ValueError(f"num_heads must be {told}, that of checkpoint {view.path!r}, received {num_heads!r}.")
        if hidden_dim % told:
            raise ValueError(
                f"checkpoint {view.path!r}, array {view.name('embedding/kernel')!r}: its width must be a multiple of "
                f"the file's {told} heads, received {hidden_dim}."
            )
        return told
    if num_heads is None and hidden_dim not in WIDTHS:
        raise ValueError(
            f"checkpoint {view.path!r} does not tell its number of heads, and its hidden dimension {hidden_dim} is "
            f"none of the known {tuple(WIDTHS)}: pass num_heads."
        )
    if num_heads is not None and (not isinstance(num_heads, int) or num_heads < 1 or hidden_dim % num_heads):
        raise ValueError(f"num_heads must be a divisor of the hidden dimension {hidden_dim}, received {num_heads!r}.")
    return num_heads or WIDTHS[hidden_dim]
