"""How far a model looks: attention distance (paper section 4.5, Figure 7 right, and appendix D.7).

Legend: B batch, L layers, H heads, N tokens, P prefix tokens, h w patch grid.
"""

import numpy as np

from vitkeras.analysis.recording import record_attention


def patch_distances(grid, patch_size):
    """Returns the distances between the centres of all patches, in pixels.

    Args:
        grid: (h, w).
        patch_size: (height, width) of a patch in pixels.

    Returns:
        float64 array (h * w, h * w).

    Example:
        >>> patch_distances((1, 2), (16, 16)).tolist()
        [[0.0, 16.0], [16.0, 0.0]]
    """
    rows, columns = np.meshgrid(*(np.arange(n) * side for n, side in zip(grid, patch_size)), indexing="ij")
    points = np.stack([rows.ravel(), columns.ravel()], axis=1).astype("float64")
    return np.sqrt(((points[:, None] - points[None]) ** 2).sum(axis=-1))


def mean_distances(weights, distances, num_prefix_tokens=0):
    """Averages the distances by the attention weights, over queries and images.

    Prefix tokens have no place in the image: they are left out, and each row's remaining weights are scaled to sum
    to 1.

    Args:
        weights: array (B, H, P + N, P + N).
        distances: array (N, N).
        num_prefix_tokens: int, P.

    Returns:
        float64 array (H,).
    """
    weights = np.asarray(weights, "float64")[:, :, num_prefix_tokens:, num_prefix_tokens:]
    sums = weights.sum(axis=-1)
    by_query = (weights * distances).sum(axis=-1) / np.where(sums > 0, sums, 1)  # (B, H, N)
    return by_query.mean(axis=(0, 2))


def attention_distance(model, images, batch_size=8):
    """Runs `model` on `images` and returns how far each head looks, in pixels.

    Appendix D.7: the distance between the query's patch and the others, weighted by the attention, averaged over
    queries and images; the receptive field size of a convolution is its analogue. The paper averages 128 images.

    Args:
        model: a `keras.Model` that holds a Vision Transformer; no axial one.
        images: array (B, height, width, channels), as the model takes them.
        batch_size: int > 0, images that run together. Default 8.

    Returns:
        float64 array (L, H).

    Raises:
        ValueError: if the model holds no attention over a patch grid, or `images` is no array of images.

    Example:
        >>> import vitkeras
        >>> model = vitkeras.VisionTransformer((32, 48, 3), 16, 2, 48, 3, 96, classes=7)
        >>> attention_distance(model, np.zeros((5, 32, 48, 3))).shape
        (2, 3)
    """
    images = np.asarray(images)
    if images.ndim != 4 or not len(images):
        raise ValueError(f"images must be an array (images, height, width, channels), received shape {images.shape}.")
    if not isinstance(batch_size, int) or batch_size < 1:
        raise ValueError(f"batch_size must be a positive int, received {batch_size!r}.")
    total = 0
    for start in range(0, len(images), batch_size):
        batch = images[start : start + batch_size]
        total = total + len(batch) * layer_distances(record_attention(model, batch), images.shape[1:3], model.name)
    return total / len(images)


def layer_distances(attention, image_size, name):
    """Returns the mean distances of an `Attention`.

    Args:
        attention: `Attention` of one batch.
        image_size: (height, width) of the images in pixels.
        name: str, the model's, for the error.

    Returns:
        float64 array (L, H).

    Raises:
        ValueError: if the layers don't attend to a whole patch grid.
    """
    grid, prefix = attention.grid, attention.num_prefix_tokens
    tokens = {weights.shape[-1] for weights in attention.maps}
    if grid is None or tokens != {prefix + grid[0] * grid[1]}:
        raise ValueError(
            f"model must attend to a whole patch grid, {name!r} has the grid {grid} and attends to "
            f"{sorted(tokens)} tokens."
        )
    distances = patch_distances(grid, [side / n for side, n in zip(image_size, grid)])
    return np.stack([mean_distances(weights, distances, prefix) for weights in attention.maps])
