"""Reading `.npz` files without trust: no pickle, every size checked, one array in memory at a time."""

import os
import zipfile
import zlib
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class ArrayHeader:
    """What a `.npz` member says of itself before its data is read."""

    shape: tuple
    dtype: np.dtype


class NpzFile:
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
        if not os.path.isfile(self.path):
            raise FileNotFoundError(f"checkpoint {self.path!r} is not a file.")
        if not os.path.getsize(self.path):
            raise ValueError(f"checkpoint {self.path!r} is empty.")
        try:
            self._archive = zipfile.ZipFile(self.path)
        except zipfile.BadZipFile as error:
            raise ValueError(f"checkpoint {self.path!r} is truncated or not an .npz file ({error}).") from error
        try:
            self.headers = {info.filename.removesuffix(".npy"): self._header(info) for info in self._archive.infolist()}
        except BaseException:
            self._archive.close()
            raise

    def _header(self, info):
        """Reads one member's header and checks that its data has the size that the header gives."""
        where = f"checkpoint {self.path!r}, array {info.filename!r}"
        try:
            with self._archive.open(info) as stream:
                version = np.lib.format.read_magic(stream)
                reader = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
                shape, _, dtype = reader[version](stream)
                header_size = stream.tell()
        except (ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
            raise ValueError(f"{where}: not a NumPy array ({error}).") from error
        if dtype.hasobject:
            raise ValueError(f"{where}: holds Python objects, which are never loaded.")
        expected = header_size + dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        if info.file_size != expected:
            raise ValueError(f"{where}: must hold {expected} bytes for shape {shape}, received {info.file_size}.")
        return ArrayHeader(shape, dtype)

    def verify(self):
        """Reads the file once against its checksums, in small pieces; raises ValueError naming a damaged array."""
        try:
            damaged = self._archive.testzip()
        except (zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise ValueError(f"checkpoint {self.path!r} is damaged ({error}).") from error
        if damaged:
            raise ValueError(f"checkpoint {self.path!r}, array {damaged!r}: data does not match its checksum.")

    def read(self, name):
        """Returns the array called `name`."""
        with self._archive.open(name + ".npy") as stream:
            return np.lib.format.read_array(stream, allow_pickle=False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._archive.close()
