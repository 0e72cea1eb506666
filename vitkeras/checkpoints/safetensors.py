"""Reading `.safetensors` files without trust: header bounded, every size and offset checked, one array at a time.

The format: 8 bytes of header length (little-endian), a JSON header of names, dtypes, shapes and byte ranges, the data.
"""

import json
import math
import os

import numpy as np

from vitkeras.checkpoints.array_file import MAX_ARRAYS, ArrayFile, ArrayHeader, block_sizes, check_file
from vitkeras.checkpoints.settings import unique_keys

MAX_HEADER_BYTES = 2**26  # the format's own bound is 100 MB; a ViT's header has some 50 kB
_DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",  # the upper half of a float32
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "u1",
    "BOOL": "?",
}


class SafetensorsFile(ArrayFile):
    """A `.safetensors` file whose header was checked and whose arrays are read one by one.

    Args:
        path: str or path-like.

    Attributes:
        headers: dict of array name -> `ArrayHeader`; bfloat16 arrays are given, and read, as float32.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if the file is empty, truncated, or its header is not what the format asks for.

    Example:
        >>> with SafetensorsFile("model.safetensors") as file:  # doctest: +SKIP
        ...     file.headers["cls_token"].shape, file.read("cls_token").dtype
    """

    def __init__(self, path):
        self.path = os.fspath(path)
        check_file(self.path)
        self._stream = open(self.path, "rb")
        try:
            self._ranges, self.headers = {}, {}
            self._read_header()
        except BaseException:
            self._stream.close()
            raise

    def _read_header(self):
        size = os.path.getsize(self.path)
        length = int.from_bytes(self._stream.read(8), "little")
        if size < 8 or length > min(size - 8, MAX_HEADER_BYTES):
            raise ValueError(
                f"checkpoint {self.path!r} is truncated or not a .safetensors file (a header of {length} bytes in a "
                f"file of {size})."
            )
        try:
            entries = json.loads(self._stream.read(length).decode("utf-8"), object_pairs_hook=unique_keys)
        except (ValueError, RecursionError) as error:  # of the encoding, of JSON, of an integer too long, of a name
            raise ValueError(f"checkpoint {self.path!r} is not a .safetensors file (header: {error}).") from error
        if not isinstance(entries, dict):
            raise ValueError(f"checkpoint {self.path!r} is not a .safetensors file (its header is no JSON object).")
        entries.pop("__metadata__", None)
        if not 0 < len(entries) <= MAX_ARRAYS:
            raise ValueError(f"checkpoint {self.path!r} must hold 1 to {MAX_ARRAYS} arrays, received {len(entries)}.")
        self._start = 8 + length
        for name, entry in entries.items():
            self._add(name, entry, size - self._start)
        self._check_ranges(size - self._start)

    def _where(self, name):
        return f"checkpoint {self.path!r}, array {name!r}"

    def _add(self, name, entry, data_size):
        keys = {"dtype", "shape", "data_offsets"}
        if not isinstance(entry, dict) or set(entry) != keys:
            raise ValueError(f"{self._where(name)}: its header must hold {sorted(keys)}, received {entry!r}.")
        kind, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
        if not isinstance(kind, str) or kind not in _DTYPES:
            raise ValueError(f"{self._where(name)}: dtype must be one of {tuple(_DTYPES)}, received {kind!r}.")
        for values, label in ((shape, "shape"), (offsets, "data_offsets")):
            if not isinstance(values, list) or not all(type(v) is int and v >= 0 for v in values):
                raise ValueError(f"{self._where(name)}: {label} must be a list of ints >= 0, received {values!r}.")
        stored = np.dtype(_DTYPES[kind])
        expected = stored.itemsize * math.prod(shape)
        if len(offsets) != 2 or offsets[1] - offsets[0] != expected or offsets[1] > data_size:
            raise ValueError(
                f"{self._where(name)}: must hold {expected} bytes for shape {tuple(shape)} within {data_size} bytes of "
                f"data, received offsets {offsets}."
            )
        self._ranges[name] = (*offsets, stored, kind)
        self.headers[name] = ArrayHeader(tuple(shape), np.dtype("float32") if kind == "BF16" else stored)

    def _check_ranges(self, data_size):
        """The arrays fill the data without overlap or gap, so that no byte is unaccounted for."""
        end = 0
        for name in sorted(self._ranges, key=lambda name: self._ranges[name][:2]):
            start, stop = self._ranges[name][:2]
            if start != end:
                what = "overlaps the array before it" if start < end else "leaves a gap before it"
                raise ValueError(f"{self._where(name)}: {what} (offset {start}, expected {end}).")
            end = stop
        if end != data_size:
            raise ValueError(f"checkpoint {self.path!r} must hold {end} bytes of data, received {data_size}.")

    def blocks(self, name, parts=1, multiple=1):
        """Yields the array in pieces; ValueError, naming it, if the file was cut meanwhile."""
        start, _, stored, kind = self._ranges[name]
        start += self._start
        for count in block_sizes(math.prod(self.headers[name].shape), stored.itemsize, parts, multiple):
            block = np.empty(count, stored)
            self._stream.seek(start)
            if self._stream.readinto(block.view("u1").data) != block.nbytes:
                raise ValueError(f"{self._where(name)}: its data ends early.")
            start += block.nbytes
            yield block if kind != "BF16" else (block.astype("<u4") << 16).view("<f4")

    def close(self):
        """Closes the file."""
        self._stream.close()
