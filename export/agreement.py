"""How often outputs agree: with other outputs, and with labels.

Legend: N images, K classes.
"""

import numpy as np


def top5_agreement(reference, received):
    """Share of the reference's five highest outputs that are among the other's five; None with fewer than six.

    Args:
        reference, received: arrays (N, K).
    """
    if reference.shape[1] <= 5:
        return None
    best = [np.argsort(-outputs, axis=1, kind="stable")[:, :5] for outputs in (reference, received)]
    return float(np.mean([np.isin(row, other).mean() for row, other in zip(*best)]))


def accuracy(outputs, labels):
    """Share of images whose highest output is their label.

    Args:
        outputs: array (N, K).
        labels: from `check_image_labels`.
    """
    return float((outputs.argmax(axis=1) == labels).mean())


def check_image_labels(labels, images, classes, name="labels"):
    """int array (N,) of classes, one an image; raises ValueError for others."""
    labels = np.asarray(labels)
    if labels.shape != (images,) or labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() >= classes:
        raise ValueError(
            f"{name} must be {images} ints in 0...{classes - 1}, received shape {labels.shape}"
            + (f" with {labels.min()}...{labels.max()}." if labels.size else ".")
        )
    return labels
