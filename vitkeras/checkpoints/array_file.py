"""What every file of named arrays has in common: headers that were checked, and arrays that come block by block.

No array is in memory twice: a block is converted, and turned if need be, on its way into the array's own memory.
"""

import math
import os
from dataclasses import dataclass

import numpy as np

from vitkeras.checkpoints.handover import aligned_empty

BLOCK_BYTES = 2**18  # small beside any large array, large enough to read at the speed of the disk
# No model of this architecture comes near; a file that promises more is an attack on memory, not a checkpoint.
MAX_ARRAYS = 2**16


@dataclass(frozen=True)
class ArrayHeader:
    """What an array of a file says of itself before its data is read.

    Attributes:
        shape: tuple of ints.
        dtype: NumPy dtype that it is read as.
        by_columns: bool, whether the file stores it in Fortran's order.
    """

    shape: tuple
    dtype: np.dtype
    by_columns: bool = False


class ArrayFile:
    """A file of named arrays, read one by one; a context manager.

    Subclasses set `path` and `headers` and give `blocks` and `close`.

    Attributes:
        path: str.
        headers: dict of array name -> `ArrayHeader`.
    """

    path: str
    headers: dict

    def blocks(self, name, parts=1, multiple=1):
        """Yields the array called `name` in the file's order, in 1-d pieces.

        Args:
            name: str.
            parts: int, equal parts of the array along the first axis; no piece lies in two of them.
            multiple: int, pieces hold a multiple of so many values.

        Raises:
            ValueError: naming the array, if its data is damaged or ends early.
        """
        raise NotImplementedError

    def close(self):
        """Closes the file."""
        raise NotImplementedError

    def read(self, name):
        """Returns the array called `name`, in memory of its own; raises ValueError as `blocks` does."""
        return next(self.read_parts(name))

    def read_parts(self, name, parts=1, dtype=None, by_columns=False):
        """Yields the array called `name` in equal parts along its first axis, each in memory of its own.

        Args:
            name: str.
            parts: int, a divisor of the first axis. Default 1, the whole.
            dtype: NumPy dtype to convert to, or None (default) for the file's.
            by_columns: bool. True lays a matrix out by columns, for a caller that transposes it. Other ranks keep
                the file's order.

        Raises:
            ValueError: naming the array, if its data is damaged or ends early.
        """
        header = self.headers[name]
        dtype = header.dtype if dtype is None else dtype
        shape = header.shape[::-1] if header.by_columns else header.shape  # as it lies in the file
        if parts > 1 and header.by_columns:  # a part is no piece of the file
            for part in np.split(next(self.read_parts(name, dtype=dtype)), parts):
                yield _own(part)
            return
        if parts > 1:
            shape = (shape[0] // parts, *shape[1:])
        turned = len(shape) == 2 and header.by_columns != by_columns
        blocks = self.blocks(name, parts, math.prod(shape[1:]) if turned else 1)
        for _ in range(parts):
            memory = aligned_empty(shape[::-1] if turned else shape, dtype)
            _fill(memory, blocks, turned)
            array = memory.T if turned != header.by_columns else memory
            del memory
            yield array
            del array  # before the next part has its memory

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _fill(memory, blocks, turned):
    """Writes the next blocks into `memory` until it is full, as the columns of a matrix if `turned`."""
    flat, start = memory.reshape(-1), 0
    while start < memory.size:
        block = next(blocks)
        stop = start + block.size
        if turned:
            row = memory.shape[0]
            memory[:, start // row : stop // row] = block.reshape(-1, row).T
        else:
            flat[start:stop] = block
        start = stop


def _own(part):
    memory = aligned_empty(part.shape, part.dtype)
    memory[...] = part
    return memory


def block_sizes(count, itemsize, parts=1, multiple=1):
    """Yields the numbers of values that the blocks of an array of `count` values have; see `ArrayFile.blocks`."""
    size = max(BLOCK_BYTES // (itemsize * max(multiple, 1)), 1) * max(multiple, 1)
    for _ in range(parts):
        rest = count // parts
        while rest > 0:
            yield min(size, rest)
            rest -= size


def check_file(path):
    """Raises FileNotFoundError or ValueError unless `path` is a file that holds something."""
    if not os.path.isfile(path):
        raise FileNotFoundError(f"checkpoint {path!r} is not a file.")
    if not os.path.getsize(path):
        raise ValueError(f"checkpoint {path!r} is empty.")
