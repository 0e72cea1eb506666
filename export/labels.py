"""Class names inside the file."""

import zipfile


def check_labels(labels, classes):
    """Returns `labels` as a list of str; raises ValueError unless there is one line for each of `classes` outputs."""
    labels = [str(label) for label in labels]
    if len(labels) != classes:
        raise ValueError(f"labels must hold {classes} names, one an output, received {len(labels)}.")
    broken = [label for label in labels if not label.strip() or "\n" in label or "\r" in label]
    if broken:
        raise ValueError(f"labels must be single lines with text, received {broken[0]!r}.")
    return labels


def append_labels(path, labels):
    """Appends `labels.txt` as a zip archive behind the flatbuffer; runtimes read the model as before."""
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("labels.txt", "\n".join(labels) + "\n")


def read_labels(path):
    """Returns the class names in a `.tflite` file, or None if there are none."""
    if not zipfile.is_zipfile(path):
        return None
    with zipfile.ZipFile(path) as archive:
        return archive.read("labels.txt").decode().splitlines()
