"""Training-time geometry as in the original's input pipeline: distorted crop and mirror, drawn from given seeds."""

from vitkeras._tensorflow import tf


def draw_crop(shape, seed, area, aspect_ratio):
    """Draws where to crop.

    Args:
        shape: int32 tensor (3,), height, width, channels.
        seed: integer tensor (2,).
        area: (least, largest) share of the image's area, within (0, 1].
        aspect_ratio: (least, largest) width / height of the crop.

    Returns:
        int32 tensor (4,): top, left, height, width. The whole image if 100 draws did not fit into it.

    Example:
        >>> draw_crop(tf.constant([7, 5, 3]), tf.constant([0, 1]), (0.5, 1.0), (0.75, 1.25)).shape
        TensorShape([4])
    """
    begin, size, _ = tf.image.stateless_sample_distorted_bounding_box(
        shape,
        bounding_boxes=tf.zeros((1, 0, 4)),  # none: the whole image is the object
        seed=seed,
        min_object_covered=0.0,
        aspect_ratio_range=aspect_ratio,
        area_range=area,
        use_image_if_no_bounding_boxes=True,
    )
    return tf.concat([begin[:2], size[:2]], axis=0)


def example_seeds(seed, index):
    """Two seeds, int64 (2,) each, for crop and mirror of the training example with global index `index`."""
    pair = tf.stack([tf.constant(seed, tf.int64), index])
    return tf.unstack(tf.random.split(pair, 2))
