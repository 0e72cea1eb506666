"""RandAugment as in AugReg's pre-training: operations drawn for each image from its own seed.

Sixteen operations (arXiv 1909.13719 and 2106.10270): five of keras-cv, the others here. Legend: H, W image size;
pixels are float32 (H, W, 3), whole values 0...255; M magnitude, 10 the largest of the first paper.
"""

import math

from vitkeras._tensorflow import tf
from vitkeras.data.keras_cv_augment import KerasCVOperations

_GREY = 128.0
# Pixels of 224, for M = 10: how far a translation goes, and half the side of a cut-out square.
_TRANSLATION, _CUTOUT = 100 / 224, 40 / 224


class RandAugment:
    """Applies `layers` operations, drawn with replacement, to an image.

    Each operation is as likely as any other and has the strength that `magnitude` gives it; geometric ones go either
    way with equal probability. What a shift, a turn or a cut leaves empty is grey, 128. Shifts and cuts are shares of
    the image's size that at 224 pixels are the published ones.

    At magnitude 0 some operations are strong (posterising to no bits, solarising everything), as in the published
    code; above 10 the threshold of solarising and the bits of posterising pass their ranges, and these two then
    leave the image as it is (from 15 on the one, at 20 the other).

    Args:
        layers: int >= 1, operations an image.
        magnitude: float >= 0, M.

    Raises:
        ImportError: if keras-cv is missing.

    Example:
        >>> augment = RandAugment(layers=2, magnitude=15)                    # doctest: +SKIP
        >>> augment(tf.zeros((224, 224, 3)), seed=[0, 1]).shape              # doctest: +SKIP
        TensorShape([224, 224, 3])
    """

    def __init__(self, layers, magnitude):
        self.layers, self.magnitude = layers, magnitude
        self.operations = _operations(magnitude / 10, KerasCVOperations())
        self._operate = tf.function(self._one)  # traced once for all layers

    def __call__(self, image, seed):
        """float32 (H, W, 3) to the same; `seed` is an integer tensor (2,)."""
        draws = tf.random.stateless_uniform((self.layers, 4), seed)
        for layer in range(self.layers):
            image = tf.ensure_shape(self._operate(image, draws[layer]), image.shape)
        return image

    def _one(self, image, draws):
        """One operation; `draws` are four numbers in [0, 1): which, which way, and a place."""
        chosen, side, row, column = tf.unstack(draws)
        drawn = {"sign": tf.where(side < 0.5, -1.0, 1.0), "row": row, "column": column}
        branches = [_branch(operation, image, drawn) for operation in self.operations.values()]
        return tf.switch_case(tf.cast(chosen * len(branches), tf.int32), branches)


def _branch(operation, image, drawn):
    return lambda: operation(image, drawn)


def _operations(level, cv):
    """name -> function (image, drawn) -> image; `level` is M / 10."""
    enhance = 1.8 * level + 0.1
    shear = 0.3 * level
    return {
        "autocontrast": lambda image, drawn: cv.autocontrast(image),
        "equalize": lambda image, drawn: cv.equalize(image),
        "invert": lambda image, drawn: 255.0 - image,
        "rotate": lambda image, drawn: rotate(image, math.radians(30 * level) * drawn["sign"]),
        "posterize": lambda image, drawn: posterize(image, int(4 * level)),
        "solarize": lambda image, drawn: cv.solarize(image, int(256 * level)),
        "solarize_add": lambda image, drawn: solarize_add(image, int(110 * level)),
        "color": lambda image, drawn: cv.colour(image, enhance),
        "contrast": lambda image, drawn: contrast(image, enhance),
        "brightness": lambda image, drawn: tf.clip_by_value(image * enhance, 0.0, 255.0),
        "sharpness": lambda image, drawn: cv.sharpness(image, enhance),
        "shear_x": lambda image, drawn: affine(image, [1, shear * drawn["sign"], 0, 0, 1, 0]),
        "shear_y": lambda image, drawn: affine(image, [1, 0, 0, shear * drawn["sign"], 1, 0]),
        "translate_x": lambda image, drawn: affine(image, [1, 0, _shift(image, 1, level, drawn), 0, 1, 0]),
        "translate_y": lambda image, drawn: affine(image, [1, 0, 0, 0, 1, _shift(image, 0, level, drawn)]),
        "cutout": lambda image, drawn: cutout(image, _CUTOUT * level, drawn["row"], drawn["column"]),
    }


def _shift(image, axis, level, drawn):
    return _TRANSLATION * level * tf.cast(tf.shape(image)[axis], tf.float32) * drawn["sign"]


def affine(image, rows):
    """Takes the pixel at (x, y) from the one nearest to (a x + b y + c, d x + e y + f); `rows` is [a, ..., f]."""
    transform = tf.stack([tf.cast(value, tf.float32) for value in [*rows, 0, 0]])
    moved = tf.raw_ops.ImageProjectiveTransformV3(
        images=image[None],
        transforms=transform[None],
        output_shape=tf.shape(image)[:2],
        fill_value=_GREY,
        interpolation="NEAREST",
        fill_mode="CONSTANT",
    )
    return moved[0]


def rotate(image, angle):
    """Turns the image about its middle; `angle` in radians, a scalar tensor."""
    size = tf.cast(tf.shape(image)[:2] - 1, tf.float32)
    middle_y, middle_x = size[0] / 2, size[1] / 2
    cos, sin = tf.cos(angle), tf.sin(angle)
    shift_x = middle_x - cos * middle_x + sin * middle_y
    shift_y = middle_y - sin * middle_x - cos * middle_y
    return affine(image, [cos, -sin, shift_x, sin, cos, shift_y])


def posterize(image, bits):
    """Keeps the highest `bits` of 8."""
    step = float(2 ** (8 - min(bits, 8)))
    return tf.floor(image / step) * step


def solarize_add(image, addition):
    """Adds to values below 128."""
    return tf.where(image < 128.0, tf.clip_by_value(image + addition, 0.0, 255.0), image)


def contrast(image, factor):
    """From the mean grey (`factor` 0) through the image itself (1) to more contrast, as Pillow's `Contrast`."""
    mean = tf.round(tf.reduce_mean(tf.image.rgb_to_grayscale(image)))
    return tf.clip_by_value(mean + factor * (image - mean), 0.0, 255.0)


def cutout(image, half_side, row, column):
    """A grey square with its middle anywhere; `half_side` is a share of the image, `row` and `column` in [0, 1)."""
    height, width = tf.shape(image)[0], tf.shape(image)[1]
    away = []
    for length, place in ((height, row), (width, column)):
        length_float = tf.cast(length, tf.float32)
        half = tf.floor(half_side * length_float)
        middle, at = tf.floor(place * length_float), tf.cast(tf.range(length), tf.float32)
        away.append((at < middle - half) | (at >= middle + half))
    return tf.where((away[0][:, None] | away[1][None, :])[..., None], image, _GREY)
