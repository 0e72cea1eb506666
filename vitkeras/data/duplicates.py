"""Pairs of images, one of each of two sets, that are nearly the same picture.

The paper removed such pairs from its pre-training sets (section 4.1, "Datasets").

Legend: n and m images, V views, K = 64 bits, D features, p pairs.
"""

from dataclasses import dataclass

import numpy as np

from vitkeras.data.perceptual_hash import BITS, unpacked

MOST_PAIRS = 1_000_000
_ROWS = 4096  # a block of products takes 64 MiB


@dataclass(frozen=True)
class NearDuplicates:
    """Pairs of images, the most alike first.

    Attributes:
        first, second: int arrays (p,), places in the two sets.
        distance: int array (p,), bits in which the hashes differ, 0...64: the least of all views.
        mirrored: bool array (p,), whether that was with one of the two mirrored.
        cosine: float array (p,) of the features, -1...1; None where there are no features.
    """

    first: np.ndarray
    second: np.ndarray
    distance: np.ndarray
    mirrored: np.ndarray
    cosine: np.ndarray | None = None

    def __len__(self):
        return len(self.first)


def near_duplicates(hashes, other_hashes, max_distance=8, features=None, other_features=None, min_cosine=0.98):
    """Finds all pairs of an image of one set and one of another that are near by hash, or by features.

    Every pair is looked at: the whole pictures, and the whole of either against each crop of the other, as they are and
    mirrored. It is done by blocks of matrix products, so that memory does not grow with n x m.

    Args:
        hashes, other_hashes: uint64 arrays (n, V, 2) and (m, V, 2) from `perceptual_hashes`.
        max_distance: int in 0...31, how many of 64 bits may differ. Default 8.
        features, other_features: floating arrays (n, D) and (m, D), such as `vitkeras.evaluation.fewshot_features`
            gives, or None (default): the hash alone counts.
        min_cosine: float in (0, 1], pairs of at least this cosine are found too, whatever their hashes. Default 0.98.

    Returns:
        `NearDuplicates`, sorted by distance, then by cosine.

    Raises:
        ValueError: if an argument is out of its range, arrays don't fit each other, a feature isn't finite or an
            example's are all 0, or more than a million pairs are found.

    Example:
        >>> hashes, _ = perceptual_hashes(open_dataset("digits").test)
        >>> pairs = near_duplicates(hashes[:5], hashes[3:9], max_distance=0)
        >>> pairs.first, pairs.second, pairs.distance
        (array([3, 4]), array([0, 1]), array([0, 0]))
    """
    hashes, other_hashes = _checked_hashes(hashes, "hashes"), _checked_hashes(other_hashes, "other_hashes")
    if isinstance(max_distance, bool) or not isinstance(max_distance, int) or not 0 <= max_distance < BITS // 2:
        raise ValueError(f"max_distance must be an int in 0...{BITS // 2 - 1}, received {max_distance!r}.")
    if (features is None) != (other_features is None):
        raise ValueError("features and other_features must be given together, received one of them.")
    found = _Found(len(hashes), len(other_hashes))
    rule = f"max_distance {max_distance}"
    views = hashes.shape[1]
    mine, others = unpacked(hashes), unpacked(other_hashes)  # (n, V, 2, K)
    # The whole of mine against every view of the others, then my crops against the others' whole pictures.
    searches = [(mine[:, :1, 0], others.reshape(len(others), 2 * views, BITS))]
    if views > 1:
        searches.append((mine[:, 1:].reshape(len(mine), -1, BITS), others[:, :1, 0]))
    for a, b in searches:
        for i in range(a.shape[1]):
            for j in range(b.shape[1]):
                found.add(a[:, i], b[:, j], BITS - 2 * max_distance, rule)
    if features is not None:
        features = _unit(features, "features", len(hashes))
        other_features = _unit(other_features, "other_features", len(other_hashes))
        if features.shape[1] != other_features.shape[1]:
            raise ValueError(
                f"other_features must have {features.shape[1]} columns as features, received {other_features.shape[1]}."
            )
        if not 0 < min_cosine <= 1:
            raise ValueError(f"min_cosine must be above 0 and at most 1, received {min_cosine!r}.")
        found.add(features, other_features, min_cosine, f"min_cosine {min_cosine}")
    first, second = found.pairs()
    distance, mirrored = _distances(hashes, other_hashes, first, second)
    cosine = None
    if features is not None:
        blocks = [slice(start, start + _ROWS) for start in range(0, len(first), _ROWS)]
        products = [np.einsum("pd,pd->p", features[first[rows]], other_features[second[rows]]) for rows in blocks]
        cosine = np.concatenate([np.zeros(0, "float32"), *products])
    order = np.lexsort((second, first, np.zeros(len(first)) if cosine is None else -cosine, distance))
    return NearDuplicates(
        first[order], second[order], distance[order], mirrored[order], None if cosine is None else cosine[order]
    )


