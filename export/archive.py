"""Files behind a model: a zip archive appended to the flatbuffer, which runtimes read as before."""

import zipfile


def append(path, name, text):
    """Appends a text file; the same text makes the same bytes, at any time."""
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0)), text)


def read(path, name):
    """Returns the text of a file behind the model, or None if it isn't there."""
    with open(path, "rb") as file:
        if not zipfile.is_zipfile(file):
            return None
        with zipfile.ZipFile(file) as archive:
            return archive.read(name).decode() if name in archive.namelist() else None
