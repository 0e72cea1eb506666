"""Which class is taken for which.

Legend: n images, K classes.
"""

import numpy as np

from vitkeras.evaluation.arguments import checked_labels


def confusion_matrix(labels, predictions, num_classes, with_others=False):
    """Counts images by their class and the class that was predicted.

    Args:
        labels: int array (n,), 0...K - 1.
        predictions: int array (n,), 0...K - 1; also -1, a class that is none of these, if `with_others`.
        num_classes: int >= 1, K.
        with_others: bool, whether a last column counts the predictions of -1. Default False.

    Returns:
        int64 array (K, K), or (K, K + 1) with others: rows are the labels, columns the predictions.

    Raises:
        ValueError: if shapes don't fit or a class is out of range.

    Example:
        >>> confusion_matrix([0, 0, 1], [0, 1, 1], num_classes=2)
        array([[1, 1],
               [0, 1]])
    """
    if not isinstance(num_classes, (int, np.integer)) or num_classes < 1:
        raise ValueError(f"num_classes must be an int >= 1, received {num_classes!r}.")
    labels = np.asarray(labels)
    labels = checked_labels(labels, labels.size, num_classes)
    predictions = np.asarray(predictions)
    columns = num_classes + bool(with_others)
    if with_others:
        predictions = np.where(predictions == -1, num_classes, predictions)
    predictions = checked_labels(predictions, len(labels), columns, "predictions")
    return np.bincount(labels * columns + predictions, minlength=num_classes * columns).reshape(num_classes, columns)


def most_confused(matrix, most=25):
    """The commonest mistakes.

    Args:
        matrix: int array from `confusion_matrix`.
        most: int >= 1, how many pairs at most. Default 25.

    Returns:
        list of (label, prediction, count, share of the label's images), commonest first, then in order of the classes;
        a prediction of K is another class.

    Raises:
        ValueError: if the matrix has another shape.

    Example:
        >>> most_confused(np.array([[6, 2], [0, 3]]))
        [(0, 1, 2, 0.25)]
    """
    wrong, counts = checked_matrix(matrix).copy(), np.asarray(matrix).sum(axis=1)
    np.fill_diagonal(wrong, 0)
    order = np.argsort(-wrong, axis=None, kind="stable")[:most]
    pairs = zip(*np.unravel_index(order, wrong.shape))
    return [(int(i), int(j), int(wrong[i, j]), float(wrong[i, j] / counts[i])) for i, j in pairs if wrong[i, j]]


def checked_matrix(matrix):
    """int array (K, K) or (K, K + 1) of counts, or a ValueError."""
    matrix = np.asarray(matrix)
    if matrix.ndim != 2 or matrix.shape[1] - matrix.shape[0] not in (0, 1) or matrix.dtype.kind not in "iu":
        raise ValueError(f"matrix must be ints of shape (K, K) or (K, K + 1), received {matrix.dtype} {matrix.shape}.")
    if not matrix.size or matrix.min() < 0:
        raise ValueError("matrix must hold counts >= 0, received a negative one or none.")
    return matrix
