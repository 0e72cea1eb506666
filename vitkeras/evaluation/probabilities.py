"""From a head's output to probabilities.

Legend: n images, K classes.
"""

import numpy as np

from vitkeras.evaluation.arguments import checked_scores

HEADS = ("logits", "softmax", "sigmoid", "sigmoid_logits")
_SLACK = 1e-3  # float16 and quantized files leave 0...1 by rounding


def head_probabilities(scores, head):
    """Probabilities of the classes in float64.

    Args:
        scores: real array (n, K), finite, what the model gives.
        head: what they are: "logits" (a linear head, trained with softmax), "softmax" or "sigmoid" (already
            probabilities, which add up to one or are each for itself), or "sigmoid_logits" (a linear head that was
            trained with sigmoids, as the paper's pre-training does).

    Returns:
        float64 array (n, K) in 0...1. Rows add up to one for the first two, to rounding errors of the head.

    Raises:
        ValueError: if `head` is unknown, scores are not finite, or those of a head that gives probabilities are not in
            0...1.

    Example:
        >>> head_probabilities([[0.0, 0.0]], "logits")
        array([[0.5, 0.5]])
    """
    if head not in HEADS:
        raise ValueError(f"head must be one of {', '.join(HEADS)}, received {head!r}.")
    scores = checked_scores(scores).astype("float64")
    if head == "logits":
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        return scores / scores.sum(axis=1, keepdims=True)
    if head == "sigmoid_logits":
        # exp of a negative number only, which cannot overflow
        small = np.exp(-np.abs(scores))
        return np.where(scores >= 0, 1.0, small) / (1.0 + small)
    if scores.min() < -_SLACK or scores.max() > 1 + _SLACK:
        raise ValueError(
            f"scores of a {head} head must be in 0...1, received {scores.min():g}...{scores.max():g}: they are logits."
        )
    return scores.clip(0.0, 1.0)
