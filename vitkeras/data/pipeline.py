"""Batches for training.

Legend: B global batch size, H and W image size, K classes. Pixels leave as float32 in -1...1.
"""

from vitkeras._tensorflow import tf
from vitkeras.data.arguments import check_count, check_range, image_size_pair
from vitkeras.data.augment import batch_seed, draw_crop, example_seeds, find_augmentation, mix_up, operation_seed
from vitkeras.data.evaluation import in_order
from vitkeras.data.randaugment import RandAugment
from vitkeras.data.resizing import resize
from vitkeras.data.service import check_servable, read_service, service_addresses
from vitkeras.data.shares import Share
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
    augment="none",
    num_hosts=1,
    host=0,
    service=None,
):
    """Endless training batches, a pure function of (seed, step).

    Batch number `k` is the same whether the stream starts at 0 or at `k`, so a resumed run sees the images that an
    uninterrupted one sees. Epochs are reshuffled and follow one another without a gap: a batch may hold the end of
    one and the start of the next.

    Each image: random crop (as the original's: share of the area and aspect ratio drawn uniformly), bilinear resize
    to H x W, random mirror, `preprocess_input`.

    Several hosts: each calls this with its own `host` and gets its slice of every batch, decoding nothing else; the
    slices of all hosts, one after the other, are the batch of a single host. Sets whose records can be looked up
    (folders, CSV lists) are read in part only; stored records (TFDS, TFRecords) are all read, since the shuffle
    needs them, and decoded in part. Under a `tf.distribute` strategy of several workers, give the strategy
    `distribute_batches`, which asks each worker for its slice; what `experimental_distribute_dataset` would do with
    a single host's batches is right too, but every worker then decodes everything.

    Args:
        image_set: `ImageSet`.
        batch_size: int >= 1, B, over all hosts.
        image_size: int, or (H, W) in pixels.
        seed: int >= 0. Default 0.
        start_step: int >= 0, number of the first batch. Default 0.
        crop_area: (least, largest) share of the image's area, 0 < least <= largest <= 1, or None for no crop.
            Default (0.05, 1.0).
        aspect_ratio: (least, largest) width / height of a crop, positive. Default (3/4, 4/3).
        flip: bool, mirror half of the images. Default True.
        augment: "none" (default), "light1", "light2", "medium1", "medium2", "strong1" or "strong2", AugReg's levels of
            RandAugment and MixUp (arXiv 2106.10270), or an `Augmentation`. RandAugment needs keras-cv.
        num_hosts: int >= 1, a divisor of B. Default 1.
        host: int in 0...num_hosts - 1. Default 0.
        service: None (default), or addresses of tf.data service dispatchers, `"grpc://host:5050"` or several as a
            sequence or with commas, which read and decode instead of this host, each with exactly one worker. They
            must see the files under the same paths. The batches are the same ones in the same order. Iterators of
            the service cannot be saved in a checkpoint, nor need they: `start_step` continues a run.

    Returns:
        Endless `tf.data.Dataset` of (images float32 (B / num_hosts, H, W, 3), labels int32 (B / num_hosts,)); with
        MixUp, labels float32 (B / num_hosts, K), a distribution over the classes.

    Raises:
        ValueError: if an argument is out of its range, or B / num_hosts is odd with MixUp, which mixes pairs; or
            for a `service` and a set with images that need Pillow, which a service worker does not have.
        ImportError: if `augment` needs keras-cv and it is missing.

    Example:
        >>> batches = train_batches(open_dataset("digits").train, batch_size=5, image_size=(16, 24))
        >>> batches.element_spec[0].shape
        TensorShape([5, 16, 24, 3])
    """
    share = Share(batch_size, num_hosts, host)
    check_count("seed", seed, least=0)
    check_count("start_step", start_step, least=0)
    size = image_size_pair(image_size)
    if crop_area is not None:
        crop_area = check_range("crop_area", crop_area, largest=1.0)
    aspect_ratio = check_range("aspect_ratio", aspect_ratio)
    augmentation = find_augmentation(augment)
    if augmentation.mixup and share.size % 2:
        raise ValueError(f"batch_size / num_hosts must be even with MixUp, received {share.size}.")
    operate = RandAugment(augmentation.layers, augmentation.magnitude) if augmentation.layers else None

    def prepare(index, record):
        crop_seed, flip_seed = example_seeds(seed, index)
        if crop_area is None:
            image = image_set.image(record)
        else:
            image = image_set.window(record, lambda shape: draw_crop(shape, crop_seed, crop_area, aspect_ratio))
        image = resize(image, size)
        if flip:
            image = tf.image.stateless_random_flip_left_right(image, flip_seed)
        if operate is not None:
            image = operate(tf.round(image), operation_seed(seed, index))
        return preprocess_input(image), record["label"]

    def mix(step, batch):
        images, labels = batch
        classes = len(image_set.class_names)
        return step, mix_up(images, tf.one_hot(labels, classes), batch_seed(seed, step), augmentation.mixup)

    def numbered(share):
        records = image_set.shuffled_records(seed, start_step, share)
        examples = records.map(prepare, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        batches = tf.data.Dataset.zip(share.steps(start_step), examples.batch(share.size, drop_remainder=True))
        if augmentation.mixup:
            batches = batches.map(mix, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        return batches

    if service is None:
        return in_order(numbered(share).map(lambda step, batch: batch), share)
    addresses = service_addresses(service)
    check_servable(image_set)

    def stream(streams, number):
        return in_order(numbered(Share(batch_size, num_hosts, host, streams, number)), share)

    return in_order(read_service(stream, addresses, start_step), share)
