"""Few-shot accuracy by regularised least squares (paper section 4.1).

Legend: n support examples, m test examples, D features, K classes.
"""

import numpy as np

BIAS = 100.0  # the constant feature
EPSILON = 1e-5  # added to the features' standard deviations
_ROWS = 8192  # test examples at a time


def fewshot_accuracy(train_x, train_y, test_x, test_y, l2_reg=1024.0, num_classes=None):
    """Accuracy of the linear map that least squares fits from frozen features to targets -1 and 1 (paper section 4.1).

    As the original's evaluator: features are standardised with the support set's mean and deviation (plus 1e-5), a
    constant feature of 100 is appended and regularised like the others, `W` solves `(X'X + l2 I) W = X'Y`, and the
    class of the largest output counts. Computed in float64, through the smaller of the two Gram matrices.

    Args:
        train_x: floating array (n, D), features of the support set, such as the class token after the last norm.
        train_y: int array (n,), labels 0...K - 1 of at least two classes.
        test_x: floating array (m, D).
        test_y: int array (m,), labels 0...K - 1.
        l2_reg: float > 0. Default 1024, 2 to the power of 10.
        num_classes: int or None (default), K; None for one more than the largest label.

    Returns:
        float in 0...1.

    Raises:
        ValueError: if shapes don't fit, a feature isn't finite, a label is out of range, or the support set has one
            class.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> labels = np.arange(60) % 3
        >>> features = rng.normal(size=(60, 5)) + 5 * np.eye(5)[labels]
        >>> fewshot_accuracy(features[:30], labels[:30], features[30:], labels[30:], l2_reg=1.0) > 0.9
        True
    """
    train_x, train_y = _checked(train_x, train_y, "train")
    test_x, test_y = _checked(test_x, test_y, "test")
    if train_x.shape[1] != test_x.shape[1]:
        raise ValueError(f"test_x must have train_x's {train_x.shape[1]} features, received {test_x.shape[1]}.")
    if not l2_reg > 0:
        raise ValueError(f"l2_reg must be > 0, received {l2_reg!r}.")
    classes = int(max(train_y.max(), test_y.max())) + 1 if num_classes is None else num_classes
    for name, labels in (("train_y", train_y), ("test_y", test_y)):
        if labels.min() < 0 or labels.max() >= classes:
            raise ValueError(f"{name} must hold labels in 0...{classes - 1}, received {labels.min()}...{labels.max()}.")
    if (train_y == train_y[0]).all():
        raise ValueError(f"train_y must hold at least two classes, received only class {train_y[0]}.")
    mean, deviation = train_x.mean(axis=0, dtype="float64"), train_x.std(axis=0, dtype="float64") + EPSILON
    weights = _least_squares(_standardised(train_x, mean, deviation), _targets(train_y, classes), l2_reg)
    right = 0
    for start in range(0, len(test_x), _ROWS):
        rows = slice(start, start + _ROWS)
        scores = _standardised(test_x[rows], mean, deviation) @ weights  # (m, K)
        right += int((scores.argmax(axis=1) == test_y[rows]).sum())
    return right / len(test_x)


def select_shots(labels, shots, seed=0, num_classes=None):
    """Picks the support set: so many examples of each class, the ones that the original picks with the same seed.

    Args:
        labels: int array (n,).
        shots: int >= 1, examples of each class.
        seed: int >= 0. Default 0. The examples of a smaller number of shots are among those of a larger one.
        num_classes: int or None (default), K; None for one more than the largest label.

    Returns:
        int array (shots * K,) of indices, class by class.

    Raises:
        ValueError: if an argument is out of its range, or a class has fewer examples than `shots`; the class is named.

    Example:
        >>> labels = np.array([1, 0, 1, 0, 1])
        >>> labels[select_shots(labels, shots=2)]
        array([0, 0, 1, 1])
    """
    labels = np.asarray(labels)
    if labels.ndim != 1 or not labels.size or labels.dtype.kind not in "iu":
        raise ValueError(f"labels must be ints of shape (n,), received {labels.dtype} of shape {labels.shape}.")
    if not isinstance(shots, int) or shots < 1:
        raise ValueError(f"shots must be an int >= 1, received {shots!r}.")
    rng, chosen = np.random.default_rng(seed), []
    for label in range(int(labels.max()) + 1 if num_classes is None else num_classes):
        own = np.flatnonzero(labels == label)
        if len(own) < shots:
            raise ValueError(f"shots must be at most the {len(own)} examples of class {label}, received {shots}.")
        # All of them, as the original does: the generator's state must not depend on `shots`.
        chosen.append(rng.permutation(own)[:shots])
    return np.concatenate(chosen)


def _least_squares(x, y, l2_reg):
    """(D + 1, K) weights from x (n, D + 1) and y (n, K)."""
    count, features = x.shape
    if count >= features:
        return np.linalg.solve(x.T @ x + l2_reg * np.eye(features), x.T @ y)
    return x.T @ np.linalg.solve(x @ x.T + l2_reg * np.eye(count), y)


def _standardised(x, mean, deviation):
    """(n, D) -> (n, D + 1) with the constant feature last."""
    x = (x.astype("float64") - mean) / deviation
    return np.concatenate([x, np.full((len(x), 1), BIAS)], axis=1)


def _targets(labels, classes):
    return 2.0 * (labels[:, None] == np.arange(classes)) - 1.0


def _checked(x, y, name):
    x, y = np.asarray(x), np.asarray(y)
    if x.ndim != 2 or not x.size or x.dtype.kind != "f":
        raise ValueError(f"{name}_x must be floating, of shape (examples, features), received {x.dtype} {x.shape}.")
    if y.shape != x.shape[:1] or y.dtype.kind not in "iu":
        raise ValueError(f"{name}_y must be ints of shape ({len(x)},), received {y.dtype} {y.shape}.")
    bad = len(x) - int(np.isfinite(x).all(axis=1).sum())
    if bad:
        raise ValueError(f"{name}_x must be finite, received {bad} of {len(x)} examples with nan or inf.")
    return x, y
