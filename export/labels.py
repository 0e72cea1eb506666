"""Class names inside the file."""

from . import archive
from .metadata import LABELS_FILE


def check_labels(labels, classes):
    """Returns `labels` as a list of str; raises ValueError unless there is one line for each of `classes` outputs."""
    if isinstance(labels, str) or not hasattr(labels, "__iter__"):
        raise ValueError(f"labels must be a list of names, received {labels!r}.")
    labels = list(labels)
    if wrong := [label for label in labels if not isinstance(label, str)]:
        raise ValueError(f"labels must be text, received {wrong[0]!r}.")
    if len(labels) != classes:
        raise ValueError(f"labels must hold {classes} names, one an output, received {len(labels)}.")
    broken = [label for label in labels if not label.strip() or "\n" in label or "\r" in label]
    if broken:
        raise ValueError(f"labels must be single lines with text, received {broken[0]!r}.")
    return labels


def append_labels(path, labels):
    """Appends `labels.txt` behind the flatbuffer."""
    archive.append(path, LABELS_FILE, "\n".join(labels) + "\n")


def read_labels(path):
    """Reads the class names in a `.tflite` file.

    Args:
        path: str, a file from `to_tflite`, or any other with a `labels.txt` in the archive behind it.

    Returns:
        list of str, in the order of the outputs; None if the file holds none.

    Raises:
        OSError: if the file cannot be read.

    Example:
        >>> read_labels("photos.tflite")                                    # doctest: +SKIP
        ['daisy', 'tulip']
    """
    text = archive.read(path, LABELS_FILE)
    return None if text is None else text.splitlines()
