"""Made-up images, so that a recipe can be run from end to end without any data."""

import re

import numpy as np

from vitkeras._tensorflow import tf
from vitkeras.data.image_set import DatasetSplits, IndexedSet

_SIZES = {"train": 64, "test": 16}
_MOST_CLASSES_SHOWN = 16


class MockSet(IndexedSet):
    """Images of noise around a colour of their class, made when they are read.

    Args:
        name, class_names, labels: as in `IndexedSet`.
        size: (height, width) in pixels.
        first: int, number of the first image; images of different numbers differ.

    Example:
        >>> MockSet("two", ("a", "b"), np.array([0, 1]), size=(5, 7), first=0).num_examples
        2
    """

    def __init__(self, name, class_names, labels, size, first):
        super().__init__(name, class_names, labels, {"number": np.arange(first, first + len(labels))})
        self._size = size

    def image(self, record):
        label = tf.cast(record["label"], tf.int64)
        colour = tf.random.stateless_uniform((1, 1, 3), tf.stack([label, -1]), 0, 192, tf.int32)
        noise = tf.random.stateless_uniform((*self._size, 3), tf.stack([record["number"], 0]), 0, 64, tf.int32)
        return tf.cast(colour + noise, tf.uint8)


def open_mock(text):
    """Opens made-up images; the same text gives the same images.

    Args:
        text: str, `HEIGHTxWIDTHxCLASSES`, each >= 1 and at least two classes.

    Returns:
        `DatasetSplits` of 64 and 16 images. At most 16 of the classes have images, the first one among them.

    Raises:
        ValueError: if `text` is no such triple.

    Example:
        >>> splits = open_mock("5x7x1000")
        >>> splits.train.num_examples, len(splits.class_names), splits.test.labels.max() < 1000
        (64, 1000, np.True_)
    """
    match = re.fullmatch(r"(\d+)x(\d+)x(\d+)", text, re.ASCII)
    height, width, classes = (int(part) for part in match.groups()) if match else (0, 0, 0)
    if min(height, width) < 1 or classes < 2:
        raise ValueError(
            f"data mock:HxWxK must give height, width >= 1 and at least 2 classes, such as mock:32x32x10, "
            f"received {text!r}."
        )
    names = tuple(f"class {k}" for k in range(classes))
    shown = min(classes, _MOST_CLASSES_SHOWN)
    sets, first = [], 0
    for part, count in _SIZES.items():
        labels = np.arange(count) % shown * classes // shown
        sets.append(MockSet(f"mock:{text} ({part})", names, labels, (height, width), first))
        first += count
    return DatasetSplits(*sets, names, f"mock:{text}")
