"""One checkpoint on disk: `arrays.npz`, every array under its own name, and `meta.json`. Whole, or not there at all."""

import errno
import json
import os
import shutil
import zipfile
import zlib
from dataclasses import dataclass

import numpy as np

_MAX_NAMED = 5


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was read.

    Attributes:
        step: int, updates done.
        arrays: dict of name -> `np.ndarray`.
        meta: dict, the contents of `meta.json`.
    """

    step: int
    arrays: dict
    meta: dict


def write_checkpoint(path, state, meta):
    """Writes a checkpoint folder under a temporary name, forces it to the disk, and renames it.

    Args:
        path: str, the folder to make; one that is there is replaced.
        state: dict of name -> `np.ndarray` of numbers.
        meta: dict of plain values with a "step"; "arrays" is added to it.

    Raises:
        OSError: if it can't be written; nothing is left then.
    """
    folder, name = os.path.split(path)
    os.makedirs(folder, exist_ok=True)
    partial = os.path.join(folder, f".{name}.part")
    if os.path.isdir(partial):  # of a process that died while writing
        shutil.rmtree(partial)
    try:
        os.mkdir(partial)
        with open(os.path.join(partial, "arrays.npz"), "wb") as file:
            _write_arrays(file, state)
            _force(file)
        arrays = {key: [str(array.dtype), list(array.shape)] for key, array in state.items()}
        write_json(os.path.join(partial, "meta.json"), {**meta, "arrays": arrays})
        if os.path.isdir(path):
            shutil.rmtree(path)
        os.rename(partial, path)
        _force_folder(folder)
    except OSError:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def read_checkpoint(path):
    """Reads one checkpoint folder and checks that it is whole.

    Args:
        path: str.

    Returns:
        `Checkpoint`.

    Raises:
        ValueError: if a file is missing or damaged, or an array isn't the one that `meta.json` describes.

    Example:
        >>> write_checkpoint("run/ckpt-3", {"head/bias": np.arange(5)}, {"step": 3})
        >>> read_checkpoint("run/ckpt-3").arrays["head/bias"]
        array([0, 1, 2, 3, 4])
    """
    meta = read_meta(path)
    try:
        # Opened here: NumPy leaves the file of a damaged archive open.
        with open(os.path.join(path, "arrays.npz"), "rb") as raw, np.load(raw, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}  # zipfile compares each one's CRC
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"checkpoint {path} is damaged: arrays.npz can't be read ({error}).") from error
    described = {key: (dtype, tuple(shape)) for key, (dtype, shape) in meta["arrays"].items()}
    held = {key: (str(array.dtype), array.shape) for key, array in arrays.items()}
    if wrong := sorted(key for key in described.keys() | held.keys() if described.get(key) != held.get(key)):
        raise ValueError(f"checkpoint {path} is damaged: arrays.npz and meta.json differ in {some(wrong)}.")
    return Checkpoint(meta["step"], arrays, meta)


def read_meta(path):
    """Returns the contents of a checkpoint's `meta.json`; a ValueError names a damaged one."""
    try:
        with open(os.path.join(path, "meta.json"), encoding="utf-8") as file:
            meta = json.load(file)
        meta["step"], meta["arrays"]
        return meta
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"checkpoint {path} is damaged: meta.json can't be read ({error}).") from error


def write_json(path, values):
    """Writes JSON under a temporary name, forces it to the disk and moves it into place."""
    write_text(path, json.dumps(values, indent=1, ensure_ascii=False) + "\n")


def write_text(path, text):
    """Writes text under a temporary name, forces it to the disk and moves it into place."""
    with open(path + ".part", "w", encoding="utf-8") as file:
        file.write(text)
        _force(file)
    os.replace(path + ".part", path)
    _force_folder(os.path.dirname(path) or ".")


def some(names, count=_MAX_NAMED):
    """The first names, and how many more there are."""
    names = list(names)
    more = len(names) - count
    return ", ".join(map(str, names[:count])) + (f" and {more} more" if more > 0 else "")


def _write_arrays(file, state):
    # Not np.savez, whose keyword arguments forbid an array called "file".
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in state.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array, order="C"), allow_pickle=False)


def _force(file):
    file.flush()
    os.fsync(file.fileno())


def _force_folder(path):
    """Makes renames within a folder survive a power cut; a file system without that refuses, which is fine."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)
