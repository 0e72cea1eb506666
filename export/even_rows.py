"""Attention's weighted sum of the values for int8: the same numbers, with rows of weights of like size.

In int8 all rows of weights share one scale, set by the largest weight of all: of a row that spreads over many tokens
few weights reach one level. Each row is divided by the root of its largest weight first, and the sum multiplied by it
after. Dividing by the weight itself would be too much: the sums of rows that spread would be the largest then, and set
the scale of all sums (docs/export.md has the decibels).
"""

from keras import ops

from vitkeras import layers
from vitkeras.layers.attention import attend


def even_mixes(model):
    """Lets the attention layers of a model from `export_model` mix by `attend_evenly`, and returns the model."""
    for layer in model._flatten_layers():
        if isinstance(layer, layers.MultiHeadSelfAttention):
            layer.mix = attend_evenly
    return model


def attend_evenly(weights, value):
    """Weighted sums of the values, as `vitkeras.layers.attention.attend` computes them.

    Args:
        weights: float32 tensor (B, H, N, M), rows of a softmax.
        value: float32 tensor (B, H, M, d).

    Returns:
        Tensor (B, H, N, d).
    """
    even, roots = even_rows(weights)
    return attend(even, value) * roots


def even_rows(weights):
    """Splits weights into rows of like size and factors.

    Args:
        weights: float tensor (..., M), rows of a softmax.

    Returns:
        (weights / r, r) with r (..., 1) the root of each row's largest weight.
    """
    largest = ops.max(weights, axis=-1, keepdims=True)
    inverse = ops.rsqrt(largest)
    return weights * inverse, largest * inverse
