"""Similarity of position embeddings as a picture (paper Figure 7, centre, and Figure 10).

Legend: h w patch grid, L positions of a relative embedding.
"""

import numpy as np

from vitkeras.analysis.embeddings import position_similarity
from vitkeras.analysis.figures_canvas import new_figure

TICKS = 8  # about so many on an axis


def position_figure(model, layer=0):
    """Draws how alike the position embeddings are.

    One- and two-dimensional ones: a tile for each patch, in its place, shows the cosine similarity of its embedding to
    those of all patches. Relative ones: a matrix of all pairs of offsets.

    Args:
        model: a `keras.Model` that holds a learned position embedding of any kind.
        layer: int, which one, where there are several. Default 0, the first.

    Returns:
        `matplotlib.figure.Figure`; `figure.savefig(path)` writes it.

    Raises:
        ValueError: if the model has no position embedding (there is nothing to show), or not so many.
        ImportError: if matplotlib is missing.

    Example:
        >>> import vitkeras
        >>> model = vitkeras.VisionTransformer((32, 48, 3), 16, 2, 48, 3, 96, classes=7)
        >>> position_figure(model).savefig("positions.png")
    """
    figure = new_figure(4.6, 3.8)
    draw_positions(figure.subplots(), position_similarity(model, layer))
    return figure


def draw_positions(axes, similarity, title="position embedding similarity"):
    """Draws what `position_similarity` returns on matplotlib axes, with a colour bar."""
    if similarity.ndim == 4:
        height, width = similarity.shape[:2]
        image = axes.imshow(tiles(similarity), vmin=-1, vmax=1, interpolation="nearest")
        for axis, count in ((axes.xaxis, width), (axes.yaxis, height)):
            shown = range(0, count, -(-count // TICKS))
            # A tile is `count` cells and one clear one.
            axis.set_ticks([i * (count + 1) + (count - 1) / 2 for i in shown], [str(i + 1) for i in shown])
            axis.set_tick_params(length=0)
        for spine in axes.spines.values():
            spine.set_visible(False)
        axes.set(xlabel="patch column", ylabel="patch row")
    else:
        most = similarity.shape[0] // 2
        edges = (-most - 0.5, most + 0.5, most + 0.5, -most - 0.5)
        image = axes.imshow(similarity, vmin=-1, vmax=1, interpolation="nearest", extent=edges)
        axes.set(xlabel="offset, key - query", ylabel="offset, key - query")
    axes.set_title(title)
    rows, columns = image.get_array().shape
    # As high as the picture, which is lower than its panel where it is wide.
    axes.figure.colorbar(image, ax=axes, label="cosine similarity", fraction=0.05, shrink=min(1, 1.2 * rows / columns))


def tiles(similarity):
    """(h, w, h, w) as one picture of h x w tiles, with a line of NaN between them."""
    height, width = similarity.shape[:2]
    picture = np.full((height * (height + 1), width * (width + 1)), np.nan, "float32")
    cells = picture.reshape(height, height + 1, width, width + 1)
    cells[:, :height, :, :width] = similarity.transpose(0, 2, 1, 3)
    return picture[:-1, :-1]
