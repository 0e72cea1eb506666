"""Lists of images: a CSV file with the columns path, label and, if wanted, split."""

import csv
import os

import numpy as np

from vitkeras.data.listing import Listing, checked, require_each, some, split_listing, splits_of

COLUMNS = ("path", "label", "split")
SPLITS = {"train": 0, "test": 1, "val": 1, "validation": 1}
NAMES_FILE = "classes.txt"


def open_csv(path, on_bad_image="refuse", test_fraction=0.2, seed=0):
    """Opens a CSV list of images.

    The first line names the columns: `path` and `label`, in any order, and perhaps `split` (train, test, val or
    validation); others are left alone. Paths are relative to the list's folder, or absolute. Labels are class names;
    the classes are those of `classes.txt` beside the list (a name a line, in the order of the labels), else the names
    that occur, sorted.

    Args:
        path: str, `~` allowed; UTF-8, comma separated.
        on_bad_image, test_fraction, seed: as in `open_dataset`; without a split column a stratified part is held out.

    Returns:
        `DatasetSplits`.

    Raises:
        ValueError, ImportError: as `open_dataset`; rows that cannot be used are named by their line.

    Example:
        >>> open_csv("flowers.csv").class_names                              # doctest: +SKIP
        ('daisy', 'rose')
    """
    full = os.path.abspath(os.path.expanduser(path))
    if not os.path.isfile(full):
        raise ValueError(f"data csv must be a file, received {path!r}.")
    source, folder = f"data csv {full!r}", os.path.dirname(full)
    rows, has_splits = _rows(full, source)
    for part, name in enumerate(("train", "test") if has_splits else ()):
        if not any(row[3] == part for row in rows):
            raise ValueError(f"{source} must have rows of the split {name}, received none.")
    names = _class_names(os.path.join(folder, NAMES_FILE), source, rows)
    if len(names) < 2 and test_fraction is not None:
        raise ValueError(f"{source} must have at least 2 classes, received {names}.")
    number_of = {name: number for number, name in enumerate(names)}
    unknown = [f"line {line} ({label!r})" for line, _, label, _ in rows if label not in number_of]
    if unknown:
        raise ValueError(f"{source} must have labels of {NAMES_FILE} only, received others in {some(unknown)}.")
    parts = []
    for part in range(2 if has_splits else 1):
        chosen = [row for row in rows if row[3] == part]
        paths = np.array([os.path.join(folder, row[1]) for row in chosen])
        labels = np.array([number_of[row[2]] for row in chosen], "int32")
        parts.append(Listing(source, names, labels, paths, num_ignored=0))
    require_each(parts[0], 1, "an image")
    parts = checked(source, parts, on_bad_image, folder)
    if not has_splits:
        parts = split_listing(parts[0], test_fraction, seed)
    return splits_of(f"csv:{path}", parts)


def _rows(path, source):
    """([(line, path, label, 0 for training and 1 for held out)], whether there is a split column)."""
    rows, bad, lines_of = [], [], {}
    with open(path, encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file)
        try:
            columns = [name.strip() for name in next(reader, [])]
            missing = [name for name in COLUMNS[:2] if name not in columns]
            if missing:
                raise ValueError(
                    f"{source} must name the columns path and label in its first line, received {columns}: "
                    f"{' and '.join(missing)} missing."
                )
            for cells in reader:
                if not cells:
                    continue  # an empty line
                row, fault = _row(dict(zip(columns, cells)), len(cells) - len(columns))
                if not fault and row[0] in lines_of:
                    fault = f"the path of line {lines_of[row[0]]} again"
                if fault:
                    bad.append(f"line {reader.line_num} ({fault})")
                    continue
                lines_of[row[0]] = reader.line_num
                rows.append((reader.line_num, *row))
        except UnicodeDecodeError as error:
            raise ValueError(f"{source} must be UTF-8 text, received other bytes ({error}).") from error
        except csv.Error as error:
            raise ValueError(
                f"{source} must be CSV text, received other in line {reader.line_num} ({error})."
            ) from error
    if bad:
        raise ValueError(f"{source} must have usable rows only, received {len(bad)} others: {some(bad, '; ')}.")
    if not rows:
        raise ValueError(f"{source} must have a row for every image, received none.")
    return rows, "split" in columns


def _row(cells, surplus):
    """((path, label, part), None), or (None, what is wrong with the row)."""
    if surplus:
        return None, f"{abs(surplus)} cells too {'many' if surplus > 0 else 'few'}"
    path, label, split = (cells.get(name, "train").strip() for name in COLUMNS)
    if not path or not label:
        return None, f"no {'label' if path else 'path'}"
    if split not in SPLITS:
        return None, f"split {split!r} is none of {', '.join(SPLITS)}"
    return (path, label, SPLITS[split]), None


def _class_names(path, source, rows):
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            names = tuple(line.strip() for line in file if line.strip())
        if len(set(names)) < len(names):
            raise ValueError(f"{path!r} must name each class once, received {len(names) - len(set(names))} again.")
    else:
        names = tuple(sorted({label for _, _, label, part in rows if part == 0}))
        others = sorted({label for _, _, label, _ in rows} - set(names))
        if others:
            raise ValueError(f"{source} must hold out classes of training only, received also {some(others)}.")
    return names
