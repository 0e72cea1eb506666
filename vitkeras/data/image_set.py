"""Sets of labelled images: where the records lie, in which order training sees them, how one becomes pixels.

Legend: n examples in the set; a *record* is a dict of scalars or small tensors before decoding, with a `label`;
the *global index* of a training example counts from the first step of the first epoch and never restarts.
"""

import copy
import os
from dataclasses import dataclass

import numpy as np

from vitkeras._tensorflow import tf
from vitkeras.data.images import cut_window, decode_jpeg, decode_jpeg_window, pillow_image
from vitkeras.data.split import held_out_count, stratified_split

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

    def file_names(self):
        """Tuple of n str, the images' file names without folders in the order of `records()`; None if not known."""
        return None

    def shuffled_records(self, seed, step, share):
        """(global index, record) of a `Share`, in training order from batch `step` on, an endless `tf.data.Dataset`.

        Every epoch is a new order of all n records and depends on `seed` and the epoch alone.
        """
        raise NotImplementedError(f"{type(self).__name__} must define shuffled_records().")

    def first(self, count, seed):
        """A part of `count` examples, as a set of its own: the first ones of an order that `seed` makes."""
        raise NotImplementedError(f"{type(self).__name__} must define first().")

    def hold_out(self, fraction, seed, stratified=True):
        """Two parts, (the rest, held out), as sets of their own; `round(fraction * n)` examples are held out.

        At least one example is on each side. Where labels are known and `stratified` is asked for, every class
        keeps its share as far as whole images allow, and a class with one image stays in the rest.
        """
        raise NotImplementedError(f"{type(self).__name__} must define hold_out().")

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

    def shuffled_records(self, seed, step, share):
        n, start, lookup = self.num_examples, step * share.batch_size, self._lookup()

        def order(epoch):
            # Sorts n random numbers. tf.random.experimental.index_shuffle would need no sort, but takes its seeds
            # modulo 256, so that epochs repeat.
            key = tf.stack([tf.constant(seed, tf.int64), epoch])
            return tf.data.Dataset.from_tensor_slices(
                tf.random.experimental.stateless_shuffle(tf.range(n, dtype=tf.int64), key, alg="philox")
            )

        epochs = tf.data.Dataset.range(start // n, FOREVER)
        numbers = tf.data.Dataset.zip(tf.data.Dataset.range(start, FOREVER), epochs.flat_map(order).skip(start % n))
        return share.of_numbers(numbers, step).map(lambda index, number: (index, lookup(number)))

    def select(self, indices, note):
        """The examples at `indices` (int array) as a set of their own; `note` is added to the name."""
        part = copy.copy(self)
        part._columns = {name: column[indices] for name, column in self._columns.items()}
        part.labels, part.num_examples = part._columns["label"], len(indices)
        part.name = f"{self.name}, {note}"
        return part

    def first(self, count, seed):
        chosen = np.random.default_rng(seed).permutation(self.num_examples)[:count]
        return self.select(chosen, f"{len(chosen)} images")

    def hold_out(self, fraction, seed, stratified=True):
        n = self.num_examples
        if n < 2:
            raise ValueError(f"{self.name!r} must have at least 2 images to hold one out, received {n}.")
        if stratified:
            rest, held_out = stratified_split(self.labels, fraction, seed, keep_single=True)
        else:  # the end of the order that `first` made
            rest, held_out = np.split(np.arange(n), [n - held_out_count(n, fraction)])
        return self.select(rest, f"{len(rest)} to train on"), self.select(held_out, f"{len(held_out)} held out")


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

    @property
    def paths(self):
        """Tuple of n str."""
        return tuple(os.fsdecode(path) for path in self._columns["path"])

    def file_names(self):
        return tuple(os.path.basename(path) for path in self.paths)

    @property
    def num_for_pillow(self):
        """int, how many of the files need Pillow."""
        return int(self._columns["needs_pillow"].sum())

    def image(self, record):
        encoded = tf.io.read_file(record["path"])
        return self._choose(record, lambda: pillow_image(encoded), lambda: decode_jpeg(encoded))

    def window(self, record, draw):
        encoded = tf.io.read_file(record["path"])
        return self._choose(
            record, lambda: cut_window(pillow_image(encoded), draw), lambda: decode_jpeg_window(encoded, draw)
        )

    def _choose(self, record, from_pillow, from_jpeg):
        needs_pillow = self._columns["needs_pillow"]
        if needs_pillow.all():
            return from_pillow()
        if not needs_pillow.any():
            return from_jpeg()
        return tf.cond(record["needs_pillow"], from_pillow, from_jpeg)


@dataclass(frozen=True)
class DatasetSplits:
    """What `open_dataset` returns.

    Attributes:
        train, test: `ImageSet`s with the same classes.
        class_names: tuple of str.
        name: str, the `spec` that was opened.
        dev: `ImageSet`, the part of `train` that `dev_fraction` set apart, or None.
        train_without_dev: `ImageSet`, the rest of `train`; `train` itself where there is no `dev`.
    """

    train: ImageSet
    test: ImageSet
    class_names: tuple
    name: str
    dev: ImageSet | None = None
    train_without_dev: ImageSet | None = None

    def __post_init__(self):
        if self.train_without_dev is None:
            object.__setattr__(self, "train_without_dev", self.train)
