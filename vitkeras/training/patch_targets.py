"""What masked-patch prediction has to find out about a patch (paper appendix B.1.2).

Legend: B batch, H W image size, P Q patch height and width, h w patch grid, N = h * w patches, C channels.
"""

import numpy as np

from vitkeras._tensorflow import tf

LEVELS = 8  # of a channel: 3 bits
COLORS = LEVELS**3
CELLS = 4  # rows and columns of the downsized patch
TARGETS = ("mean_color", "color_4x4", "pixels")


def prediction_size(target, patch_size, channels=3):
    """Returns how many numbers a model predicts for each patch.

    Args:
        target: "mean_color", "color_4x4" or "pixels".
        patch_size: (height, width) in pixels.
        channels: int, C.

    Raises:
        ValueError: for an unknown target, or a colour of other than three channels.

    Example:
        >>> [prediction_size(target, (16, 16)) for target in TARGETS]
        [512, 8192, 768]
    """
    if target not in TARGETS:
        raise ValueError(f"target must be one of {TARGETS}, received {target!r}.")
    if target == "pixels":
        return patch_size[0] * patch_size[1] * channels
    if channels != 3:
        raise ValueError(f"target {target!r} is a colour of 3 channels, received images of {channels}; use 'pixels'.")
    return COLORS if target == "mean_color" else CELLS * CELLS * COLORS


def patch_targets(images, patch_size, target):
    """Computes the target of every patch from the pixels that the model sees.

    Args:
        images: float32 tensor (B, H, W, C), -1...1, of static H and W.
        patch_size: (height, width) in pixels, divisors of H and W.
        target: "mean_color": the mean colour with 8 levels a channel, as a class red * 64 + green * 8 + blue;
            "color_4x4": the same of each cell of the patch downsized to 4 x 4 by averaging areas, in raster order;
            "pixels": all pixels in raster order, channels last, as they are.

    Returns:
        int32 (B, N), int32 (B, N, 16) or float32 (B, N, P * Q * C), patches in raster order.

    Example:
        >>> grey_and_white = tf.concat([tf.zeros((1, 7, 5, 3)), tf.ones((1, 7, 5, 3))], axis=2)
        >>> patch_targets(grey_and_white, (7, 5), "mean_color").numpy().tolist()
        [[292, 511]]
    """
    prediction_size(target, patch_size, images.shape[-1])
    patches = _patches(images, patch_size)  # (B, N, P, Q, C)
    if target == "pixels":
        return tf.reshape(patches, (-1, patches.shape[1], np.prod(patches.shape[2:])))
    if target == "mean_color":
        return _color_class(tf.reduce_mean(patches, axis=(2, 3)))
    rows, columns = (tf.constant(_area_means(side, CELLS), tf.float32) for side in patch_size)
    cells = tf.einsum("rp,bnpqc->bnrqc", rows, patches)  # (B, N, 4, Q, C)
    cells = tf.einsum("sq,bnrqc->bnrsc", columns, cells)  # (B, N, 4, 4, C)
    return _color_class(tf.reshape(cells, (-1, patches.shape[1], CELLS * CELLS, 3)))


def color_levels(values):
    """Returns the int32 level 0...7 of values in -1...1; what lies outside counts as the nearest."""
    levels = tf.cast(tf.floor((tf.cast(values, tf.float32) + 1) * (LEVELS / 2)), tf.int32)
    return tf.clip_by_value(levels, 0, LEVELS - 1)


def _color_class(color):
    red, green, blue = tf.unstack(color_levels(color), axis=-1)
    return (red * LEVELS + green) * LEVELS + blue


def _patches(images, patch_size):
    """(B, H, W, C) -> (B, N, P, Q, C)"""
    (height, width, channels), (p, q) = images.shape[1:], patch_size
    x = tf.reshape(images, (-1, height // p, p, width // q, q, channels))  # (B, h, P, w, Q, C)
    x = tf.transpose(x, (0, 1, 3, 2, 4, 5))  # (B, h, w, P, Q, C)
    return tf.reshape(x, (-1, (height // p) * (width // q), p, q, channels))


def _area_means(size, cells):
    """(cells, size) weights: each cell is the mean over its share of the side, pixels on a border counted in part."""
    borders = np.arange(cells + 1) * size / cells
    starts = np.arange(size)
    overlap = np.minimum(borders[1:, None], starts + 1) - np.maximum(borders[:-1, None], starts)
    return np.maximum(overlap, 0) * cells / size
