"""Holding out images so that every class keeps its share."""

import numpy as np


def stratified_split(labels, test_fraction, seed=0):
    """Splits examples in two, each class in the same proportion, always the same way for one seed.

    The held-out part has `round(test_fraction * N)` examples, shared among the classes by largest remainder; then
    every class gets at least one example on each side, which may move the total where classes are tiny.

    Args:
        labels: int array (N,), classes 0...K-1, each at least twice.
        test_fraction: float in (0, 1).
        seed: int >= 0. Default 0.

    Returns:
        (training indices, held-out indices), int64 arrays in ascending order.

    Raises:
        ValueError: if a class has fewer than two examples.

    Example:
        >>> [part.size for part in stratified_split(np.array([0, 0, 0, 0, 1, 1]), 0.5)]
        [3, 3]
    """
    labels = np.asarray(labels)
    sizes = np.bincount(labels)
    if sizes.min() < 2:
        raise ValueError(f"class {int(sizes.argmin())} must have at least 2 examples, received {int(sizes.min())}.")
    total = round(test_fraction * labels.size)
    share = sizes * total / labels.size
    counts = np.floor(share).astype(int)
    order = np.argsort(counts - share, kind="stable")  # largest remainder first
    counts[order[: total - counts.sum()]] += 1
    counts = np.clip(counts, 1, sizes - 1)
    held_out = np.zeros(labels.size, bool)
    for label, count in enumerate(counts):
        examples = np.flatnonzero(labels == label)
        held_out[np.random.default_rng([seed, label]).permutation(examples)[:count]] = True
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)
