"""Whether a model is right as often as it says it is.

Legend: n images, M bins.
"""

import numpy as np


def reliability_bins(confidences, hits, bins=15, adaptive=False):
    """Sorts images by confidence into bins and compares confidence with accuracy in each.

    Args:
        confidences: real array (n,), 0...1, the probability of the predicted class.
        hits: bool array (n,), whether the prediction was right.
        bins: int >= 1, M. Default 15.
        adaptive: bool. False (default): bins of equal width, each without its lower and with its upper edge (zero is
            in the first), as in Guo et al. 2017. True: bins of equally many images as far as that goes, at most one for
            each image.

    Returns:
        dict of arrays (M,): "lower" and "upper" edges (adaptive: the smallest and largest confidence), "count" (int),
        "confidence" and "accuracy" (means, NaN in bins without images).

    Raises:
        ValueError: if shapes don't fit, there is no image, a confidence is outside 0...1, or `bins` is below 1.

    Example:
        >>> table = reliability_bins([0.2, 0.7, 0.9], [False, True, True], bins=2)
        >>> table["count"].tolist(), table["accuracy"].tolist()
        ([1, 2], [0.0, 1.0])
    """
    confidences, hits = _checked(confidences, hits)
    if not isinstance(bins, (int, np.integer)) or isinstance(bins, bool) or bins < 1:
        raise ValueError(f"bins must be an int >= 1, received {bins!r}.")
    if adaptive:
        order = np.argsort(confidences, kind="stable")
        parts = np.array_split(order, min(bins, len(order)))
        place = np.empty(len(order), "int64")
        place[order] = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        lower = np.array([confidences[part[0]] for part in parts])
        upper = np.array([confidences[part[-1]] for part in parts])
    else:
        edges = np.linspace(0.0, 1.0, bins + 1)
        place = np.searchsorted(edges[1:-1], confidences, side="left")
        lower, upper = edges[:-1], edges[1:]
    count = np.bincount(place, minlength=len(lower))
    sums = (np.bincount(place, values, minlength=len(lower)) for values in (confidences, hits.astype("float64")))
    empty = np.full(len(lower), np.nan)
    confidence, accuracy = (np.divide(total, count, out=empty.copy(), where=count > 0) for total in sums)
    return {"lower": lower, "upper": upper, "count": count, "confidence": confidence, "accuracy": accuracy}


def calibration_error(confidences, hits, bins=15, adaptive=False):
    """Expected calibration error: the mean over images of |accuracy - confidence| of the image's bin.

    Args:
        confidences, hits, bins, adaptive: as in `reliability_bins`.

    Returns:
        float in 0...1; 0 for a model that is right as often as it says.

    Raises:
        ValueError: as `reliability_bins`.

    Example:
        >>> round(calibration_error([0.8, 0.8, 0.8, 0.8], [True, True, True, False]), 6)
        0.05
    """
    table = reliability_bins(confidences, hits, bins, adaptive)
    filled = table["count"] > 0
    gaps = np.abs(table["accuracy"] - table["confidence"])[filled]
    return float((gaps * table["count"][filled]).sum() / table["count"].sum())


def _checked(confidences, hits):
    confidences, hits = np.asarray(confidences), np.asarray(hits)
    if confidences.ndim != 1 or not confidences.size or confidences.dtype.kind not in "fiu":
        raise ValueError(
            f"confidences must be numbers of shape (images,), received {confidences.dtype} {confidences.shape}."
        )
    if hits.shape != confidences.shape or hits.dtype.kind != "b":
        raise ValueError(f"hits must be bools of shape {confidences.shape}, received {hits.dtype} {hits.shape}.")
    if not (confidences >= 0).all() or not (confidences <= 1).all():
        raise ValueError(f"confidences must be in 0...1, received {confidences.min()}...{confidences.max()}.")
    return confidences.astype("float64"), hits
