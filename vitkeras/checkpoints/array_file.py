"""What every file of named arrays has in common: headers that were checked, and arrays that come block by block.

No array is in memory twice: a block is converted, and turned if need be, on its way into the array's own memory.
"""

import math
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

    def blocks(self, name, multiple=1):
        """Yields the array called `name` in the file's order, in 1-d pieces of a multiple of `multiple` values.

        Raises:
            ValueError: naming the array, if its data is damaged or ends early.
        """
        raise NotImplementedError

    def close(self):
        """Closes the file."""
        raise NotImplementedError

    def read(self, name, dtype=None, by_columns=False):
        """Returns the array called `name`, in memory of its own.

        Args:
            name: str.
            dtype: NumPy dtype to convert to, or None (default) for the file's.
            by_columns: bool. True lays a matrix out by columns, for a caller that transposes it. Other ranks keep
                the file's order.

        Raises:
            ValueError: naming the array, if its data is damaged or ends early.
        """
        header = self.headers[name]
        shape = header.shape[::-1] if header.by_columns else header.shape  # as it lies in the file
        turned = len(shape) == 2 and header.by_columns != by_columns
        memory = aligned_empty(shape[::-1] if turned else shape, header.dtype if dtype is None else dtype)
        flat, start, row = memory.reshape(-1), 0, math.prod(shape[1:])
        for block in self.blocks(name, row if turned else 1):
            stop = start + block.size
            if turned:
                memory[:, start // row : stop // row] = block.reshape(-1, row).T
            else:
                flat[start:stop] = block
            start = stop
        return memory.T if turned != header.by_columns else memory

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def block_sizes(count, itemsize, multiple=1):
    """Yields the numbers of values that blocks of an array of `count` values have."""
    size = max(BLOCK_BYTES // (itemsize * max(multiple, 1)), 1) * max(multiple, 1)
    while count > 0:
        yield min(size, count)
        count -= size
