"""Output paths: refused before any work is done, written under a temporary name, moved when good."""

import contextlib
import hashlib
import os
import shutil
import tempfile
import zlib


def check_output(path, overwrite, folder=False):
    """Raises before any work if `path` cannot or must not be written.

    Args:
        path: str, file or folder to make.
        overwrite: bool, whether a file at `path`, or an older SavedModel, may be replaced.
        folder: bool, whether a folder is to be made. Default False.

    Raises:
        FileExistsError: if `path` exists and `overwrite` is False, or is a folder of other things.
        IsADirectoryError, NotADirectoryError: if `path` exists and is of the other kind.
        FileNotFoundError: if its folder does not exist.
        PermissionError: if its folder cannot be written.
    """
    if not isinstance(overwrite, bool):
        raise ValueError(f"overwrite must be True or False, received {overwrite!r}.")
    parent = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(parent):
        raise FileNotFoundError(f"output folder {parent!r} does not exist.")
    if not os.access(parent, os.W_OK):
        raise PermissionError(f"output folder {parent!r} cannot be written.")
    if not os.path.lexists(path):
        return
    if not overwrite:
        raise FileExistsError(f"output {path!r} exists; choose another name, or overwrite=True (--overwrite).")
    if os.path.isdir(path) and not folder:
        raise IsADirectoryError(f"output {path!r} must be a file, it is a folder.")
    if folder and not os.path.isdir(path):
        raise NotADirectoryError(f"output {path!r} must be a folder, it is a file.")
    if folder and os.listdir(path) and not os.path.exists(os.path.join(path, "saved_model.pb")):
        raise FileExistsError(f"output {path!r} must be a SavedModel to be replaced, it is a folder of other things.")


@contextlib.contextmanager
def written_aside(path):
    """Gives a temporary name beside `path`; moves it there if the block ends well, removes it otherwise.

    Args:
        path: str, file or folder; replaced if it exists.

    Yields:
        str, a name in a fresh folder on the same file system, with the same base name.
    """
    path = os.path.abspath(path)
    try:
        temporary = tempfile.TemporaryDirectory(prefix=".export-", dir=os.path.dirname(path))
    except OSError as error:  # folders of the system's own, which look as if they could be written
        raise type(error)(f"output folder {os.path.dirname(path)!r} cannot be written ({error.strerror}).") from error
    with temporary as folder:
        aside = os.path.join(folder, os.path.basename(path))
        yield aside
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.move(path, os.path.join(folder, "replaced"))  # removed with the folder, after the move below
        os.replace(aside, path)


def gzip_size(path):
    """int, bytes of a file compressed with gzip, as an app's package or a download holds it."""
    packer, size = zlib.compressobj(6, wbits=31), 0  # 31: gzip's format
    with open(path, "rb") as file:
        while block := file.read(2**20):
            size += len(packer.compress(block))
    return size + len(packer.flush())


def sha256(path):
    """The file's SHA-256, hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
