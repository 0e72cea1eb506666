"""Every class by itself: how many of its images are found, and how many that are called so are of it.

Legend: K classes.
"""

import numpy as np

from vitkeras.evaluation.confusion import checked_matrix


def class_table(matrix):
    """Accuracy, precision, recall and F1 of each class.

    With one label an image, a class's accuracy (the share of its images that are recognised) and its recall are the
    same number; both are given because both names are looked for.

    Args:
        matrix: int array (K, K) or (K, K + 1) from `confusion_matrix`; predictions of other classes count as misses.

    Returns:
        dict of arrays (K,): "count" (int, images of the class), "predicted" (int, images that were called so),
        "accuracy", "precision" (right ones of those called so), "recall" and "f1", the harmonic mean of the two. NaN
        where there is nothing to divide by: accuracy and recall of a class without images, precision of one that was
        never predicted, F1 of one with neither.

    Raises:
        ValueError: if the matrix has another shape.

    Example:
        >>> table = class_table(np.array([[3, 1], [0, 2]]))
        >>> table["recall"].tolist(), table["precision"].round(3).tolist()
        ([0.75, 1.0], [1.0, 0.667])
    """
    matrix = checked_matrix(matrix)
    right, count = np.diagonal(matrix), matrix.sum(axis=1)
    predicted = matrix[:, : len(matrix)].sum(axis=0)
    recall = _ratio(right, count)
    return {
        "count": count,
        "predicted": predicted,
        "accuracy": recall,
        "precision": _ratio(right, predicted),
        "recall": recall.copy(),
        "f1": _ratio(2 * right, count + predicted),
    }


def _ratio(part, whole):
    return np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0)
