"""Sets of labelled images: where the records lie, in which order training sees them, how one becomes pixels.

Legend: n examples in the set; a *record* is a dict of scalars or small tensors before decoding, with a `label`;
the *global index* of a training example counts from the first step of the first epoch and never restarts.
"""

import os
from dataclasses import dataclass

import numpy as np

from vitkeras._tensorflow import tf
from vitkeras.data.images import cut_window, decode_jpeg, decode_jpeg_window, decode_stored, pillow_image

FOREVER = np.iinfo(np.int64).max


class ImageSet:
    """A set of labelled images, ready for `train_batches` and `eval_batches`.

    `open_dataset` makes these. A new source subclasses `IndexedSet` (every record can be looked up) or
    `StreamSet` (records come in one order).

    Args:
        name: str, for messages and reports.
        class_names: sequence of str; a label is an index into it.
        num_examples: int >= 1.
        labels: int array (n,) in the order of `records()`, or None where only reading everything would tell.

    Attributes:
        name, class_names (tuple), num_examples, labels: as given.
        num_ignored: int, files that lay beside the images and are none. 0 except for folders.
        skipped: tuple of (path, reason), images left out because they cannot be read. Where the held-out part was
            split off a folder, both parts carry the whole folder's `num_ignored` and `skipped`.

    Raises:
        ValueError: if the set is empty.

    Example:
        >>> open_dataset("digits").test.labels.shape
        (360,)
    """

    def __init__(self, name, class_names, num_examples, labels=None):
        if num_examples < 1:
            raise ValueError(f"num_examples of {name!r} must be at least 1, received {num_examples}.")
        self.name = name
        self.class_names = tuple(class_names)
        self.num_examples = int(num_examples)
        self.labels = None if labels is None else np.asarray(labels, "int32")
        self.num_ignored = 0
        self.skipped = ()

    def __repr__(self):
        return f"{type(self).__name__}({self.name!r}, {self.num_examples} examples, {len(self.class_names)} classes)"

    def records(self):
        """The n records, a finite `tf.data.Dataset` in a fixed order."""
        raise NotImplementedError(f"{type(self).__name__} must define records().")

    def shuffled_records(self, seed, start):
        """Records in training order from global index `start` on, an endless `tf.data.Dataset`.

        Every epoch is a new order of all n records and depends on `seed` and the epoch alone.
        """
        raise NotImplementedError(f"{type(self).__name__} must define shuffled_records().")

    def image(self, record):
        """The pixels of a record: uint8 (height, width, 3), decoded as Pillow would."""
        raise NotImplementedError(f"{type(self).__name__} must define image().")

    def window(self, record, draw):
        """Part of a record's pixels; `draw` maps the int32 shape (3,) to int32 (top, left, height, width)."""
        return cut_window(self.image(record), draw)


