"""One view of every layout: arrays under the original's names, whatever they are called in the file.

Legend: D hidden dimension, H heads, d = D / H, M MLP dimension, L blocks.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

POSITION_KEY = "Transformer/posembed_input/pos_embedding"
HEAD_KEYS = ("pre_logits/kernel", "pre_logits/bias", "head/kernel", "head/bias")
MAX_BLOCKS = 1024  # more than any model has; bounds what a stacked array can claim


def identity(value):
    """Returns `value`."""
    return value


@dataclass(frozen=True)
class Entry:
    """One array of the original's layout, and where a file keeps it.

    Attributes:
        source: str, name of the file's array.
        file_shape: shape of the file's array.
        dtype: NumPy dtype of the file's array.
        shape: shape in the original's layout; a layout that doesn't tell the heads gives them merged, (D, D).
        expected: function from the shape that a model wants, in the original's layout, to the shape that the file's
            array must have then.
        parts, index: int, of how many equal parts along the first axis of the file's array this is which one.
        part: function from that part to this one's numbers, in the original's C order.
        place: str, what messages add to the name, such as "[3]".
        scale: str or None, name of a second array of the file, a factor for the last axis (LayerScale).
        is_turned: bool, whether `part` transposes a matrix.
    """

    source: str
    file_shape: tuple
    dtype: np.dtype
    shape: tuple
    expected: Callable = identity
    parts: int = 1
    index: int = 0
    part: Callable = identity
    place: str = ""
    scale: str | None = None
    is_turned: bool = False

    @property
    def name(self):
        """What messages call the array."""
        return self.source + self.place

    def scaled(self, scale):
        """The same entry with a factor for its last axis in the file's array `scale`."""
        return replace(self, scale=scale)


@dataclass(frozen=True)
class SourceFacts:
    """What a source tells besides its arrays; None where it doesn't.

    Attributes:
        source: str, what messages call the source, such as "timm weights".
        activation: "gelu", "gelu_tanh" or None.
        layer_norm_epsilon: float or None.
        num_heads: int or None.
        image_size: (height, width) or None.
        input_mean, input_std: tuple of floats or None, the normalisation that the weights expect.
        position_prefixes: how many of a file's positions may stand before the patches' when there is a class token, the
            likelier first: 1 where it has a position of its own, 0 where positions are added before it.
        resize_method: how the source interpolates position embeddings, "bilinear" or "bicubic".
    """

    source: str = "original layout"
    activation: str | None = None
    layer_norm_epsilon: float | None = None
    num_heads: int | None = None
    image_size: tuple | None = None
    input_mean: tuple | None = None
    input_std: tuple | None = None
    position_prefixes: tuple = (1,)
    resize_method: str = "bilinear"


class CheckpointView:
    """An open checkpoint under the original's names.

    Args:
        file: an open `ArrayFile`.
        entries: dict of original name -> `Entry`. An array that no rule of the layout knows stands under its own name.
        naming: function from an original name to the file's name for it, for messages about missing arrays.
        facts: `SourceFacts`.

    Attributes:
        path, entries, facts: as given.
    """

    def __init__(self, file, entries, naming=identity, facts=None):
        self.path, self.entries, self.facts = file.path, entries, facts or SourceFacts()
        self._file, self._naming = file, naming

    def name(self, key):
        """What the file calls, or would call, the original's array `key`."""
        return self.entries[key].name if key in self.entries else self._naming(key)

    def blocks(self, source):
        """Yields the file's array `source` in 1-d pieces; see `ArrayFile.blocks`."""
        return self._file.blocks(source)

    def read(self, source, dtype):
        """Returns the file's array `source` as `dtype`."""
        return next(self._file.read_parts(source, dtype=dtype))

    def read_parts(self, source, parts, dtype, by_columns):
        """Yields the file's array `source` in equal parts; see `ArrayFile.read_parts`."""
        return self._file.read_parts(source, parts, dtype, by_columns)

    def header(self, source):
        """Returns the `ArrayHeader` of the file's array `source`, or None."""
        return self._file.headers.get(source)

    def close(self):
        """Closes the file."""
        self._file.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class EntryTable(dict):
    """The entries of one file while they are collected; a name that two arrays claim is refused."""

    def __init__(self, path):
        super().__init__()
        self._path = path

    def __setitem__(self, key, entry):
        if key in self:
            raise ValueError(
                f"checkpoint {self._path!r} holds {key!r} twice: as {self[key].name!r} and as {entry.name!r}."
            )
        super().__setitem__(key, entry)


def plain(source, header):
    """The `Entry` of an array that is stored as the original stores it."""
    return Entry(source, header.shape, header.dtype, header.shape)


def unstacked(entry, index):
    """The `Entry` of block `index` in an array that stacks all L blocks along its first axis."""
    count = entry.file_shape[0]
    return replace(
        entry,
        shape=entry.shape[1:],
        expected=lambda shape: (count, *shape),
        parts=count,
        index=index,
        place=f"[{index}]",
    )
