"""Attention rollout: how much of each input token reaches each output token (paper appendix D.8, Figures 6 and 14).

The method is that of Abnar and Zuidema (arXiv 2005.00928).
Legend: B batch, H heads, N tokens, h w patch grid.
"""

import numpy as np

from vitkeras.analysis.recording import record_attention

# How a layer's heads become one map: the paper averages. On nets that keep notes in a few patches of no interest, the
# weakest head shows more, because hardly ever do all heads look at such a patch.
HEAD_FUSIONS = {"mean": np.mean, "max": np.max, "min": np.min}


def roll_out(maps, head_fusion="mean"):
    """Multiplies the attention of all layers.

    Each layer's weights are averaged over the heads, the identity is added for the residual connection, and rows are
    normalised; the layers are then multiplied, the last one on the left.

    Args:
        maps: list of arrays (B, H, N, N) from the first layer to the last, such as `attention_maps` gives.
        head_fusion: "mean" (default, the paper's definition), or the "max" or "min" of the heads instead.

    Returns:
        float32 array (B, N, N); entry (b, q, k) is how much of input token k is in output token q. Rows sum to 1.

    Raises:
        ValueError: if there is no map, they are not square and all of one shape, or `head_fusion` is another.

    Example:
        >>> roll_out([np.full((1, 3, 2, 2), 0.5)]).tolist()
        [[[0.75, 0.25], [0.25, 0.75]]]
    """
    *_, last = roll_out_steps(maps, head_fusion)
    return last


def roll_out_steps(maps, head_fusion="mean"):
    """Yields the rollout of the first layer, of the first two, and so on; arguments and arrays as in `roll_out`."""
    if head_fusion not in tuple(HEAD_FUSIONS):
        raise ValueError(f"head_fusion must be one of {tuple(HEAD_FUSIONS)}, received {head_fusion!r}.")
    maps = [np.asarray(weights, "float32") for weights in maps]
    shapes = {(weights.shape[:1] + weights.shape[2:]) for weights in maps}
    if len(shapes) != 1 or any(weights.ndim != 4 or weights.shape[2] != weights.shape[3] for weights in maps):
        raise ValueError(
            "maps must be arrays (batch, heads, tokens, tokens) over the same tokens, received shapes "
            f"{[weights.shape for weights in maps]}."
        )
    result = np.eye(maps[0].shape[-1], dtype="float32")
    for weights in maps:
        mixed = HEAD_FUSIONS[head_fusion](weights, axis=1) + np.eye(weights.shape[-1], dtype="float32")
        result = (mixed / mixed.sum(axis=-1, keepdims=True)) @ result
        yield result


def attention_rollout(model, images, head_fusion="mean"):
    """Runs `model` on `images` and returns the attention of all layers together.

    Args:
        model: a `keras.Model` that holds a Vision Transformer, also nested or with another head; no axial one, whose
            layers each see other tokens.
        images: what the model takes, such as an array (B, height, width, channels) of -1...1.
        head_fusion: as in `roll_out`. Default "mean".

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
    return roll_out(whole_attention(model, images).maps, head_fusion)


def rollout_heat_map(model, images, head_fusion="mean"):
    """Runs `model` on `images` and returns how much each patch has a part in what the classifier reads.

    Args:
        model, images, head_fusion: as in `attention_rollout`.

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
    attention = grid_attention(model, images)
    return read_patches(roll_out(attention.maps, head_fusion), attention)


def read_patches(weights, attention):
    """How much of each patch the classifier reads.

    Args:
        weights: array (B, N, N), a rollout, or one layer's attention averaged over its heads.
        attention: the `Attention` that it was made of.

    Returns:
        Array (B, h, w): the class token's row, or the mean over all tokens without class token.
    """
    read = weights[:, 0] if attention.num_prefix_tokens else weights.mean(axis=1)
    return read[:, attention.num_prefix_tokens :].reshape(-1, *attention.grid)


def grid_attention(model, images):
    """The `Attention` of a model whose layers all attend to all tokens of a patch grid; ValueError for another."""
    attention = whole_attention(model, images)
    if attention.grid is None:
        raise ValueError(f"model must hold a PatchEmbedding, {model.name!r} holds none.")
    return attention


def whole_attention(model, images):
    """The `Attention` of a model whose layers all attend to all tokens; ValueError for another."""
    attention = record_attention(model, images)
    if len({weights.shape for weights in attention.maps}) != 1 or attention.maps[0].shape[0] != len(images):
        raise ValueError(
            f"model must attend to all tokens in every layer, {model.name!r} has maps of shapes "
            f"{sorted({weights.shape for weights in attention.maps})}: axial attention has no rollout."
        )
    return attention