class IndexedSet(ImageSet):
    """A set whose records can be looked up by index.

    Args:
        name, class_names: as in `ImageSet`.
        labels: int array (n,).
        columns: dict of str -> array (n, ...), what a record holds besides its label.
    """

    def __init__(self, name, class_names, labels, columns):
        super().__init__(name, class_names, len(labels), labels)
        self._columns = {**columns, "label": self.labels}

    def _lookup(self):
        # Tensors are made here and not on opening: initialising a TPU drops the tensors that exist by then.
        columns = {name: tf.constant(column) for name, column in self._columns.items()}
        return lambda index: {name: column[index] for name, column in columns.items()}

    def records(self):
        return tf.data.Dataset.range(self.num_examples).map(self._lookup())

    def shuffled_records(self, seed, start):
        n = self.num_examples

        def order(epoch):
            # Sorts n random numbers. tf.random.experimental.index_shuffle would need no sort, but takes its seeds
            # modulo 256, so that epochs repeat.
            key = tf.stack([tf.constant(seed, tf.int64), epoch])
            return tf.data.Dataset.from_tensor_slices(
                tf.random.experimental.stateless_shuffle(tf.range(n, dtype=tf.int64), key, alg="philox")
            )

        epochs = tf.data.Dataset.range(start // n, FOREVER)
        return epochs.flat_map(order).skip(start % n).map(self._lookup())


class PixelSet(IndexedSet):
    """Images in memory, all of one size.

    Args:
        name, class_names, labels: as in `IndexedSet`.
        images: uint8 array (n, height, width, 3).

    Example:
        >>> PixelSet("noise", ("a", "b"), np.zeros((2, 5, 7, 3), "uint8"), [0, 1]).num_examples
        2
    """

    def __init__(self, name, class_names, images, labels):
        super().__init__(name, class_names, labels, {"image": images})

    def image(self, record):
        return record["image"]


class FileSet(IndexedSet):
    """Image files.

    Args:
        name, class_names, labels: as in `IndexedSet`.
        paths: sequence of n str.
        needs_pillow: bool array (n,): False where TensorFlow's JPEG decoder gives the pixels that Pillow gives.
            It must be right: `folder.check_images` finds out.

    Example:
        >>> FileSet("two", ("a", "b"), [0, 1], ["a/1.jpg", "b/2.png"], [False, True]).num_examples
        2
    """

    def __init__(self, name, class_names, labels, paths, needs_pillow):
        needs_pillow = np.asarray(needs_pillow, bool)
        # Bytes, because a file name need not be valid UTF-8.
        columns = {"path": np.array([os.fsencode(path) for path in paths], object), "needs_pillow": needs_pillow}
        super().__init__(name, class_names, labels, columns)
        self.paths = tuple(str(path) for path in paths)
        self._some_need_pillow, self._all_need_pillow = bool(needs_pillow.any()), bool(needs_pillow.all())

    def image(self, record):
        encoded = tf.io.read_file(record["path"])
        return self._choose(record, lambda: pillow_image(encoded), lambda: decode_jpeg(encoded))

    def window(self, record, draw):
        encoded = tf.io.read_file(record["path"])
        return self._choose(
            record, lambda: cut_window(pillow_image(encoded), draw), lambda: decode_jpeg_window(encoded, draw)
        )

    def _choose(self, record, from_pillow, from_jpeg):
        if self._all_need_pillow:
            return from_pillow()
        if not self._some_need_pillow:
            return from_jpeg()
        return tf.cond(record["needs_pillow"], from_pillow, from_jpeg)


class StreamSet(ImageSet):
    """Records that are read in one order only: encoded images with labels.

    Training order: each epoch passes through a shuffle buffer whose seed is derived from (seed, epoch). Starting
    in the middle of an epoch reads the records before it, without decoding them.

    Args:
        name, class_names, num_examples: as in `ImageSet`.
        make_records: function without arguments that returns a finite `tf.data.Dataset` of dicts with `image`
            (scalar string, an encoded JPEG, PNG, GIF or BMP) and `label` (integer), n of them, always in the same
            order.
        shuffle_buffer: int >= 1, records held in memory for shuffling. Default 10,000.

    Raises:
        ValueError: if `shuffle_buffer` is below 1.
        tf.errors.InvalidArgumentError: while reading, for a label outside the classes.
    """

    def __init__(self, name, class_names, num_examples, make_records, shuffle_buffer=10_000):
        super().__init__(name, class_names, num_examples)
        if shuffle_buffer < 1:
            raise ValueError(f"shuffle_buffer must be at least 1, received {shuffle_buffer}.")
        self._make_records, self._shuffle_buffer = make_records, shuffle_buffer

    def records(self):
        classes, name = len(self.class_names), self.name

        def checked(record):
            label = tf.cast(record["label"], tf.int32)
            message = f"labels of {name} must be in 0...{classes - 1}"
            in_range = tf.debugging.Assert((label >= 0) & (label < classes), [message, label])
            with tf.control_dependencies([in_range]):
                return {"image": record["image"], "label": tf.identity(label)}

        return self._make_records().map(checked).apply(tf.data.experimental.assert_cardinality(self.num_examples))

    def shuffled_records(self, seed, start):
        records, n = self.records(), self.num_examples

        def order(epoch):
            pair = tf.stack([tf.constant(seed, tf.int64), epoch])
            return _shuffle(records, min(self._shuffle_buffer, n), tf.random.fold_in(pair, n))

        return tf.data.Dataset.range(start // n, FOREVER).flat_map(order).skip(start % n)

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


@dataclass(frozen=True)
class DatasetSplits:
    """What `open_dataset` returns.

    Attributes:
        train, test: `ImageSet`s with the same classes.
        class_names: tuple of str.
        name: str, the `spec` that was opened.
    """

    train: ImageSet
    test: ImageSet
    class_names: tuple
    name: str
