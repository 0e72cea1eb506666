"""Reading `.npz` files without trust: no pickle, every size checked, one array in memory at a time."""

import lzma
import math
import os
import struct
import tokenize
import zipfile
import zlib

import numpy as np

from vitkeras.checkpoints.array_file import MAX_ARRAYS, ArrayFile, ArrayHeader, block_sizes, check_file

# What zipfile, its decompressors and NumPy's header parser raise on bytes that are not what they claim to be.
_DAMAGE = (
    EOFError,
    KeyError,
    NotImplementedError,
    OverflowError,
    RuntimeError,
    SyntaxError,
    ValueError,
    lzma.LZMAError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
MAX_RATIO = 32
SMALL_BYTES = 2**26  # an archive that unpacks to less may hold mostly zeros
MAX_ARRAY_BYTES = 2**35  # no model of this architecture comes near
_HEADER_READERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


class NpzFile(ArrayFile):
    """A `.npz` archive whose headers were checked and whose arrays are read one by one.

    Args:
        path: str or path-like.

    Attributes:
        headers: dict of array name -> `ArrayHeader`.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if the file is empty, truncated, not an archive of arrays, or holds Python objects.

    Example:
        >>> with NpzFile("weights.npz") as file:                # doctest: +SKIP
        ...     file.headers["cls"].shape, file.read("cls").dtype
    """

    def __init__(self, path):
        self.path = os.fspath(path)
        check_file(self.path)
        try:
            self._archive = zipfile.ZipFile(self.path)
        except (*_DAMAGE, OSError) as error:  # OSError: a damaged directory sends the reader to a negative offset
            raise ValueError(f"checkpoint {self.path!r} is truncated or not an .npz file ({error}).") from error
        try:
            self._members, self._starts, self.headers = {}, {}, {}
            if len(self._archive.infolist()) > MAX_ARRAYS:
                raise ValueError(
                    f"checkpoint {self.path!r} must hold at most {MAX_ARRAYS} arrays, received "
                    f"{len(self._archive.infolist())}."
                )
            for info in self._archive.infolist():
                name = info.filename.removesuffix(".npy")
                if name in self._members:
                    raise ValueError(f"checkpoint {self.path!r} holds the array {name!r} twice.")
                self._members[name], self.headers[name] = info, self._header(info)
            if not self.headers:
                raise ValueError(f"checkpoint {self.path!r} holds no arrays.")
            self._check_ratio(sum(info.file_size for info in self._members.values()))
        except BaseException:
            self._archive.close()
            raise

    def _check_ratio(self, total):
        """Trained weights hardly compress; what unpacks to far more than the file is there to fill the memory."""
        size = os.path.getsize(self.path)
        if total > max(MAX_RATIO * size, SMALL_BYTES):
            raise ValueError(
                f"checkpoint {self.path!r} must unpack to at most {MAX_RATIO} times its {size} bytes, received {total}."
            )

    def _where(self, info):
        return f"checkpoint {self.path!r}, array {info.filename!r}"

    def _header(self, info):
        """Reads one member's header and checks that its data has the size that the header gives."""
        try:
            with self._archive.open(info) as stream:
                version = np.lib.format.read_magic(stream)
                if version not in _HEADER_READERS:
                    raise ValueError(f"format version {version} is not known")
                shape, by_columns, dtype = _HEADER_READERS[version](stream)
                header_size = stream.tell()
                if any(side < 0 for side in shape):
                    raise ValueError(f"its shape {shape} has a negative side")
        except _DAMAGE as error:
            raise ValueError(f"{self._where(info)}: damaged or not a NumPy array ({error}).") from error
        if dtype.hasobject:
            raise ValueError(f"{self._where(info)}: holds Python objects, which are never loaded.")
        expected = header_size + dtype.itemsize * math.prod(shape)
        if info.file_size != expected:
            raise ValueError(
                f"{self._where(info)}: must hold {expected} bytes for shape {shape}, received {info.file_size}."
            )
        if expected > MAX_ARRAY_BYTES:
            raise ValueError(f"{self._where(info)}: must hold at most {MAX_ARRAY_BYTES} bytes, received {expected}.")
        # A vector, or an array of one value, lies the same way in both orders.
        self._starts[info.filename] = header_size
        return ArrayHeader(shape, dtype, by_columns and len(shape) > 1)

    def blocks(self, name, parts=1, multiple=1):
        """Yields the array in pieces; ValueError, naming it, if its data fails the checksum."""
        info, header = self._members[name], self.headers[name]
        try:
            with self._archive.open(info) as stream:
                stream.read(self._starts[info.filename])
                for count in block_sizes(math.prod(header.shape), header.dtype.itemsize, parts, multiple):
                    yield np.frombuffer(stream.read(count * header.dtype.itemsize), header.dtype, count)
        except _DAMAGE as error:
            raise ValueError(f"{self._where(info)}: its data is damaged ({error}).") from error

    def close(self):
        """Closes the file."""
        self._archive.close()
