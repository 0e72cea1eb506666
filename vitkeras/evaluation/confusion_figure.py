"""The picture of a confusion matrix: all of it for few classes, the worst pairs for many.

Legend: K classes.
"""

import numpy as np

from vitkeras._optional import require
from vitkeras.evaluation.confusion import checked_matrix, most_confused

MOST_CLASSES = 40  # whose names can be read beside a matrix
_MOST_NUMBERED = 20
_PAIRS = 30
_LONGEST = 28  # letters of a name


def confusion_figure(matrix, class_names):
    """Draws a confusion matrix so that it can be read.

    Up to 40 classes: the matrix, a cell's colour and (up to 20 classes) number the share of the row's images in
    percent. More: the 30 commonest mistakes as bars, and how the classes' accuracies are spread.

    Args:
        matrix: int array (K, K) or (K, K + 1) from `confusion_matrix`.
        class_names: sequence of K str.

    Returns:
        `matplotlib.figure.Figure`; `figure.savefig(path)` writes it.

    Raises:
        ImportError: if Matplotlib is missing; the extra is named.
        ValueError: if the names are not as many as the classes.

    Example:
        >>> figure = confusion_figure(np.array([[3, 1], [0, 2]]), ("elm", "ash"))
        >>> len(figure.axes)
        2
    """
    matrix, names = checked_matrix(matrix), [_short(name) for name in class_names]
    if len(names) != len(matrix):
        raise ValueError(f"class_names must hold {len(matrix)} names, received {len(names)}.")
    figures = require("matplotlib.figure", "Matplotlib", "the picture of the confusion matrix")
    columns = names + ["another class"] * (matrix.shape[1] - len(names))
    if len(names) <= MOST_CLASSES:
        return _whole(figures, matrix, names, columns)
    return _worst(figures, matrix, names, columns)


def _whole(figures, matrix, names, columns):
    counts = matrix.sum(axis=1)
    shares = 100 * matrix / np.maximum(counts, 1)[:, None]
    cell = 0.42 if len(names) <= _MOST_NUMBERED else 0.26
    letters, side = max(map(len, columns)), max(4.0, cell * len(names))
    figure = figures.Figure(figsize=(side + 1.6 + 0.07 * letters, side + 0.6 + 0.07 * letters), layout="constrained")
    axis = figure.subplots()
    image = axis.imshow(shares, cmap="Blues", vmin=0, vmax=100)
    axis.set_xticks(range(len(columns)), columns, rotation=90, fontsize=8)
    axis.set_yticks(range(len(names)), [f"{name} ({count})" for name, count in zip(names, counts)], fontsize=8)
    axis.set(xlabel="predicted", ylabel="label (images)", title="percent of each label's images")
    if len(names) <= _MOST_NUMBERED:
        for (i, j), share in np.ndenumerate(shares):
            if matrix[i, j]:
                text = f"{share:.0f}" if share >= 0.5 else "<1"
                axis.text(j, i, text, ha="center", va="center", fontsize=7, color="white" if share > 55 else "black")
    figure.colorbar(image, ax=axis, shrink=0.7)
    return figure


def _worst(figures, matrix, names, columns):
    pairs = most_confused(matrix, _PAIRS)
    counts = matrix.sum(axis=1)
    accuracies = 100 * np.diagonal(matrix)[counts > 0] / counts[counts > 0]
    figure = figures.Figure(figsize=(11, max(3.6, 0.24 * len(pairs) + 1.2)), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    bars = left.barh(range(len(pairs)), [count for _, _, count, _ in pairs], color="#1f77b4")
    left.bar_label(bars, [f"{100 * share:.0f} %" for *_, share in pairs], fontsize=7, padding=2)
    left.set_yticks(range(len(pairs)), [f"{names[i]} → {columns[j]}" for i, j, *_ in pairs], fontsize=7)
    left.invert_yaxis()
    left.margins(x=0.12)
    left.xaxis.get_major_locator().set_params(integer=True)
    title = f"commonest mistakes of {len(names)} classes" if pairs else "no mistakes"
    left.set(xlabel="images (percent: of the label's)", title=title)
    right.hist(accuracies, bins=np.linspace(0, 100, 11), color="#1f77b4")
    right.set(xlabel="accuracy of a class in percent", ylabel="classes", xlim=(0, 100), title="all classes with images")
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
    return figure


def _short(name):
    name = str(name).replace("$", r"\$")  # which Matplotlib takes for mathematics
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"
