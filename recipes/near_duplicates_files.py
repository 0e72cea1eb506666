"""The lists that a search for near-duplicates writes."""

from .text_file import csv_text

COLUMNS = ("train", "test", "distance", "mirrored", "cosine", "train_label", "test_label", "same_label")


def leave_out(pairs):
    """The places of the training images that are in a pair, sorted.

    Example:
        >>> leave_out([{"train_index": 5}, {"train_index": 2}, {"train_index": 5}])
        [2, 5]
    """
    return sorted({pair["train_index"] for pair in pairs})


def pairs_text(pairs):
    """A line for every pair, under a line of column names."""
    return csv_text(COLUMNS, ([pair[name] for name in COLUMNS] for pair in pairs))


def kept_text(train, test, left_out):
    """A list for `--data csv:`: training files but those left out, and the test files where their classes fit.

    Args:
        train, test: `ImageSet`s; `train` of files.
        left_out: list of int, places in `train`.
    """
    left_out = set(left_out)
    rows = [
        (path, train.class_names[label], "train")
        for i, (path, label) in enumerate(zip(train.paths, train.labels))
        if i not in left_out
    ]
    columns = ("path", "label", "split")
    if hasattr(test, "paths") and set(test.class_names) <= set(train.class_names):
        rows += [(path, test.class_names[label], "test") for path, label in zip(test.paths, test.labels)]
        return csv_text(columns, rows)
    return csv_text(columns[:2], (row[:2] for row in rows))  # a part will be held out
