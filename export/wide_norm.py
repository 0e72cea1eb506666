"""LayerNorm for integers: the same numbers by another way, whose steps keep tokens of very different sizes apart.

The variance is a mean of squares. In int16 all squares of a layer share one scale, so that of a token whose values are
a hundredth of another's, 3 levels are left, and its answer is noise: the class token of a new net is such a token.
"""

import functools

from keras import ops

from vitkeras import layers


def widen_norms(model):
    """Lets the LayerNorms of a model from `export_model` compute by `standardise`, and returns the model."""
    for layer in model._flatten_layers():
        if isinstance(layer, layers.LayerNorm):
            layer.standardise = functools.partial(standardise, epsilon=layer.epsilon)
    return model


def standardise(x, epsilon):
    """`(x - mean) / sqrt(var + epsilon)`, each token brought to one size before it is squared.

    With c = x - mean, which sums to 0, the mean of |c| is twice that of relu(c). By a size s that is at least half of
    it, c / sqrt(var + epsilon) = (c / s) / sqrt(var / s^2 + epsilon / s^2). The division is two products with
    1 / sqrt(s), since integer kernels know RSQRT, and no ABS.

    Args:
        x: float tensor (..., D).
        epsilon: float >= 0.

    Returns:
        Tensor of the same shape.
    """
    root = epsilon**0.5
    centred = x - ops.mean(x, axis=-1, keepdims=True)
    size = ops.mean(ops.relu(centred), axis=-1, keepdims=True) + root  # (..., 1); not 0 for a constant token
    by_root = ops.rsqrt(size)
    small = centred * by_root * by_root
    variance = ops.mean(small * small, axis=-1, keepdims=True)
    added = by_root * by_root * root
    return small * ops.rsqrt(variance + added * added)
