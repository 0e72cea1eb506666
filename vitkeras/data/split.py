"""Holding out images so that every class keeps its share."""

import numpy as np


def held_out_count(count, fraction):
    """How many of `count` >= 2 examples are held out: int, at least one on each side.

    Example:
        >>> held_out_count(17, 0.3), held_out_count(3, 0.01)
        (5, 1)
    """
    return min(max(round(fraction * count), 1), count - 1)


def stratified_split(labels, test_fraction, seed=0, keep_single=False):
    """Splits examples in two, each class in the same proportion, always the same way for one seed.

    The held-out part has `round(test_fraction * N)` examples, shared among the classes by largest remainder; then
    every class gets at least one example on each side, which may move the total where classes are tiny.

    Args:
        labels: int array (N,), classes 0...K-1, each at least twice unless `keep_single`.
        test_fraction: float in (0, 1).
        seed: int >= 0. Default 0.
        keep_single: bool. True for a held-out part of training images: it needs no example of every class, so that
            small shares stay small, and a class with one example stays in training. Default False.

    Returns:
        (training indices, held-out indices), int64 arrays in ascending order.

    Raises:
        ValueError: if a class has fewer than two examples; with `keep_single`, if all have.

    Example:
        >>> [part.size for part in stratified_split(np.array([0, 0, 0, 0, 1, 1]), 0.5)]
        [3, 3]
    """
    labels = np.asarray(labels)
    sizes = np.bincount(labels)
    if keep_single:
        if sizes.max() < 2:
            raise ValueError(
                f"a class must have at least 2 examples to hold one out, received {labels.size} classes of 1."
            )
    elif sizes.min() < 2:
        raise ValueError(f"class {int(sizes.argmin())} must have at least 2 examples, received {int(sizes.min())}.")
    total = held_out_count(labels.size, test_fraction) if keep_single else round(test_fraction * labels.size)
    spare = np.maximum(sizes - 1, 0)  # a class keeps one
    share = sizes * total / labels.size
    counts = np.minimum(np.floor(share).astype(int), spare)
    order = np.argsort(counts - share, kind="stable")  # largest remainder first
    if keep_single:
        order = order[counts[order] < spare[order]]
    counts[order[: total - counts.sum()]] += 1
    if not keep_single:
        counts = np.clip(counts, 1, spare)
    held_out = np.zeros(labels.size, bool)
    for label in np.flatnonzero(counts):
        examples = np.flatnonzero(labels == label)
        held_out[np.random.default_rng([seed, label]).permutation(examples)[: counts[label]]] = True
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)
