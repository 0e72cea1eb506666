"""Training-time changes drawn from given seeds: the original's distorted crop and mirror, AugReg's levels, MixUp.

Legend: B examples of a batch that one host holds, K classes.
"""

import numbers
from dataclasses import dataclass

from vitkeras._tensorflow import tf


@dataclass(frozen=True)
class Augmentation:
    """How strongly training images are changed besides crop and mirror (arXiv 2106.10270).

    Args:
        mixup: float >= 0: in each batch, pairs of images are mixed with one weight from Beta(mixup, mixup). 0: none.
        layers: int >= 0, operations of RandAugment on each image.
        magnitude: float >= 0, their strength; 10 is the largest of RandAugment's paper.

    Raises:
        ValueError: if an argument is out of its range.

    Example:
        >>> Augmentation(mixup=0.2, layers=2, magnitude=15) == LEVELS["medium1"]
        True
    """

    mixup: float = 0.0
    layers: int = 0
    magnitude: float = 0.0

    def __post_init__(self):
        if not isinstance(self.layers, numbers.Integral) or self.layers < 0:
            raise ValueError(f"layers of an Augmentation must be an integer >= 0, received {self.layers!r}.")
        for name in ("mixup", "magnitude"):
            value = getattr(self, name)
            if not isinstance(value, numbers.Real) or not value >= 0:
                raise ValueError(f"{name} of an Augmentation must be a number >= 0, received {value!r}.")


LEVELS = {
    "none": Augmentation(0.0, 0, 0),
    "light1": Augmentation(0.0, 2, 0),
    "light2": Augmentation(0.2, 2, 10),
    "medium1": Augmentation(0.2, 2, 15),
    "medium2": Augmentation(0.5, 2, 15),
    "strong1": Augmentation(0.5, 2, 20),
    "strong2": Augmentation(0.8, 2, 20),
}


def find_augmentation(augment):
    """The `Augmentation` of a level's name, or the given one itself."""
    if isinstance(augment, Augmentation):
        return augment
    if not isinstance(augment, str) or augment not in LEVELS:
        raise ValueError(f"augment must be an Augmentation or one of {', '.join(LEVELS)}, received {augment!r}.")
    return LEVELS[augment]


def mix_up(images, labels, seed, alpha):
    """Mixes each image with its neighbour, 0 with 1, 2 with 3 and so on.

    The weight is one for the batch and at least 1/2, as in the published code, which mixes with the image before;
    pairs keep the mixing inside a host's slice of the batch.

    Args:
        images: float32 (B, height, width, 3), B even.
        labels: float32 (B, K), one-hot.
        seed: integer tensor (2,).
        alpha: float > 0, both parameters of the weight's Beta distribution.

    Returns:
        (images, labels) of the same shapes.

    Example:
        >>> images, labels = mix_up(tf.zeros((2, 5, 7, 3)), tf.eye(2), seed=[0, 1], alpha=0.5)
        >>> bool(labels[0, 0] >= 0.5), labels.shape
        (True, TensorShape([2, 2]))
    """
    # Two gamma draws make a beta one; float64, since small parameters draw values near 0.
    gammas = tf.random.stateless_gamma((2,), seed, alpha=tf.constant(alpha, tf.float64), dtype=tf.float64)
    weight = tf.reduce_max(gammas) / tf.reduce_sum(gammas)

    def mix(values):
        share = tf.cast(weight, values.dtype)
        count = values.shape[0]
        partners = tf.gather(values, [index ^ 1 for index in range(count)])
        return share * values + (1 - share) * partners

    return mix(images), mix(labels)


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
    return tf.unstack(tf.random.split(_pair(seed, index), 2))


def operation_seed(seed, index):
    """A seed, int64 (2,), for the operations on the training example with global index `index`."""
    return tf.random.fold_in(_pair(seed, index), 2)


def batch_seed(seed, step):
    """A seed, int64 (2,), for what batch `step` draws as a whole."""
    return tf.random.fold_in(_pair(seed, step), 3)


def _pair(seed, number):
    return tf.stack([tf.constant(seed, tf.int64), tf.cast(number, tf.int64)])
