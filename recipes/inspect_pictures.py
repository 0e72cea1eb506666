"""Pictures of the report of `recipes.inspect`, as data addresses that stand in the page itself."""

import base64
import io

import numpy as np

from vitkeras._optional import require

SIDE = 560  # pixels of a picture's longer side on the page
SMALL = 200
THEMES = {"light": "#1b1f24", "dark": "#e8ebef"}  # ink


def picture_uri(pixels):
    """A photo or a map over one, uint8 (height, width, 3): JPEG."""
    return _uri(pixels, "JPEG", quality=82)


def map_uri(weights):
    """One small map (h, w), a pixel a patch, from its least to its largest value in the heat maps' colours: PNG."""
    from vitkeras.analysis.figures_canvas import colour

    low, high = float(weights.min()), float(weights.max())
    values = (weights - low) / (high - low if high > low else 1)
    return _uri(np.rint(255 * colour(values)).astype("uint8"), "PNG", optimize=True)


def figure_uris(draw, width, height):
    """A matplotlib figure for light and for dark pages, on a clear ground.

    Args:
        draw: function of matplotlib axes.
        width, height: inches.

    Returns:
        dict of "light" and "dark" -> data address of a PNG.
    """
    from vitkeras.analysis.figures_canvas import new_figure

    matplotlib = require("matplotlib", "matplotlib", "the report")
    uris = {}
    for theme, ink in THEMES.items():
        keys = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
        with matplotlib.rc_context({**dict.fromkeys(keys, ink), "axes.facecolor": "none"}):
            figure = new_figure(width, height)
            draw(figure.subplots())
            buffer = io.BytesIO()
            figure.savefig(buffer, format="png", dpi=140, transparent=True)
        uris[theme] = _encoded(buffer, "png")
    return uris


def preview(pixels, most=SIDE):
    """A picture with its longer side at `most` pixels, its proportions kept.

    Small ones are enlarged, so that a map over them is smooth.
    """
    image_module = require("PIL.Image", "Pillow", "the report")
    height, width = pixels.shape[:2]
    factor = most / max(height, width)
    size = max(1, round(width * factor)), max(1, round(height * factor))
    return np.asarray(image_module.fromarray(pixels).resize(size))


def _uri(pixels, kind, **options):
    image_module = require("PIL.Image", "Pillow", "the report")
    buffer = io.BytesIO()
    image_module.fromarray(pixels).save(buffer, kind, **options)
    return _encoded(buffer, kind.lower())


def _encoded(buffer, kind):
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"
