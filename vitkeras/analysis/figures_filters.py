"""The first kernel's principal components as pictures (paper Figure 7, left).

Legend: P kernel side, C channels.
"""

import numpy as np

from vitkeras.analysis.embeddings import embedding_filters
from vitkeras.analysis.figures_canvas import new_figure

PER_ROW = 7


def filters_figure(model, count=None):
    """Draws the principal components of the patch embedding's filters, or of a hybrid's or ResNet's root.

    Each component has its own scale, with zero a middle grey. Kernels of 3 channels are shown in colour; of others the
    mean over the channels is shown in grey.

    Args:
        model: a `keras.Model` that holds a `PatchEmbedding` or a `StdConv`.
        count: int > 0, how many; None (default) for 28, the paper's, or as many as there are.

    Returns:
        `matplotlib.figure.Figure`; `figure.savefig(path)` writes it.

    Raises:
        ValueError: as `embedding_filters`.
        ImportError: if matplotlib is missing.

    Example:
        >>> import vitkeras
        >>> model = vitkeras.VisionTransformer((32, 48, 3), 16, 2, 48, 3, 96, classes=7)
        >>> filters_figure(model).savefig("filters.png")
    """
    figure = new_figure(4.4, 3.2)
    draw_filters(figure.subplots(), embedding_filters(model, count))
    return figure


def draw_filters(axes, filters):
    """Draws filters (count, P, P, C) on matplotlib axes, seven a row."""
    axes.imshow(montage(filters), interpolation="nearest")
    axes.set_axis_off()
    colour = "RGB" if filters.shape[-1] == 3 else "grey"
    axes.set_title(f"{colour} embedding filters\n(first {len(filters)} principal components)")


def montage(filters, gap=0.12):
    """The filters side by side, seven a row: float array (height, width, 4) of 0...1, clear between them."""
    count, high, wide, channels = filters.shape
    if channels != 3:
        filters = np.repeat(filters.mean(axis=-1, keepdims=True), 3, axis=-1)
    peaks = np.abs(filters).max(axis=(1, 2, 3), keepdims=True)
    shown = filters / np.where(peaks > 0, 2 * peaks, 1) + 0.5
    space = max(1, round(gap * min(high, wide)))
    columns = min(PER_ROW, count)
    rows = -(-count // columns)
    picture = np.zeros((rows * (high + space) - space, columns * (wide + space) - space, 4))
    for i, filter in enumerate(shown):
        top, left = (i // columns) * (high + space), (i % columns) * (wide + space)
        picture[top : top + high, left : left + wide, :3] = filter
        picture[top : top + high, left : left + wide, 3] = 1
    return picture
