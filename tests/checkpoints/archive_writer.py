"""Writing .npz archives member by member, for tests of the reader."""

import io
import zipfile

import numpy as np


def archive(path, members, **options):
    """Writes {name: content} as a zip archive; returns the path."""
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            file.writestr(name, content, **options)
    return path


def npy(array):
    """The bytes of a .npy file."""
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()