class _Found:
    """Pairs as one number each, n x m of them possible, every pair once."""

    def __init__(self, count, other_count):
        self.count, self.other_count = count, other_count
        self.keys = np.zeros(0, "int64")

    def add(self, a, b, least, rule):
        """Adds the pairs whose rows of `a` (n, D) and `b` (m, D) have a product of at least `least`."""
        new = []
        for i in range(0, self.count, _ROWS):
            for j in range(0, self.other_count, _ROWS):
                near = np.flatnonzero(a[i : i + _ROWS] @ b[j : j + _ROWS].T >= least)
                if near.size:
                    width = min(_ROWS, self.other_count - j)
                    new.append((near // width + i) * self.other_count + near % width + j)
                    if sum(map(len, new)) > MOST_PAIRS:
                        raise ValueError(f"{rule} must leave at most {MOST_PAIRS:,} pairs, received more; be stricter.")
        if new:
            self.keys = np.unique(np.concatenate([self.keys, *new]))
            if len(self.keys) > MOST_PAIRS:
                raise ValueError(f"{rule} must leave at most {MOST_PAIRS:,} pairs, received more; be stricter.")

    def pairs(self):
        return self.keys // self.other_count, self.keys % self.other_count


def _distances(hashes, other_hashes, first, second):
    """The least distance of each pair over all views: (int (p,), bool (p,) whether mirrored)."""
    distances, mirrored = [np.zeros(0, "int64")], [np.zeros(0, bool)]
    for start in range(0, len(first), _ROWS):
        a, b = (unpacked(x[chosen[start : start + _ROWS]]) for x, chosen in ((hashes, first), (other_hashes, second)))
        products = np.maximum(
            np.einsum("pk,pvwk->pwv", a[:, 0, 0], b).max(axis=-1),  # (p, 2)
            np.einsum("pvwk,pk->pwv", a, b[:, 0, 0]).max(axis=-1),
        )
        distances.append((BITS - products.max(axis=1).astype("int64")) // 2)
        mirrored.append(products[:, 1] > products[:, 0])
    return np.concatenate(distances), np.concatenate(mirrored)


def _checked_hashes(hashes, name):
    hashes = np.asarray(hashes)
    if hashes.dtype != np.uint64 or hashes.ndim != 3 or hashes.shape[2] != 2 or not hashes.size:
        raise ValueError(f"{name} must be uint64 of shape (images, views, 2), received {hashes.dtype} {hashes.shape}.")
    return hashes


def _unit(features, name, count):
    features = np.asarray(features, "float32")
    if features.ndim != 2 or len(features) != count:
        raise ValueError(f"{name} must be of shape ({count}, features), received {features.shape}.")
    lengths = np.linalg.norm(features, axis=1, keepdims=True)
    bad = count - int((np.isfinite(lengths) & (lengths > 0)).sum())
    if bad:
        raise ValueError(
            f"{name} must be finite and not all 0, received {bad} of {count} examples with nan, inf or nothing but 0."
        )
    return features / lengths
