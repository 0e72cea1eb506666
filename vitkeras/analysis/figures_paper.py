"""Figures of the paper for any model: Figure 7's three panels, and Figure 10's comparison of position embeddings."""

import numpy as np

from vitkeras.analysis.distance import attention_distance
from vitkeras.analysis.embeddings import embedding_filters, position_layers, position_similarity
from vitkeras.analysis.figures_canvas import QUIET, new_figure
from vitkeras.analysis.figures_distance import draw_distances
from vitkeras.analysis.figures_filters import draw_filters
from vitkeras.analysis.figures_positions import draw_positions

PER_ROW = 3


def figure_7(model, images, count=None, batch_size=8):
    """Draws the paper's Figure 7: embedding filters, similarity of position embeddings, attention distance.

    Args:
        model: a `keras.Model` that holds a Vision Transformer or hybrid, also nested; no axial one.
        images: array (B, height, width, channels), as the model takes them, for the distances; the paper averages 128.
        count: int > 0, filters; None (default) for the paper's 28, or as many as there are.
        batch_size: int > 0, images that run together. Default 8.

    Returns:
        `matplotlib.figure.Figure` with three panels. Where the model has no position embedding, the middle one says
        so.

    Raises:
        ValueError: as `embedding_filters` and `attention_distance`.
        ImportError: if matplotlib is missing.

    Example:
        >>> import vitkeras
        >>> model = vitkeras.VisionTransformer((32, 48, 3), 16, 2, 48, 3, 96, classes=7)
        >>> figure_7(model, np.zeros((5, 32, 48, 3))).savefig("figure7.png")
    """
    filters, distances = embedding_filters(model, count), attention_distance(model, images, batch_size)
    figure = new_figure(14.5, 4.2)
    left, middle, right = figure.subplots(1, 3, gridspec_kw={"width_ratios": (1.15, 1.1, 1.1)})
    draw_filters(left, filters)
    _draw_or_say(middle, model)
    draw_distances(right, distances)
    return figure


def figure_10(models):
    """Draws the position similarities of several models side by side, as the paper's Figure 10 does.

    Args:
        models: dict of title -> `keras.Model`.

    Returns:
        `matplotlib.figure.Figure`, one panel a model, of its first position embedding; the panel of a model without
        one says so.

    Raises:
        ValueError: if `models` is no such dict or is empty.
        ImportError: if matplotlib is missing.

    Example:
        >>> import vitkeras
        >>> sizes = dict(patch_size=16, num_layers=1, hidden_dim=48, num_heads=3, mlp_dim=96)
        >>> models = {
        ...     kind: vitkeras.VisionTransformer((32, 48, 3), **sizes, position_embedding=kind)
        ...     for kind in ("learned_1d", "learned_2d", "relative", "none")
        ... }
        >>> figure_10(models).savefig("figure10.png")
    """
    if not isinstance(models, dict) or not models:
        raise ValueError(f"models must be a dict of title -> keras.Model, received {models!r}.")
    columns = min(PER_ROW, len(models))
    rows = -(-len(models) // columns)
    figure = new_figure(4.6 * columns, 3.9 * rows)
    panels = np.ravel(figure.subplots(rows, columns, squeeze=False))
    for axes, (title, model) in zip(panels, models.items()):
        _draw_or_say(axes, model, str(title))
    for axes in panels[len(models) :]:
        axes.set_axis_off()
    return figure


def _draw_or_say(axes, model, title="position embedding similarity"):
    if position_layers(model):
        draw_positions(axes, position_similarity(model), title)
        return
    axes.set_axis_off()
    axes.set_title(title)
    axes.text(0.5, 0.5, "no learned position embedding:\nnothing to compare", ha="center", va="center", color=QUIET)
