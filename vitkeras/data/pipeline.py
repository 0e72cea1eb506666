"""Batches for training and evaluation.

Legend: B batch size, H and W image size, n examples in the set. Pixels leave as float32 in -1...1.
"""

import numbers

import numpy as np

from vitkeras._tensorflow import tf
from vitkeras.data.augment import draw_crop, example_seeds
from vitkeras.data.image_set import FOREVER
from vitkeras.preprocessing import preprocess_input


def train_batches(
    image_set,
    batch_size,
    image_size,
    seed=0,
    start_step=0,
    crop_area=(0.05, 1.0),
    aspect_ratio=(3 / 4, 4 / 3),
    flip=True,
):
    """Endless training batches, a pure function of (seed, step).

    Batch number `k` is the same whether the stream starts at 0 or at `k`, so a resumed run sees the images that an
    uninterrupted one sees. Epochs are reshuffled and follow one another without a gap: a batch may hold the end of
    one and the start of the next.

    Each image: random crop (as the original's: share of the area and aspect ratio drawn uniformly), bilinear resize
    to H x W, random mirror, `preprocess_input`.

    Args:
        image_set: `ImageSet`.
        batch_size: int >= 1, B.
        image_size: int, or (H, W) in pixels.
        seed: int >= 0. Default 0.
        start_step: int >= 0, number of the first batch. Default 0.
        crop_area: (least, largest) share of the image's area, 0 < least <= largest <= 1, or None for no crop.
            Default (0.05, 1.0).
        aspect_ratio: (least, largest) width / height of a crop, positive. Default (3/4, 4/3).
        flip: bool, mirror half of the images. Default True.

    Returns:
        Endless `tf.data.Dataset` of (images float32 (B, H, W, 3), labels int32 (B,)).

    Raises:
        ValueError: if an argument is out of its range.

    Example:
        >>> batches = train_batches(open_dataset("digits").train, batch_size=5, image_size=(16, 24))
        >>> batches.element_spec[0].shape
        TensorShape([5, 16, 24, 3])
    """
    _check_count("batch_size", batch_size, least=1)
    _check_count("seed", seed, least=0)
    _check_count("start_step", start_step, least=0)
    size = _image_size(image_size)
    if crop_area is not None:
        crop_area = _check_range("crop_area", crop_area, largest=1.0)
    aspect_ratio = _check_range("aspect_ratio", aspect_ratio)

    def prepare(index, record):
        crop_seed, flip_seed = example_seeds(seed, index)
        if crop_area is None:
            image = image_set.image(record)
        else:
            image = image_set.window(record, lambda shape: draw_crop(shape, crop_seed, crop_area, aspect_ratio))
        image = _resize(image, size)
        if flip:
            image = tf.image.stateless_random_flip_left_right(image, flip_seed)
        return preprocess_input(image), record["label"]

    start = start_step * batch_size
    indexed = tf.data.Dataset.zip(tf.data.Dataset.range(start, FOREVER), image_set.shuffled_records(seed, start))
    examples = indexed.map(prepare, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    return _in_order(examples.batch(batch_size, drop_remainder=True))


def eval_batches(image_set, batch_size, image_size):
    """Every image once, in a fixed order, preprocessed as the original evaluates.

    Each image: bilinear resize of the whole image to H x W (no crop, no antialiasing), `preprocess_input`. The last
    batch is filled up with grey images of weight 0 and label 0, so that shapes are static.

    Args:
        image_set: `ImageSet`.
        batch_size: int >= 1, B.
        image_size: int, or (H, W) in pixels.

    Returns:
        `tf.data.Dataset` of ceil(n / B) times (images float32 (B, H, W, 3), labels int32 (B,), weights float32
        (B,)); the weights are 1 for images and 0 for filling, n in sum.

    Raises:
        ValueError: if an argument is out of its range.

    Example:
        >>> batches = eval_batches(open_dataset("digits").test, batch_size=128, image_size=16)
        >>> sum(float(tf.reduce_sum(weights)) for _, _, weights in batches)
        360.0
    """
    _check_count("batch_size", batch_size, least=1)
    size = _image_size(image_size)

    def prepare(record):
        return preprocess_input(_resize(image_set.image(record), size)), record["label"], tf.constant(1.0)

    examples = image_set.records().map(prepare, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    missing = -image_set.num_examples % batch_size
    if missing:
        filling = (tf.zeros((*size, 3)), tf.constant(0), tf.constant(0.0))
        examples = examples.concatenate(tf.data.Dataset.from_tensors(filling).repeat(missing))
    return _in_order(examples.batch(batch_size, drop_remainder=True))


def raw_images(image_set, image_size, limit=None):
    """Images as 0...255 pixels in memory, resized as evaluation does, for reports and checks of small sets.

    Args:
        image_set: `ImageSet`. All asked-for images must fit into memory: N x H x W x 3 bytes.
        image_size: int, or (H, W) in pixels.
        limit: int >= 1, how many images at most, spread evenly over the set's order; None (default) for all.

    Returns:
        (uint8 array (N, H, W, 3), int32 array (N,) of labels), in the order of `eval_batches`.

    Raises:
        ValueError: if an argument is out of its range.

    Example:
        >>> images, labels = raw_images(open_dataset("digits").test, image_size=16, limit=10)
        >>> images.shape, images.dtype, labels.shape
        ((10, 16, 16, 3), dtype('uint8'), (10,))
    """
    size = _image_size(image_size)
    count = total = image_set.num_examples
    if limit is not None:
        _check_count("limit", limit, least=1)
        count = min(limit, total)

    def chosen(index, _):  # of every total / count records the first: `count` of them
        return index * count % total < count

    def prepare(_, record):
        return tf.cast(tf.round(_resize(image_set.image(record), size)), tf.uint8), record["label"]

    records = image_set.records().enumerate().filter(chosen)
    examples = list(records.map(prepare, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True).as_numpy_iterator())
    images, labels = zip(*examples)
    return np.stack(images), np.array(labels, "int32")


def _resize(image, size):
    """uint8 (h, w, 3) -> float32 (H, W, 3), values 0...255."""
    return tf.ensure_shape(tf.image.resize(image, size, method="bilinear", antialias=False), (*size, 3))


def _in_order(batches):
    options = tf.data.Options()
    options.deterministic = True
    return batches.with_options(options).prefetch(tf.data.AUTOTUNE)


def _image_size(image_size):
    pair = image_size if isinstance(image_size, (tuple, list)) else (image_size, image_size)
    if len(pair) != 2 or not all(isinstance(side, numbers.Integral) and side >= 1 for side in pair):
        raise ValueError(f"image_size must be an integer >= 1 or a pair (height, width), received {image_size!r}.")
    return tuple(int(side) for side in pair)


def _check_count(name, value, least):
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or not least <= value <= FOREVER:
        raise ValueError(f"{name} must be an integer >= {least} of at most 64 bits, received {value!r}.")


def _check_range(name, value, largest=None):
    pair = value if isinstance(value, (tuple, list)) else ()
    rule = "0 < least <= largest" + (f" <= {largest:g}" if largest is not None else "")
    if len(pair) != 2 or not 0 < pair[0] <= pair[1] or (largest is not None and pair[1] > largest):
        raise ValueError(f"{name} must be a pair (least, largest) with {rule}, received {value!r}.")
    return tuple(float(bound) for bound in pair)
