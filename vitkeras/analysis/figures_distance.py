"""Attention distance against depth (paper Figure 7, right, and Figure 11).

Legend: L layers, H heads.
"""

import numpy as np

from vitkeras.analysis.distance import attention_distance
from vitkeras.analysis.figures_canvas import QUIET, new_figure


def distance_figure(model, images, batch_size=8):
    """Draws how far each head looks, in pixels, against the depth of its layer: a point a head, a line for their mean.

    Args:
        model: a `keras.Model` that holds a Vision Transformer or hybrid; no axial one.
        images: array (B, height, width, channels), as the model takes them. The paper averages 128.
        batch_size: int > 0, images that run together. Default 8.

    Returns:
        `matplotlib.figure.Figure`; `figure.savefig(path)` writes it.

    Raises:
        ValueError: as `attention_distance`.
        ImportError: if matplotlib is missing.

    Example:
        >>> import vitkeras
        >>> model = vitkeras.VisionTransformer((32, 48, 3), 16, 2, 48, 3, 96, classes=7)
        >>> distance_figure(model, np.zeros((5, 32, 48, 3))).savefig("distances.png")
    """
    figure = new_figure(4.4, 3.4)
    draw_distances(figure.subplots(), attention_distance(model, images, batch_size))
    return figure


def draw_distances(axes, distances):
    """Draws distances (L, H) on matplotlib axes."""
    layers, heads = distances.shape
    depth = np.arange(1, layers + 1)
    for head in range(heads):
        axes.plot(
            depth, distances[:, head], "o", color="C0", alpha=0.65, markersize=5, label=None if head else "a head"
        )
    axes.plot(depth, distances.mean(axis=1), color="C1", linewidth=2, label="mean of the heads")
    step = -(-layers // 12)
    axes.set_xticks(depth[::step])
    axes.set_xlim(0.5, layers + 0.5)
    axes.set_ylim(0, 1.12 * max(float(distances.max()), 1.0))
    axes.set(xlabel="network depth (layer)", ylabel="mean attention distance (pixels)", title="attention distance")
    axes.grid(color=QUIET, alpha=0.25)
    axes.legend(frameon=False, loc="lower right")
