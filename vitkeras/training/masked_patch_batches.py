"""Which patches are corrupted, and how: drawn in the input pipeline, example by example (paper appendix B.1.2).

Legend: B batch, N patches, M corrupted patches of an image.
"""

from vitkeras._tensorflow import tf
from vitkeras.layers.patch_embedding import pair
from vitkeras.training.patch_targets import patch_targets
from vitkeras.training.seeds import check_seed

# Told apart from what else is drawn for the same example, such as its crop.
_PURPOSE = 0x6D61736B


def corruption_counts(num_patches, rate=0.5):
    """How many patches of an image become what; the same for every image, so that shapes are static.

    Args:
        num_patches: int >= 2, N.
        rate: float in (0, 1], share of the patches that is corrupted. Default 0.5, the paper's; 0.15 is BERT's.

    Returns:
        (masked, replaced, kept): `round(rate * N)` patches, at least one, of which `round` of 80 % get the mask
        embedding, `round` of 10 % another patch's, and the rest stays.

    Raises:
        ValueError: if an argument is out of its range.

    Example:
        >>> corruption_counts(196), corruption_counts(196, 0.15)
        ((78, 10, 10), (23, 3, 3))
    """
    if not isinstance(num_patches, int) or num_patches < 2:
        raise ValueError(f"an image must have at least 2 patches, received {num_patches!r}.")
    if not 0 < rate <= 1:
        raise ValueError(f"rate must be in (0, 1], received {rate!r}.")
    corrupted = max(1, round(rate * num_patches))
    masked, replaced = max(1, round(0.8 * corrupted)), round(0.1 * corrupted)
    return masked, replaced, corrupted - masked - replaced


def draw_corruption(seed, index, num_patches, rate=0.5):
    """Draws the corruption of one example, a pure function of the arguments.

    Args:
        seed: int, the run's.
        index: int64 scalar tensor, the example's global index.
        num_patches: int >= 2, N.
        rate: float in (0, 1].

    Returns:
        (sources, positions): int32 (N,), for each patch whose embedding it gets, -1 for the mask embedding; and int32
        (M,), the corrupted patches: first the masked, then the replaced, then those that stay.

    Example:
        >>> sources, positions = draw_corruption(0, tf.constant(7, tf.int64), num_patches=35)
        >>> int(tf.reduce_sum(tf.cast(sources < 0, tf.int32))), positions.shape
        (14, TensorShape([18]))
    """
    masked, replaced, kept = corruption_counts(num_patches, rate)
    key = tf.stack([tf.constant(seed, tf.int64), tf.cast(index, tf.int64)])
    order_key, other_key = tf.unstack(tf.random.split(tf.random.fold_in(key, _PURPOSE, "philox"), 2, "philox"))
    own = tf.range(num_patches, dtype=tf.int32)
    positions = tf.random.experimental.stateless_shuffle(own, order_key, alg="philox")[: masked + replaced + kept]
    at = positions[masked : masked + replaced]
    others = tf.random.stateless_uniform((replaced,), other_key, 0, num_patches - 1, tf.int32, alg="philox")
    others += tf.cast(others >= at, tf.int32)  # any patch but itself, each as likely
    new = tf.concat([tf.fill((masked,), -1), others], axis=0)
    sources = tf.tensor_scatter_nd_update(own, positions[: masked + replaced, None], new)
    return sources, positions


def masked_patch_batches(batches, patch_size, target="mean_color", rate=0.5, seed=0, start_step=0, num_hosts=1, host=0):
    """Turns batches of images into those of masked-patch prediction (paper appendix B.1.2).

    What is corrupted depends on `seed` and the example's global index alone: neither on the number of replicas or
    hosts, nor on where the run was resumed. Labels are dropped.

    Args:
        batches: `tf.data.Dataset` of (images float32 (B, H, W, C) in -1...1, labels), or with weights (B,) as third,
            such as `vitkeras.data.train_batches` and `eval_batches` give; B, H and W static.
        patch_size: int or (height, width) in pixels, the model's.
        target: "mean_color" (default; 3 bits a channel, 512 classes), "color_4x4" (the same for each cell of the patch
            downsized to 4 x 4) or "pixels" (all of them).
        rate: float in (0, 1], share of the patches that is corrupted. Default 0.5.
        seed: int in 0...2**31 - 1. Default 0.
        start_step: int >= 0, number of the first of `batches`. Default 0.
        num_hosts, host: ints, where `batches` are this host's slices of the global batches. Defaults 1 and 0.

    Returns:
        `tf.data.Dataset` of ({"image", "sources" int32 (B, N), "positions" int32 (B, M)}, targets), or with the
        weights as third. Targets are int32 (B, M), int32 (B, M, 16) or float32 (B, M, pixels * C), of the corrupted
        patches in the order of `positions`.

    Raises:
        ValueError: if an argument is out of its range, or the images don't fit the patches.

    Example:
        >>> images = tf.data.Dataset.from_tensors((tf.zeros((2, 21, 25, 3)), tf.zeros((2,))))
        >>> inputs, targets = masked_patch_batches(images, patch_size=(7, 5)).element_spec
        >>> inputs["sources"].shape, inputs["positions"].shape, targets.shape
        (TensorShape([2, 15]), TensorShape([2, 8]), TensorShape([2, 8]))
    """
    patch_size = pair(patch_size, "patch_size")
    check_seed(seed)
    shape = batches.element_spec[0].shape
    if shape.rank != 4 or None in shape:
        raise ValueError(f"batches must hold images (batch, height, width, channels) of static size, received {shape}.")
    for side, size, patch in zip(("height", "width"), shape[1:3], patch_size):
        if size % patch:
            raise ValueError(f"image {side} must be a multiple of the patch {side} {patch}, received {size}.")
    num_patches = (shape[1] // patch_size[0]) * (shape[2] // patch_size[1])
    count = sum(corruption_counts(num_patches, rate))
    patch_targets(tf.zeros((1, *shape[1:])), patch_size, target)  # refuses what doesn't fit, before the data is read
    specs = tf.TensorSpec((num_patches,), tf.int32), tf.TensorSpec((count,), tf.int32)

    def prepare(step, batch):
        images, _, *weights = batch
        first = (step * num_hosts + host) * shape[0]
        indices = first + tf.range(shape[0], dtype=tf.int64)
        sources, positions = tf.map_fn(
            lambda index: draw_corruption(seed, index, num_patches, rate), indices, fn_output_signature=specs
        )
        targets = tf.gather(patch_targets(images, patch_size, target), positions, batch_dims=1)
        return {"image": images, "sources": sources, "positions": positions}, targets, *weights

    prepared = batches.enumerate(start_step).map(prepare, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    return prepared.prefetch(tf.data.AUTOTUNE)
