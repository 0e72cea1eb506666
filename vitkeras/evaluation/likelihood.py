"""How good the probabilities are: log-likelihood and Brier score.

Legend: n images, K classes.
"""

import numpy as np

from vitkeras.evaluation.arguments import checked_labels, checked_probabilities

SMALLEST = float(np.finfo("float32").tiny)  # what a float32 softmax can still give; smaller ones count as this


def negative_log_likelihood(probabilities, labels, independent=False):
    """Minus the logarithm (base e) of the probability that the model gave to what was right, a mean over the images.

    For probabilities that add up to one: the cross-entropy, `-log p[label]`. For `independent` ones, of sigmoids: the
    sum over the classes of the binary cross-entropy, which is the loss that such heads are trained with. Probabilities
    below 1.2e-38 count as 1.2e-38, so that one softmax that rounded to zero does not make the mean infinite.

    Args:
        probabilities: real array (n, K), 0...1.
        labels: int array (n,), 0...K - 1.
        independent: bool. Default False.

    Returns:
        float >= 0.

    Raises:
        ValueError: if shapes don't fit or values are out of range.

    Example:
        >>> round(negative_log_likelihood([[0.5, 0.5], [0.25, 0.75]], [0, 1]), 4)
        0.4904
    """
    return float(log_losses(probabilities, labels, independent).mean())


def brier_score(probabilities, labels):
    """Squared distance of the probabilities from the right answer, summed over the classes, a mean over the images.

    As Brier (1950) defined it: 0 is perfect, 2 the worst for probabilities that add up to one. For sigmoids the same
    sum.

    Args:
        probabilities, labels: as in `negative_log_likelihood`.

    Returns:
        float >= 0.

    Raises:
        ValueError: if shapes don't fit or values are out of range.

    Example:
        >>> brier_score([[0.5, 0.5], [0.0, 1.0]], [0, 1])
        0.25
    """
    return float(squared_losses(probabilities, labels).mean())


def log_losses(probabilities, labels, independent=False):
    """What `negative_log_likelihood` is the mean of, float64 (n,)."""
    probabilities = checked_probabilities(probabilities)
    labels = checked_labels(labels, *probabilities.shape)
    own = np.take_along_axis(probabilities, labels[:, None], axis=1)[:, 0]
    losses = -np.log(np.maximum(own, SMALLEST))
    if independent:
        others = -np.log(np.maximum(1.0 - probabilities, SMALLEST))
        np.put_along_axis(others, labels[:, None], 0.0, axis=1)
        losses = losses + others.sum(axis=1)
    return losses


def squared_losses(probabilities, labels):
    """What `brier_score` is the mean of, float64 (n,)."""
    probabilities = checked_probabilities(probabilities)
    labels = checked_labels(labels, *probabilities.shape)
    return np.square(probabilities - (np.arange(probabilities.shape[1]) == labels[:, None])).sum(axis=1)
