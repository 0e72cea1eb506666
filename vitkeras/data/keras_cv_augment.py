"""The colour operations of RandAugment that keras-cv has, with given instead of drawn strengths.

keras-cv's own RandAugment isn't used: its magnitudes end at 10 of AugReg's scale, it has no rotation, and what it draws
cannot be repeated (docs/decisions/0005). Its layers do take the strength from outside, which makes them pure
functions. Legend: H, W image size; pixels are float32 (H, W, 3), 0...255.
"""

from vitkeras._optional import require
from vitkeras._tensorflow import tf


class KerasCVOperations:
    """The operations as methods from pixels to pixels. Make one outside the graph that uses it.

    Raises:
        ImportError: if keras-cv is missing.

    Example:
        >>> operations = KerasCVOperations()                                 # doctest: +SKIP
        >>> operations.equalize(tf.zeros((5, 7, 3))).shape                   # doctest: +SKIP
        TensorShape([5, 7, 3])
    """

    def __init__(self):
        layers = require("keras_cv", "keras-cv", "augment other than none").layers
        pixels = {"value_range": (0, 255), "dtype": "float32"}
        self._autocontrast = layers.AutoContrast(**pixels)
        self._equalize = layers.Equalization(**pixels)
        self._solarize = layers.Solarization(**pixels)
        self._colour = layers.RandomColorDegeneration(factor=(0.5, 0.5), dtype="float32")
        self._sharpness = layers.RandomSharpness(factor=(0.5, 0.5), **pixels)

    def autocontrast(self, image):
        """Each channel stretched to 0...255; a channel of one value stays."""
        return _one(self._autocontrast, image, None)

    def equalize(self, image):
        """Each channel's histogram equalised."""
        return _one(self._equalize, image, None)

    def solarize(self, image, threshold):
        """Values of at least `threshold` inverted."""
        return _one(
            self._solarize, image, {"additions": tf.zeros(()), "thresholds": tf.constant(threshold, tf.float32)}
        )

    def colour(self, image, factor):
        """Away from grey (`factor` 0) through the image itself (1) to stronger colours, as Pillow's `Color`."""
        return _one(self._colour, image, tf.constant(1.0 - factor))

    def sharpness(self, image, factor):
        """From a smoothed image (`factor` 0) through the image itself (1) to a sharper one, as Pillow's `Sharpness`."""
        return _one(self._sharpness, image, tf.constant(1.0 - factor))


def _one(layer, image, strength):
    return layer.augment_images(image[None], strength)[0]
