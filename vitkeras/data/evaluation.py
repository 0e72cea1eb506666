"""Every image once, for evaluation and reports.

Legend: B batch size, H and W image size, n examples in the set. Pixels leave as float32 in -1...1.
"""

import numpy as np

from vitkeras._tensorflow import tf
from vitkeras.data.arguments import check_count, image_size_pair
from vitkeras.data.resizing import resizer
from vitkeras.data.shares import Share
from vitkeras.preprocessing import preprocess_input


def eval_batches(image_set, batch_size, image_size, preprocessing="resize", num_hosts=1, host=0):
    """Every image once, in a fixed order.

    The last batch is filled up with grey images of weight 0 and label 0, so that shapes are static.

    Args:
        image_set: `ImageSet`.
        batch_size: int >= 1, B, over all hosts.
        image_size: int, or (H, W) in pixels.
        preprocessing: "resize" (default): bilinear resize of the whole image, no crop, no antialiasing, as the
            original evaluates. "resize_crop": as big_vision evaluates, the smaller side to 256 (448) and the middle
            224 (384) of it. Both end in `preprocess_input`.
        num_hosts, host: as in `train_batches`.

    Returns:
        `tf.data.Dataset` of ceil(n / B) times (images float32 (B / num_hosts, H, W, 3), labels int32
        (B / num_hosts,), weights float32 (B / num_hosts,)); the weights are 1 for images and 0 for filling, n in
        sum over the hosts.

    Raises:
        ValueError: if an argument is out of its range.

    Example:
        >>> batches = eval_batches(open_dataset("digits").test, batch_size=128, image_size=16)
        >>> sum(float(tf.reduce_sum(weights)) for _, _, weights in batches)
        360.0
    """
    share = Share(batch_size, num_hosts, host)
    size, resize = image_size_pair(image_size), resizer(preprocessing)

    def prepare(record):
        return preprocess_input(resize(image_set.image(record), size)), record["label"], tf.constant(1.0)

    records = image_set.records()
    if not share.is_whole:
        records = records.enumerate().filter(lambda index, _: share.holds(index)).map(lambda _, record: record)
    examples = records.map(prepare, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    n = image_set.num_examples
    missing = sum(share.holds(index) for index in range(n, n + -n % batch_size))
    if missing:
        filling = (tf.zeros((*size, 3)), tf.constant(0), tf.constant(0.0))
        examples = examples.concatenate(tf.data.Dataset.from_tensors(filling).repeat(missing))
    batches = examples.batch(share.size, drop_remainder=True)
    batches = batches.apply(tf.data.experimental.assert_cardinality(-(-n // batch_size)))
    return in_order(batches, share)


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
    size, resize = image_size_pair(image_size), resizer("resize")
    count = total = image_set.num_examples
    if limit is not None:
        check_count("limit", limit, least=1)
        count = min(limit, total)

    def chosen(index, _):  # of every total / count records the first: `count` of them
        return index * count % total < count

    def prepare(_, record):
        return tf.cast(tf.round(resize(image_set.image(record), size)), tf.uint8), record["label"]

    records = image_set.records().enumerate().filter(chosen)
    examples = list(records.map(prepare, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True).as_numpy_iterator())
    images, labels = zip(*examples)
    return np.stack(images), np.array(labels, "int32")


def in_order(batches, share):
    """Deterministic and read ahead; where the hosts' shares are already apart, nothing else shall split them."""
    options = tf.data.Options()
    options.deterministic = True
    policy = tf.data.experimental.AutoShardPolicy
    options.experimental_distribute.auto_shard_policy = policy.DATA if share.num_hosts == 1 else policy.OFF
    return batches.with_options(options).prefetch(tf.data.AUTOTUNE)
