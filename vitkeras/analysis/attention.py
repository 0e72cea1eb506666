"""What a model attends to (paper section 4.5 and appendix D.7).

Legend: B batch, H heads, N tokens.
"""

import keras
import numpy as np

from vitkeras.layers import MultiHeadSelfAttention


def attention_maps(model, images):
    """Runs `model` on `images` and returns the attention weights of every attention layer that ran.

    The weights are taken while the model runs, so that it may be any Keras model that holds a Vision Transformer: with
    a new head, nested in another model, wrapped in one of your own, or an axial one.

    Args:
        model: a `keras.Model` with at least one `MultiHeadSelfAttention` somewhere inside.
        images: what the model takes, such as an array (B, height, width, channels) of -1...1.

    Returns:
        List of float32 arrays (B, H, N, N), one a layer in the order in which they ran; entry (b, h, q, k) is how
        much query q takes from key k, and rows sum to 1. With a class token, its row `[:, :, 0]` is first. Axial models
        give (B * lines, H, N, N), N the positions of a line.

    Raises:
        ValueError: if it is no Keras model or holds no attention layer.

    Example:
        >>> import vitkeras
        >>> model = vitkeras.VisionTransformer((32, 48, 3), 16, 2, 48, 3, 96, classes=7)
        >>> maps = attention_maps(model, np.zeros((5, 32, 48, 3)))
        >>> len(maps), maps[0].shape
        (2, (5, 3, 7, 7))
    """
    if not isinstance(model, keras.Model):
        raise ValueError(f"model must be a keras.Model, received {model!r}.")
    attentions = [layer for layer in model._flatten_layers() if isinstance(layer, MultiHeadSelfAttention)]
    if not attentions:
        raise ValueError(f"model must hold a MultiHeadSelfAttention layer, {model.name!r} holds none.")
    maps = []

    def recorded(weights_of):
        def attention_weights(x):
            weights = weights_of(x)
            maps.append(weights)
            return weights

        return attention_weights

    try:
        for layer in attentions:
            layer.attention_weights = recorded(layer.attention_weights)
        model(images, training=False)  # called, not predicted: nothing is traced, so each value is there
    finally:
        for layer in attentions:
            vars(layer).pop("attention_weights", None)  # the method of the class shows again
    return [np.asarray(keras.ops.convert_to_numpy(weights)) for weights in maps]
