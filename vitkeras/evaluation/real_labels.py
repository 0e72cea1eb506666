"""ImageNet-ReaL: several right answers an image, or none (Beyer et al. 2020)."""

import numpy as np


def real_accuracy(predictions, real_labels):
    """Share of images whose prediction is one of their reassessed labels; images without any don't count.

    Args:
        predictions: int array (n,), the classes with the highest score.
        real_labels: sequence of n collections of int.

    Returns:
        (float in 0...1, int number of images that counted).

    Raises:
        ValueError: if the lengths differ, or no image has a label.

    Example:
        >>> real_accuracy([3, 5, 7], [[3, 4], [], [6]])
        (0.5, 2)
    """
    predictions = np.asarray(predictions)
    if predictions.ndim != 1 or predictions.dtype.kind not in "iu":
        raise ValueError(f"predictions must be ints of shape (n,), received {predictions.dtype} {predictions.shape}.")
    if len(real_labels) != len(predictions):
        raise ValueError(
            f"real_labels must have an entry for each of {len(predictions)} predictions, received {len(real_labels)}."
        )
    hits = [prediction in labels for prediction, labels in zip(predictions.tolist(), real_labels) if len(labels)]
    if not hits:
        raise ValueError(f"real_labels must have a label for at least one of {len(predictions)} images, received none.")
    return sum(hits) / len(hits), len(hits)
