"""What a model attends to (paper section 4.5 and appendices D.7 and D.8).

Legend: B batch, H heads, N tokens.
"""

from vitkeras.analysis.recording import record_attention


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
        ValueError: if it is no Keras model, holds no attention layer, or an image holds nan or inf.

    Example:
        >>> import vitkeras
        >>> model = vitkeras.VisionTransformer((32, 48, 3), 16, 2, 48, 3, 96, classes=7)
        >>> maps = attention_maps(model, np.zeros((5, 32, 48, 3)))
        >>> len(maps), maps[0].shape
        (2, (5, 3, 7, 7))
    """
    return record_attention(model, images).maps
