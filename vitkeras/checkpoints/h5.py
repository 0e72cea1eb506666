"""Reading Keras' `.weights.h5` files without trust: every dataset looked at first, then read block by block."""

import math
import os

import numpy as np

from vitkeras.checkpoints.array_file import BLOCK_BYTES, MAX_ARRAYS, ArrayFile, ArrayHeader, check_file

# What h5py raises on bytes that are not what they claim to be.
_DAMAGE = (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError, MemoryError)
# What Keras keeps beside a model's weights.
BESIDE = ("optimizer", "metrics", "seed_generator", "seed_generators")


class H5File(ArrayFile):
    """An `.h5` file of Keras whose arrays are read one by one.

    Args:
        path: str or path-like, what messages call the file.
        stream: an open binary file, or None (default) to open `path`.

    Attributes:
        headers: dict of dataset name, such as "layers/dense/vars/0" -> `ArrayHeader`; bfloat16 is read as float32.
        layer_names: dict of group name, such as "layers/dense" -> the name that the layer had in its model.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if the file is empty, truncated, no `.h5` file, or keeps data in another one.
    """

    def __init__(self, path, stream=None):
        import h5py  # Keras' own dependency

        self.path = os.fspath(path)
        if stream is None:
            check_file(self.path)
        self.headers, self.layer_names, self._datasets = {}, {}, {}
        try:
            self._file = h5py.File(self.path if stream is None else stream, "r")
        except _DAMAGE as error:
            raise self._damaged(error) from error
        try:
            self._file.visititems(lambda name, item: self._add(name, item, h5py.Dataset))
        except _DAMAGE as error:
            self.close()
            raise self._damaged(error) from error
        linked = [name for name, item in self._datasets.items() if item.external or item.is_virtual]
        if linked:
            self.close()
            raise ValueError(f"checkpoint {self.path!r}: array {linked[0]!r} keeps its data in another file.")
        if not 0 < len(self.headers) <= MAX_ARRAYS:
            self.close()
            raise ValueError(
                f"checkpoint {self.path!r} must hold 1 to {MAX_ARRAYS} arrays, received {len(self.headers)}."
            )

    def _damaged(self, error):
        return ValueError(f"checkpoint {self.path!r} is truncated or not an .h5 file ({error}).")

    def _add(self, name, item, dataset):
        if not isinstance(item, dataset):
            group, _, last = name.rpartition("/")
            label = item.attrs.get("name") if last == "vars" else None
            if isinstance(label, str):
                self.layer_names[group] = label
        elif not any(part in BESIDE for part in name.split("/")):
            self._datasets[name] = item
            dtype = np.dtype("float32") if _is_bfloat16(item) else item.dtype
            self.headers[name] = ArrayHeader(tuple(item.shape or ()), dtype)

    def blocks(self, name, parts=1, multiple=1):
        """Yields the array in pieces of whole rows; ValueError, naming it, if its data is damaged."""
        data = self._datasets[name]
        is_bfloat16 = _is_bfloat16(data)
        rows = max(BLOCK_BYTES // max(data.dtype.itemsize * math.prod(data.shape[1:]), 1), 1)
        part = data.shape[0] // parts if data.shape else 0
        try:
            if not data.shape:
                yield np.reshape(data[()], -1)
            for first in range(0, part * parts, max(part, 1)):
                for start in range(first, first + part, rows):
                    block = data[start : min(start + rows, first + part)].reshape(-1)
                    # The upper half of a float32.
                    yield (block.view("<u2").astype("<u4") << 16).view("<f4") if is_bfloat16 else block
        except _DAMAGE as error:
            raise ValueError(f"checkpoint {self.path!r}, array {name!r}: its data is damaged ({error}).") from error

    def close(self):
        """Closes the file."""
        self._file.close()


def _is_bfloat16(dataset):
    """Whether Keras stored bfloat16, which HDF5 doesn't have: two bytes of no known kind, and a note beside them."""
    note = dataset.attrs.get("dtype")
    return isinstance(note, str) and note == "bfloat16" and dataset.dtype.itemsize == 2
