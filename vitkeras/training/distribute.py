"""Batches for a strategy: each replica gets its share of every global batch."""

import keras

from vitkeras._tensorflow import tf


def batch_size(structure):
    """Returns the static number of examples in a structure of tensors or of their specs, or None."""
    return keras.tree.flatten(structure)[0].shape[0]


def distribute_training(dataset, strategy, accumulate):
    """Returns `dataset` with each batch split over the replicas of `strategy`; see `Engine.iterator`."""
    if callable(dataset):

        def on_one_host(context):
            own = _checked(dataset(context), accumulate, "accumulate")
            # Of a set that may end, workers would get batches of no static size, for the last one.
            return own.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY))

        return strategy.distribute_datasets_from_function(on_one_host)
    parts = strategy.num_replicas_in_sync * accumulate
    return distribute(_checked(dataset, parts, "replicas x accumulate"), strategy)


def distribute(dataset, strategy):
    """Returns `dataset`, whose batches are global ones, with each of them split over the replicas of `strategy`."""
    # Several hosts split each global batch, never the files: together they then see the batches of one host.
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return strategy.experimental_distribute_dataset(dataset.with_options(options))


def _checked(dataset, parts, what):
    batch = batch_size(dataset.element_spec[0])
    if batch is None or batch % parts:
        raise ValueError(f"the batch must be static and a multiple of {what} = {parts}, received {batch}.")
    return dataset
