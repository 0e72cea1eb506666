"""Where the right class comes among a model's scores.

Legend: n images, K classes.
"""

import numpy as np

from vitkeras.evaluation.arguments import checked_labels, checked_scores


def label_ranks(scores, labels):
    """How many classes come before each image's label.

    Of equal scores the lower class comes first, as for `argmax`; so a model that gives all classes the same score is
    not right everywhere.

    Args:
        scores: real array (n, K), finite: logits or probabilities.
        labels: int array (n,), 0...K - 1.

    Returns:
        int array (n,): 0 where the label has the highest score, K - 1 where it has the lowest.

    Raises:
        ValueError: if shapes don't fit, a score is not finite or a label is out of range.

    Example:
        >>> label_ranks([[0.1, 0.7, 0.2], [0.4, 0.4, 0.2]], [2, 1])
        array([1, 1])
    """
    scores = checked_scores(scores)
    labels = checked_labels(labels, *scores.shape)
    own = np.take_along_axis(scores, labels[:, None], axis=1)
    before = np.arange(scores.shape[1]) < labels[:, None]
    return ((scores > own) | ((scores == own) & before)).sum(axis=1)


def topk_accuracy(scores, labels, k=1):
    """Share of images whose label is among the k highest scores; ties as in `label_ranks`.

    Args:
        scores, labels: as in `label_ranks`.
        k: int in 1...K. Default 1.

    Returns:
        float in 0...1.

    Raises:
        ValueError: as `label_ranks`, or if `k` is out of range.

    Example:
        >>> topk_accuracy([[0.1, 0.7, 0.2], [0.5, 0.3, 0.2]], [2, 0], k=2)
        1.0
    """
    ranks, classes = label_ranks(scores, labels), np.shape(scores)[1]
    if not isinstance(k, (int, np.integer)) or isinstance(k, bool) or not 1 <= k <= classes:
        raise ValueError(f"k must be an int in 1...{classes}, received {k!r}.")
    return float((ranks < k).mean())
