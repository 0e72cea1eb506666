"""Attention rollout: how much of each input token reaches each output token (paper appendix D.8, Figures 6 and 14).

The method is that of Abnar and Zuidema (arXiv 2005.00928).
Legend: B batch, H heads, N tokens, h w patch grid.
"""

import numpy as np

from vitkeras.analysis.recording import record_attention


def roll_out(maps):
    """Multiplies the attention of all layers.

    Each layer's weights are averaged over the heads, the identity is added for the residual connection, and rows are
    normalised; the layers are then multiplied, the last one on the left.

    Args:
        maps: list of arrays (B, H, N, N) from the first layer to the last, such as `attention_maps` gives.

    Returns:
        float32 array (B, N, N); entry (b, q, k) is how much of input token k is in output token q. Rows sum to 1.

    Raises:
        ValueError: if there is no map, or they are not square and all of one shape.

    Example:
        >>> roll_out([np.full((1, 3, 2, 2), 0.5)]).tolist()
        [[[0.75, 0.25], [0.25, 0.75]]]
    """
    maps = [np.asarray(weights, "float32") for weights in maps]
    shapes = {(weights.shape[:1] + weights.shape[2:]) for weights in maps}
    if len(shapes) != 1 or any(weights.ndim != 4 or weights.shape[2] != weights.shape[3] for weights in maps):
        raise ValueError(
            "maps must be arrays (batch, heads, tokens, tokens) over the same tokens, received shapes "
            f"{[weights.shape for weights in maps]}."
        )
    result = np.eye(maps[0].shape[-1], dtype="float32")
    for weights in maps:
        mixed = weights.mean(axis=1) + np.eye(weights.shape[-1], dtype="float32")
        result = (mixed / mixed.sum(axis=-1, keepdims=True)) @ result
    return result


def attention_rollout(model, images):
    """Runs `model` on `images` and returns the attention of all layers together.

    Args:
        model: a `keras.Model` that holds a Vision Transformer, also nested or with another head; no axial one, whose
            layers each see other tokens.
        images: what the model takes, such as an array (B, height, width, channels) of -1...1.

    Returns:
        float32 array (B, N, N), as `roll_out` gives it.

    Raises:
        ValueError: if the model holds no attention layer, or its layers don't attend to all tokens.

    Example:
        >>> import vitkeras
        >>> model = vitkeras.VisionTransformer((32, 48, 3), 16, 2, 48, 3, 96, classes=7)
        >>> attention_rollout(model, np.zeros((5, 32, 48, 3))).shape
        (5, 7, 7)
    """
    return roll_out(_whole_attention(model, images).maps)


def rollout_heat_map(model, images):
    """Runs `model` on `images` and returns how much each patch has a part in what the classifier reads.

    Args:
        model, images: as in `attention_rollout`.

    Returns:
        float32 array (B, h, w): the class token's row of the rollout over the patches; of a model without class token
        the mean over all tokens, which is what its pooling reads.

    Raises:
        ValueError: as `attention_rollout`, or if the model holds no `PatchEmbedding`.

    Example:
        >>> import vitkeras
        >>> model = vitkeras.VisionTransformer((32, 48, 3), 16, 2, 48, 3, 96, classes=7)
        >>> rollout_heat_map(model, np.zeros((5, 32, 48, 3))).shape
        (5, 2, 3)
    """
    attention = _whole_attention(model, images)
    if attention.grid is None:
        raise ValueError(f"model must hold a PatchEmbedding, {model.name!r} holds none.")
    rollout = roll_out(attention.maps)
    read = rollout[:, 0] if attention.num_prefix_tokens else rollout.mean(axis=1)
    return read[:, attention.num_prefix_tokens :].reshape(-1, *attention.grid)


def _whole_attention(model, images):
    attention = record_attention(model, images)
    if len({weights.shape for weights in attention.maps}) != 1 or attention.maps[0].shape[0] != len(images):
        raise ValueError(
            f"model must attend to all tokens in every layer, {model.name!r} has maps of shapes "
            f"{sorted({weights.shape for weights in attention.maps})}: axial attention has no rollout."
        )
    return attention
