"""What every figure here begins with: a canvas without global state, pictures to draw on, and heat laid over them.

Legend: B batch, H W picture height and width, h w patch grid, C channels.
"""

import numpy as np

from vitkeras._optional import require

COLOURS = "inferno"
QUIET = "#808080"  # readable on white and on black
TAIL = 0.03  # share of the patches that may lie above a heat map's colours
STRENGTH = 0.62  # of the colours over the grey picture


def new_figure(width, height):
    """An empty `matplotlib.figure.Figure` of so many inches; it belongs to no pyplot state and needs no closing."""
    figure = require("matplotlib.figure", "matplotlib", "a figure").Figure
    return figure(figsize=(width, height), layout="constrained")


def colour(values):
    """RGB of values 0...1 (any shape) in the heat maps' colours: float array with a last axis of 3."""
    return require("matplotlib", "matplotlib", "a figure").colormaps[COLOURS](np.asarray(values, "float64"))[..., :3]


def heat_scale(heat):
    """(low, high) of a heat map's colours: its least value, and the one that `TAIL` of the patches exceed.

    Trained nets without tokens of their own for it keep notes in a few patches, which then weigh tens of times the
    mean; scaled to these, a map shows nothing else.
    """
    low, high = float(np.min(heat)), float(np.quantile(heat, 1 - TAIL, method="lower"))
    return (low, high) if high > low else (low, max(float(np.max(heat)), low + 1e-12))


def stretched(heat, size):
    """Spreads a heat map over a picture, linearly between the middles of its patches.

    Args:
        heat: array (h, w).
        size: (H, W), pixels of the picture.

    Returns:
        float64 array (H, W).
    """
    rows, columns = (_weights(old, new) for old, new in zip(np.shape(heat), size))
    return rows @ np.asarray(heat, "float64") @ columns.T


def _weights(old, new):
    """(new, old) weights; a pixel's middle lies at (i + 1/2) / new of the side."""
    places = np.clip((np.arange(new) + 0.5) * old / new - 0.5, 0, old - 1)
    return np.maximum(0, 1 - np.abs(places[:, None] - np.arange(old)))


def heat_over(picture, heat, scale=None):
    """Lays a heat map over a grey copy of a picture.

    Args:
        picture: uint8 array (H, W, 3), of any size.
        heat: array (h, w) over the whole picture.
        scale: (low, high) of the colours; default `heat_scale(heat)`.

    Returns:
        uint8 array (H, W, 3).
    """
    low, high = heat_scale(heat) if scale is None else scale
    colours = colour(np.clip((stretched(heat, picture.shape[:2]) - low) / (high - low), 0, 1))
    grey = (picture / 255) @ np.array([0.299, 0.587, 0.114])
    return np.rint(255 * (STRENGTH * colours + (1 - STRENGTH) * grey[..., None])).astype("uint8")


def as_pictures(images, pictures=None):
    """The pictures to draw on.

    Args:
        images: array (B, height, width, C) of -1...1, what the model takes.
        pictures: None, or a sequence of B uint8 arrays (H, W, 3) of any size, the originals.

    Returns:
        list of B uint8 arrays (H, W, 3).

    Raises:
        ValueError: if there aren't B pictures, or one is no such array.
    """
    images = np.asarray(images, "float32")
    if pictures is None:
        pixels = np.clip(np.rint(images * 127.5 + 127.5), 0, 255).astype("uint8")
        return list(pixels if pixels.shape[-1] == 3 else np.repeat(pixels[..., :1], 3, axis=-1))
    pictures = list(pictures)
    if len(pictures) != len(images):
        raise ValueError(f"pictures must be one for each of the {len(images)} images, received {len(pictures)}.")
    for picture in pictures:
        shape, kind = np.shape(picture), getattr(picture, "dtype", type(picture).__name__)
        if len(shape) != 3 or shape[-1] != 3 or kind != np.uint8:
            raise ValueError(f"pictures must be uint8 arrays (height, width, 3), received {kind} {shape}.")
    return pictures


def check_images(images):
    """`images` as an array; ValueError unless it is one (B, height, width, C) with B > 0."""
    images = np.asarray(images)
    if images.ndim != 4 or not len(images):
        raise ValueError(f"images must be an array (images, height, width, channels), received shape {images.shape}.")
    return images
