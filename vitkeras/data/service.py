"""Decoding on other machines with tf.data service, without giving up the order of the batches."""

from vitkeras._tensorflow import tf
from vitkeras.data.image_set import FOREVER, FileSet

_PROTOCOL = "grpc://"


def service_addresses(service):
    """Tuple of str, the dispatchers of `service`, a text with commas or a sequence; or an error."""
    addresses = [part.strip() for part in service.split(",")] if isinstance(service, str) else service
    if not isinstance(addresses, (list, tuple)) or not addresses:
        raise ValueError(f"service must be addresses such as grpc://host:5050, received {service!r}.")
    for address in addresses:
        host, _, port = str(address).removeprefix(_PROTOCOL).rpartition(":")
        if not str(address).startswith(_PROTOCOL) or not host or not port.isdigit():
            raise ValueError(f"service must be addresses such as grpc://host:5050, received {address!r}.")
    if len(set(addresses)) < len(addresses):
        raise ValueError(f"service must name each address once, received {service!r}.")
    return tuple(addresses)


def check_servable(image_set):
    """Refuses sets that a worker in another process cannot decode."""
    if isinstance(image_set, FileSet) and image_set.num_for_pillow:
        raise ValueError(
            f"service decodes what TensorFlow's JPEG decoder reads, {image_set.name!r} has "
            f"{image_set.num_for_pillow} images that need Pillow; turn them into RGB JPEGs or decode here."
        )


def read_service(make_numbered, addresses, start_step):
    """Batches that tf.data service workers make, in the order of their steps.

    Each dispatcher has one worker and makes every n-th batch, n the number of dispatchers. A second worker behind a
    dispatcher would make each batch twice; the number that comes with a batch tells, and the reading stops.

    Args:
        make_numbered: function of (streams, stream), ints, that returns the numbered batches of one dispatcher:
            `tf.data.Dataset` of (step, batch).
        addresses: tuple of n str.
        start_step: int, number of the first batch.

    Returns:
        `tf.data.Dataset` of batches.

    Raises:
        tf.errors.InvalidArgumentError: while reading, if a batch comes twice or in the wrong order.
    """
    n = len(addresses)
    policy = tf.data.experimental.service.ShardingPolicy.OFF  # any other would hand the steps out as workers ask
    made = [
        make_numbered(n, stream).apply(tf.data.experimental.service.distribute(policy, address))
        for stream, address in enumerate(addresses)
    ]
    steps = tf.data.Dataset.range(start_step, FOREVER)
    taken = made[0] if n == 1 else tf.data.Dataset.choose_from_datasets(made, steps.map(lambda step: step % n))

    def checked(step, numbered):
        number, batch = numbered
        message = "each dispatcher of the tf.data service must have exactly one worker: batch"
        right = tf.debugging.Assert(number == step, [message, number, "came in place of", step])
        with tf.control_dependencies([right]):
            return tf.nest.map_structure(tf.identity, batch)

    return tf.data.Dataset.zip(steps, taken).map(checked)
