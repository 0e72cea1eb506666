"""Bringing an image to the model's size: plain, or the middle of a larger one.

Legend: h x w size of the image, H x W size that leaves.
"""

from vitkeras._tensorflow import tf

PREPROCESSINGS = ("resize", "resize_crop")

# big_vision's pairs; other sizes follow the ratio of the first.
_SMALLER_SIDES = {224: 256, 384: 448}
_RATIO = 256 / 224


def resize(image, size):
    """Plain bilinear resize without antialiasing: uint8 (h, w, 3) -> float32 (H, W, 3), values 0...255."""
    return tf.ensure_shape(tf.image.resize(image, size, method="bilinear", antialias=False), (*size, 3))


def resize_crop(image, size):
    """The middle of the image, resized before: uint8 (h, w, 3) -> float32 (H, W, 3), whole values 0...255.

    As in big_vision: averaging over areas, the aspect ratio kept, pixels rounded down to whole values, then the
    central H x W. The smaller side becomes 256 for 224, 448 for 384, and the size x 256 / 224 for others; where
    H and W differ, the image covers both of them.
    """
    targets = [tf.constant(_SMALLER_SIDES.get(side, round(side * _RATIO)), tf.float32) for side in size]
    shape = tf.cast(tf.shape(image)[:2], tf.float32)
    factor = tf.maximum(targets[0] / shape[0], targets[1] / shape[1])
    # Long thin images may round to a pixel below the target.
    larger = tf.maximum(tf.cast(tf.round(shape * factor), tf.int32), size)
    image = tf.floor(tf.image.resize(image, larger, method="area"))
    top, left = (larger[0] - size[0]) // 2, (larger[1] - size[1]) // 2
    return tf.ensure_shape(image[top : top + size[0], left : left + size[1]], (*size, 3))


def resizer(preprocessing):
    """The function of that name, or an error."""
    if preprocessing not in PREPROCESSINGS:
        raise ValueError(f"preprocessing must be one of {', '.join(PREPROCESSINGS)}, received {preprocessing!r}.")
    return resize if preprocessing == "resize" else resize_crop
