"""Sets whose records come in one stored order: TensorFlow Datasets and TFRecord files."""

import copy
import os

from vitkeras._tensorflow import tf
from vitkeras.data.image_set import FOREVER, ImageSet
from vitkeras.data.images import cut_window, decode_jpeg_window, decode_stored
from vitkeras.data.split import held_out_count


class StreamSet(ImageSet):
    """Records that are read in one order only: encoded images with labels.

    Training order: each epoch passes through a shuffle buffer whose seed is derived from (seed, epoch). Starting
    in the middle of an epoch reads the records before it, without decoding them.

    Args:
        name, class_names, num_examples: as in `ImageSet`.
        make_records: function of two ints that returns the records `start` (included) to `stop` (excluded), both
            within 0...n, of one fixed order: a finite `tf.data.Dataset` of dicts with `image` (scalar string, an
            encoded JPEG, PNG, GIF or BMP) and `label` (integer).
        shuffle_buffer: int >= 1, records held in memory for shuffling. Default 10,000.
        read_names: None (default), or a function of (start, stop) like `make_records` that returns the file names of
            these records, an iterable of str.

    Raises:
        ValueError: if `shuffle_buffer` is below 1.
        tf.errors.InvalidArgumentError: while reading, for a label outside the classes.
    """

    def __init__(self, name, class_names, num_examples, make_records, shuffle_buffer=10_000, read_names=None):
        super().__init__(name, class_names, num_examples)
        if shuffle_buffer < 1:
            raise ValueError(f"shuffle_buffer must be at least 1, received {shuffle_buffer}.")
        self._make_records, self._shuffle_buffer, self._read_names = make_records, shuffle_buffer, read_names
        self._start = 0

    def part(self, start, stop, note):
        """The records `start` to `stop` of the stored order as a set of their own; `note` is added to the name."""
        part = copy.copy(self)
        part._start, part.num_examples = self._start + start, stop - start
        part.name = f"{self.name}, {note}"
        return part

    def first(self, count, seed):
        """The first records as they are stored, whatever the seed: finding others would mean reading all of them."""
        count = min(count, self.num_examples)
        return self.part(0, count, f"{count} images")

    def hold_out(self, fraction, seed, stratified=True):
        """Holds the last records out; labels are not known before reading, so that classes cannot be balanced."""
        n = self.num_examples
        if n < 2:
            raise ValueError(f"{self.name!r} must have at least 2 images to hold one out, received {n}.")
        kept = n - held_out_count(n, fraction)
        return self.part(0, kept, f"{kept} to train on"), self.part(kept, n, f"{n - kept} held out")

    def records(self):
        classes, name = len(self.class_names), self.name

        def checked(record):
            label = tf.cast(record["label"], tf.int32)
            message = f"labels of {name} must be in 0...{classes - 1}"
            in_range = tf.debugging.Assert((label >= 0) & (label < classes), [message, label])
            with tf.control_dependencies([in_range]):
                return {"image": record["image"], "label": tf.identity(label)}

        stop = self._start + self.num_examples
        records = self._make_records(self._start, stop).map(checked)
        return records.apply(tf.data.experimental.assert_cardinality(self.num_examples))

    def shuffled_records(self, seed, step, share):
        records, n, start = self.records(), self.num_examples, step * share.batch_size

        def order(epoch):
            pair = tf.stack([tf.constant(seed, tf.int64), epoch])
            return _shuffle(records, min(self._shuffle_buffer, n), tf.random.fold_in(pair, n))

        ordered = tf.data.Dataset.range(start // n, FOREVER).flat_map(order).skip(start % n)
        indexed = tf.data.Dataset.zip(tf.data.Dataset.range(start, FOREVER), ordered)
        return indexed if share.is_whole else indexed.filter(lambda index, _: share.holds(index))

    def file_names(self):
        """The names that are stored with the records, which are read once more for them."""
        if self._read_names is None:
            return None
        return tuple(os.path.basename(name) for name in self._read_names(self._start, self._start + self.num_examples))

    def image(self, record):
        return decode_stored(record["image"])

    def window(self, record, draw):
        encoded = record["image"]
        return tf.cond(
            tf.io.is_jpeg(encoded),
            lambda: decode_jpeg_window(encoded, draw),
            lambda: cut_window(decode_stored(encoded), draw),
        )


def _shuffle(records, buffer_size, seed):
    """`records.shuffle` with both halves of its seed: the method takes one and draws the other from the global seed."""
    spec = records.element_spec
    leaves = tf.nest.flatten(spec)
    variant = tf.raw_ops.ShuffleDataset(
        input_dataset=tf.data.experimental.to_variant(records),
        buffer_size=buffer_size,
        seed=tf.cast(seed[0], tf.int64),
        seed2=tf.cast(seed[1], tf.int64),
        reshuffle_each_iteration=False,
        output_types=[leaf.dtype for leaf in leaves],
        output_shapes=[leaf.shape for leaf in leaves],
    )
    return tf.data.experimental.from_variant(variant, spec)
