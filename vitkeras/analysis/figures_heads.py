"""The attention of every layer and head for one picture, as one grid.

Legend: L layers, H heads, N tokens, h w patch grid.
"""

import numpy as np

from vitkeras.analysis.figures_canvas import COLOURS, check_images, new_figure
from vitkeras.analysis.rollout import grid_attention

SIDE = 1.0  # inches of a map


def attention_figure(model, image, query=None):
    """Draws where each head of each layer looks in one picture.

    One row a layer from the first at the top, one column a head. Each map has its own colours, from its least to its
    largest weight.

    Args:
        model: a `keras.Model` that holds a Vision Transformer or hybrid, also nested; no axial one.
        image: array (height, width, channels) of -1...1, or a batch of one.
        query: None (default): what the class token looks at, or the mean over all tokens without class token; or
            (row, column), a patch, from 0.

    Returns:
        `matplotlib.figure.Figure`; `figure.savefig(path)` writes it.

    Raises:
        ValueError: if the model has no attention over a patch grid, `image` is no single image, or `query` no patch.
        ImportError: if matplotlib is missing.

    Example:
        >>> import vitkeras
        >>> model = vitkeras.VisionTransformer((32, 48, 3), 16, 2, 48, 3, 96, classes=7)
        >>> attention_figure(model, np.zeros((32, 48, 3))).savefig("attention.png")
    """
    image = np.asarray(image)
    images = check_images(image[None] if image.ndim == 3 else image)
    if len(images) != 1:
        raise ValueError(f"image must be a single image, received {len(images)}.")
    maps = head_maps(grid_attention(model, images), query)
    layers, heads, height, width = maps.shape
    figure = new_figure(heads * SIDE + 0.8, layers * SIDE * min(max(height / width, 0.4), 2.5) + 0.6)
    axes = figure.subplots()
    axes.imshow(side_by_side(maps), cmap=COLOURS, vmin=0, vmax=1, interpolation="nearest")
    # A tile is `width` cells and one clear one.
    axes.set_xticks([j * (width + 1) + (width - 1) / 2 for j in range(heads)], range(1, heads + 1))
    axes.set_yticks([i * (height + 1) + (height - 1) / 2 for i in range(layers)], range(1, layers + 1))
    axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    axes.xaxis.set_label_position("top")
    axes.set(xlabel="head", ylabel="layer")
    for spine in axes.spines.values():
        spine.set_visible(False)
    return figure


def side_by_side(maps):
    """Maps (L, H, h, w), each scaled to 0...1, as one picture with lines of NaN between them."""
    layers, heads, height, width = maps.shape
    low, high = maps.min(axis=(2, 3), keepdims=True), maps.max(axis=(2, 3), keepdims=True)
    picture = np.full((layers * (height + 1), heads * (width + 1)), np.nan, "float32")
    cells = picture.reshape(layers, height + 1, heads, width + 1)
    cells[:, :height, :, :width] = ((maps - low) / np.where(high > low, high - low, 1)).transpose(0, 2, 1, 3)
    return picture[:-1, :-1]


def head_maps(attention, query=None):
    """What one query looks at in the first image, by layer and head.

    Args:
        attention: `Attention` over a patch grid.
        query: as in `attention_figure`.

    Returns:
        float32 array (L, H, h, w).

    Raises:
        ValueError: if `query` is no patch of the grid.
    """
    grid, prefix = attention.grid, attention.num_prefix_tokens
    maps = np.stack([weights[0] for weights in attention.maps])  # (L, H, N, N)
    if query is None:
        read = maps[:, :, 0] if prefix else maps.mean(axis=2)
    else:
        is_pair = isinstance(query, (tuple, list)) and len(query) == 2
        if not is_pair or not all(isinstance(i, (int, np.integer)) and 0 <= i < n for i, n in zip(query, grid)):
            raise ValueError(f"query must be None or (row, column) in a grid of {grid}, from 0, received {query!r}.")
        read = maps[:, :, prefix + query[0] * grid[1] + query[1]]
    return read[..., prefix:].reshape(*read.shape[:2], *grid)
