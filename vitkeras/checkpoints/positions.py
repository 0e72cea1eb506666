"""Which patch grid a file's position embedding belongs to, and how it comes to the model's (paper section 3.2).

Legend: N tokens, h w patch grid, D hidden dimension.
"""

import math

import numpy as np

from vitkeras import layers
from vitkeras.checkpoints.view import POSITION_KEY
from vitkeras.layers.patch_embedding import pair
from vitkeras.layers.position_embedding import resize_position_embedding


def read_grid(view, position_grid=None):
    """Tells the patch grid of a file.

    A file with a class token has one position more than patches, unless its program adds the positions before the
    class token (big_vision, some of timm): then it has none for it.

    Args:
        view: `CheckpointView`.
        position_grid: (h, w) or None.

    Returns:
        (h, w), or None if the file has no positions, or a number of them that forms no square.
    """
    entry = view.entries.get(POSITION_KEY)
    if entry is None or len(entry.shape) != 3:
        return None
    for prefix in _prefixes(view, int("cls" in view.entries), position_grid):
        count = entry.shape[1] - prefix
        side = math.isqrt(max(count, 0))
        if position_grid is not None and math.prod(position_grid) == count:
            return position_grid
        if position_grid is None and count > 0 and side * side == count:
            return (side, side)
    return None


def _prefixes(view, own, position_grid):
    """How many positions may stand before the patches', for a model that has `own` tokens there.

    16 positions are 3 x 5 patches and a class token, or 4 x 4 patches: a square alone decides only where the source's
    program always leaves the class token out.
    """
    if not own or "cls" not in view.entries:
        return (own,)
    return (1, 0) if position_grid is not None else view.facts.position_prefixes


class PositionResize:
    """Decides from the shapes whether the position embedding is resized, and does it.

    Args:
        model: the model to load.
        view: `CheckpointView`.
        position_grid: (h, w) of the file, or None.

    Attributes:
        old_grid: (h, w) of the file, or None if there is nothing to resize.
        fault: str, why the file's grid can't be told, or None.
    """

    def __init__(self, model, view, position_grid):
        self.layer = next((x for x in model.layers if isinstance(x, layers.PositionEmbedding)), None)
        self.old_grid = self.fault = None
        self._method = view.facts.resize_method
        if position_grid is not None:
            position_grid = pair(position_grid, "position_grid")
        if position_grid is not None and self.layer is None:
            raise ValueError(
                f"position_grid is for a model with 1-d position embeddings, received {position_grid} for "
                f"{model.name!r}."
            )
        entry = view.entries.get(POSITION_KEY)
        if self.layer is None or entry is None or len(entry.shape) != 3:
            return
        own = self._prefix = self.layer.num_prefix_tokens
        for prefix in _prefixes(view, own, position_grid):
            self.old_grid = self._find_grid(entry.shape[1] - prefix, position_grid)
            if self.old_grid is not None:
                self._prefix = prefix
                return
        count, name = entry.shape[1] - own, view.name(POSITION_KEY)
        if position_grid is not None:
            self.fault = f"position_grid must hold the {count} positions of the file, received {position_grid}"
        else:
            self.fault = (
                f"{name!r} holds {entry.shape[1]} positions, which may form more than one grid while the model's is "
                f"{self.layer.grid_size}: pass position_grid=(h, w) for the file's to "
                "vitkeras.load_checkpoint or vitkeras.from_checkpoint"
            )

    def _find_grid(self, count, position_grid):
        side, new_grid = math.isqrt(max(count, 0)), self.layer.grid_size
        same_count = count == math.prod(new_grid)
        if position_grid is not None:
            return position_grid if math.prod(position_grid) == count else None
        if same_count and (side * side != count or new_grid[0] == new_grid[1]):
            return new_grid
        if side * side == count and count and not same_count:
            return (side, side)
        return None

    def file_shape(self, shape):
        """The shape that the file may have for a model whose embedding has `shape`."""
        if self.old_grid is None:
            return shape
        return (1, self._prefix + math.prod(self.old_grid), shape[-1])

    def shrinks(self):
        """Whether the file's grid is larger than the model's."""
        return self.old_grid is not None and math.prod(self.old_grid) > math.prod(self.layer.grid_size)

    def __call__(self, array):
        """Returns the embedding (1, N, D) for the model's grid."""
        own = self.layer.num_prefix_tokens
        if self._prefix != own:  # the class token has no position: one of zeros adds the same nothing
            zeros = np.zeros((1, own - self._prefix, array.shape[-1]), array.dtype)
            array = np.concatenate([zeros, array], axis=1)
        return resize_position_embedding(array, self.old_grid, self.layer.grid_size, own, self._method)
