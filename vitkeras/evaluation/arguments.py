"""Checks that the scores, probabilities and labels of an evaluation share.

Legend: n images, K classes.
"""

import numpy as np


def checked_scores(scores, name="scores"):
    """Floating finite array (n, K), n and K at least 1, or a ValueError; `name` is the argument's."""
    scores = np.asarray(scores)
    if scores.ndim != 2 or not scores.size or scores.dtype.kind not in "fiu":
        raise ValueError(f"{name} must be numbers of shape (images, classes), received {scores.dtype} {scores.shape}.")
    bad = len(scores) - int(np.isfinite(scores).all(axis=1).sum())
    if bad:
        raise ValueError(f"{name} must be finite, received {bad} of {len(scores)} images with nan or inf.")
    return scores


def checked_labels(labels, count, classes, name="labels"):
    """int64 array (count,) within 0...classes - 1, or a ValueError."""
    labels = np.asarray(labels)
    if labels.shape != (count,) or labels.dtype.kind not in "iu":
        raise ValueError(f"{name} must be ints of shape ({count},), received {labels.dtype} {labels.shape}.")
    if labels.size and (labels.min() < 0 or labels.max() >= classes):
        raise ValueError(f"{name} must be in 0...{classes - 1}, received {labels.min()}...{labels.max()}.")
    return labels.astype("int64")


def checked_probabilities(probabilities):
    """float64 array (n, K) of values in 0...1, or a ValueError."""
    probabilities = checked_scores(probabilities, "probabilities").astype("float64")
    if probabilities.min() < 0 or probabilities.max() > 1:
        raise ValueError(
            f"probabilities must be in 0...1, received {probabilities.min():g}...{probabilities.max():g}; "
            "head_probabilities makes them of logits."
        )
    return probabilities
