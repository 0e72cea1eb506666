"""Batches for the workers of a `tf.distribute` strategy."""

from vitkeras._tensorflow import tf  # noqa: F401


def distribute_batches(strategy, batches, batch_size):
    """Distributes batches so that each worker reads only its own slice of them.

    Args:
        strategy: `tf.distribute.Strategy`.
        batches: function of `num_hosts` and `host` (keywords) that returns that host's batches, such as
            `lambda **hosts: train_batches(images, 512, 224, **hosts)`.
        batch_size: int, the global batch size, a multiple of the strategy's replicas.

    Returns:
        A `tf.distribute.DistributedDataset`; each replica of `strategy.run` gets batch_size / replicas examples.

    Raises:
        ValueError: if `batch_size` is not a multiple of the replicas.

    Example:
        >>> images = open_dataset("digits").train
        >>> make = lambda **hosts: train_batches(images, 6, 16, **hosts)
        >>> next(iter(distribute_batches(tf.distribute.get_strategy(), make, 6)))[0].shape
        TensorShape([6, 16, 16, 3])
    """
    replicas = strategy.num_replicas_in_sync
    if batch_size % replicas:
        raise ValueError(f"batch_size must be a multiple of the {replicas} replicas, received {batch_size}.")

    def worker_batches(context):
        own = batches(num_hosts=context.num_input_pipelines, host=context.input_pipeline_id)
        # Replicas of one worker take batches of their own size in turn.
        return own.rebatch(batch_size // replicas, drop_remainder=True)

    return strategy.distribute_datasets_from_function(worker_batches)
