"""Attention rollout drawn over pictures (paper Figures 6 and 14).

Legend: B batch, h w patch grid.
"""

from vitkeras.analysis.figures_canvas import (
    COLOURS,
    as_pictures,
    check_images,
    heat_over,
    heat_scale,
    new_figure,
)
from vitkeras.analysis.rollout import rollout_heat_map


def rollout_figure(model, images, pictures=None, head_fusion="mean"):
    """Draws which parts of each picture reach the classifier, by attention rollout.

    One row a picture: the picture, and its heat map over it. 1 is the share of an evenly spread map. The colours end
    where 3 % of the patches lie above them, because a few patches of a trained net may weigh far more than all others.

    Args:
        model: a `keras.Model` that holds a Vision Transformer or hybrid, also nested; no axial one.
        images: array (B, height, width, channels) of -1...1, as the model takes them.
        pictures: None (default, `images` themselves), or B uint8 arrays (height, width, 3) of any size: the originals,
            of which `images` are resized copies. The map is spread over the whole of each.
        head_fusion: "mean" (default, the definition), "max" or "min", as in `roll_out`.

    Returns:
        `matplotlib.figure.Figure`; `figure.savefig(path)` writes it.

    Raises:
        ValueError: as `rollout_heat_map`, or for pictures that are none or too few.
        ImportError: if matplotlib is missing.

    Example:
        >>> import vitkeras
        >>> model = vitkeras.VisionTransformer((32, 48, 3), 16, 2, 48, 3, 96, classes=7)
        >>> rollout_figure(model, np.zeros((1, 32, 48, 3))).savefig("rollout.png")
    """
    images = check_images(images)
    pictures = as_pictures(images, pictures)
    return draw_rollouts(pictures, rollout_heat_map(model, images, head_fusion))


def draw_rollouts(pictures, heats):
    """The figure of pictures and their heat maps; arguments as `as_pictures` and `rollout_heat_map` give them."""
    shapes = [picture.shape[0] / picture.shape[1] for picture in pictures]
    figure = new_figure(7.4, sum(3.1 * min(shape, 2) + 0.25 for shape in shapes))
    rows = figure.subplots(len(pictures), 2, squeeze=False, gridspec_kw={"height_ratios": shapes})
    for (left, right), picture, heat in zip(rows, pictures, heats):
        left.imshow(picture)
        relative = heat / heat.mean()
        scale = heat_scale(relative)
        right.imshow(heat_over(picture, relative, scale))
        for axes in (left, right):
            axes.set_axis_off()
        _colour_bar(figure, right, scale, relative.max() > scale[1])
    rows[0, 0].set_title("picture")
    rows[0, 1].set_title("attention rollout")
    return figure


def _colour_bar(figure, axes, scale, more):
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    bar = figure.colorbar(
        ScalarMappable(Normalize(*scale), COLOURS), ax=axes, extend="max" if more else "neither", fraction=0.06
    )
    bar.set_label("times an even share")
