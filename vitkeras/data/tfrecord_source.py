"""TFRecord files of `tf.train.Example`s, in the layout that ImageNet is kept in."""

import os
import re
import sys
from dataclasses import dataclass

import numpy as np
from google.protobuf.message import DecodeError

from vitkeras._optional import require
from vitkeras._tensorflow import tf
from vitkeras.data.image_set import DatasetSplits
from vitkeras.data.images import stored_fault
from vitkeras.data.listing import report_bad, some
from vitkeras.data.stream_set import StreamSet

OPTIONS = {
    "image": "image/encoded",
    "label": "image/class/label",
    "text": "image/class/text",
    "first": "0",
    "classes": None,
    "test": None,
    "check": "true",
}
NAMES_FILES = ("classes.txt", "labels.txt")
_HELD_OUT = ("test", "val", "validation")
# Files read side by side, and records from each in turn: fixed, since they make the order of the records.
_CYCLE, _BLOCK = 16, 16


@dataclass(frozen=True)
class _Layout:
    """Where an example keeps what; `first` is the label of the first class."""

    image: str
    label: str
    text: str
    first: int


def open_tfrecord(pattern, options, on_bad_image="refuse", test_fraction=0.2):
    """Opens TFRecord files, reading every record once: to count, to check labels and images and to find names.

    Args:
        pattern: str, a glob, `~` and what `tf.io.gfile` reads (`gs://...`) allowed.
        options: dict of str, any of `OPTIONS`: the features `image`, `label` and `text`; `first`, the label of the
            first class (1 where 0 means background); `classes`, a file with a class name a line; `test`, the glob of
            the held-out files; `check=false` leaves the images undecoded.
        on_bad_image, test_fraction: as in `open_dataset`.

    Returns:
        `DatasetSplits` of `StreamSet`s. Without `test`, files named test*, val* or validation* beside train* are
        held out, else the last records.

    Raises:
        ValueError: for no such file, a damaged one, a feature that is missing, labels or images that cannot be used.

    Example:
        >>> open_tfrecord("imagenet/*-of-*", {"first": "1"})                 # doctest: +SKIP
    """
    spec = f"tfrecord:{pattern}"
    given = {**OPTIONS, **_known(spec, options)}
    if not given["first"].isdigit() or given["check"] not in ("true", "false"):
        name = "check" if given["first"].isdigit() else "first"
        rule = "true or false" if name == "check" else "an integer >= 0"
        raise ValueError(f"{name} of data {spec} must be {rule}, received {given[name]!r}.")
    layout = _Layout(given["image"], given["label"], given["text"], int(given["first"]))
    train_files = _files(spec, pattern)
    if given["test"]:
        test_files = _files(spec, given["test"])
        train_files = [name for name in train_files if name not in set(test_files)]
    else:
        test_files = [name for name in train_files if _starts(name, _HELD_OUT)]
        if test_files and len(test_files) < len(train_files):
            train_files = [name for name in train_files if _starts(name, ("train",))]
        else:
            test_files = []
    if not train_files:
        raise ValueError(
            f"data {spec} must leave files to train on, received {some(test_files)} as held-out files only."
        )
    counted = [_Count(spec, files, layout, given["check"] == "true") for files in (train_files, test_files) if files]
    report_bad(
        f"data {spec}", [bad for one in counted for bad in one.bad], sum(one.total for one in counted), on_bad_image
    )
    class_names = _class_names(spec, given["classes"], train_files[0], counted, layout)
    sets = [one.image_set(f"{spec} ({part})", class_names) for one, part in zip(counted, ("train", "test"))]
    if not test_files:
        sets = [sets[0], sets[0]] if test_fraction is None else sets[0].hold_out(test_fraction, seed=0)
    return DatasetSplits(*sets, class_names, spec)


class _Count:
    """What reading some files once tells: `total` records, `bad` (name, reason) pairs, the `labels`, texts by label."""

    def __init__(self, spec, files, layout, check):
        self.files, self.layout = files, layout
        self.labels, self.texts, self.bad, self._bad_numbers = [], {}, [], []
        tqdm = require("tqdm", "tqdm", "data tfrecord").tqdm

        def look(file, place, record):
            image, label, text = _parse(record, layout)
            fault = tf.numpy_function(_fault, [image], tf.string) if check else tf.where(image == "", "no image", "")
            return file, place, label, text, fault

        records = _named_records(files).map(look, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        bar = tqdm(
            records.prefetch(16), "reading records", unit=" images", leave=False, disable=not sys.stderr.isatty()
        )
        number = -1
        try:
            for number, (file, place, label, text, fault) in enumerate(bar):
                record = f"{os.path.basename(file.numpy().decode())} record {int(place)}"
                if int(label) < 0:
                    received = f"none{_features(files)}" if int(label) == _NO_LABEL else int(label) + layout.first
                    raise ValueError(
                        f"{layout.label} of {record} must be an integer >= {layout.first}, received {received}."
                    )
                self.labels.append(int(label))
                if text.numpy():
                    self.texts.setdefault(int(label), text.numpy().decode("utf-8", "replace"))
                if fault.numpy():
                    self.bad.append((record, fault.numpy().decode()))
                    self._bad_numbers.append(number)
        except tf.errors.DataLossError as error:
            where = (
                f"is damaged behind record {number}" if number >= 0 else "is no TFRecord file, or damaged at its start"
            )
            raise ValueError(f"data {spec} {where} ({_reason(error.message)}).") from error
        # UnicodeDecodeError: TensorFlow puts a record that it can't parse into its message.
        except (tf.errors.InvalidArgumentError, UnicodeDecodeError) as error:
            reason = f" ({_reason(error.message)})" if hasattr(error, "message") else ""
            raise ValueError(
                f"data {spec} must hold tf.train.Examples with {layout.image} of bytes and {layout.label} of integers, "
                f"received others in record {number + 1}{_features(files)}{reason}."
            ) from error
        self.total = number + 1
        if self.total == len(self.bad):
            raise ValueError(
                f"data {spec} must hold images that can be read as {layout.image}, received none in "
                f"{some(files)}{_features(files)}."
            )

    def image_set(self, name, class_names):
        """The readable records."""
        files, layout, bad = self.files, self.layout, np.array(self._bad_numbers, "int64")

        def make_records(start, stop):
            records = _named_records(files)
            if bad.size:  # found by number: a test on every record would decode it
                numbered = records.enumerate()
                records = numbered.filter(lambda number, _: tf.reduce_all(number != bad)).map(lambda _, named: named)
            chosen = records.skip(start).take(stop - start)

            def parse(file, place, record):
                image, label, _ = _parse(record, layout)
                return {"image": image, "label": label}

            return chosen.map(parse, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)

        image_set = StreamSet(name, class_names, self.total - len(bad), make_records)
        image_set.skipped = tuple(self.bad)
        return image_set


_NO_LABEL = -(2**62)


def _reason(message):
    """TensorFlow's reason in a few words, without the names of its operations."""
    line = message.strip().partition("\n")[0].partition(" [Op:")[0]
    return re.sub(r"\{\{.*?\}\}\s*", "", line).rpartition("::")[2].rpartition("V2: ")[2].strip().rstrip(".")


def _features(files):
    """The first record's features, to end an error's sentence with; "" if it can't be read or has none."""
    try:
        record = next(iter(tf.data.TFRecordDataset(files[:1])), None)
        features = tf.train.Example.FromString(b"" if record is None else record.numpy()).features.feature
    except (tf.errors.OpError, DecodeError):
        return ""
    kinds = {name: (one.WhichOneof("kind") or "empty").removesuffix("_list") for name, one in sorted(features.items())}
    return f"; the first record has {some([f'{name} ({kind})' for name, kind in kinds.items()])}" if kinds else ""


def _fault(encoded):
    return (stored_fault(encoded if isinstance(encoded, bytes) else encoded.item()) or "").encode()


def _named_records(files):
    """(file, place in it, record) of all files, in one order on every machine."""

    def one(file):
        return tf.data.TFRecordDataset(file).enumerate().map(lambda place, record: (file, place, record))

    names = tf.data.Dataset.from_tensor_slices(files)
    return names.interleave(
        one, cycle_length=_CYCLE, block_length=_BLOCK, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
    )


def _parse(record, layout):
    """(encoded image or "", label counted from 0, text or "") of one record."""
    features = {
        layout.image: tf.io.FixedLenFeature((), tf.string, ""),
        layout.label: tf.io.FixedLenFeature((), tf.int64, _NO_LABEL + layout.first),
        layout.text: tf.io.FixedLenFeature((), tf.string, ""),
    }
    values = tf.io.parse_single_example(record, features)
    return values[layout.image], values[layout.label] - layout.first, values[layout.text]


def _known(spec, options):
    unknown = sorted(set(options) - set(OPTIONS))
    if unknown:
        raise ValueError(f"data {spec} takes the options {', '.join(OPTIONS)}, received {', '.join(unknown)}.")
    return options


def _files(spec, pattern):
    files = sorted(tf.io.gfile.glob(os.path.expanduser(pattern)))
    if not files:
        raise ValueError(f"data {spec} must name files, received {pattern!r}, which matches none.")
    return files


def _starts(file, words):
    return os.path.basename(file).lower().startswith(words)


def _class_names(spec, path, file, counted, layout):
    """From a names file, else from the records' own texts."""
    seen = {label for one in counted for label in one.labels}
    if path is None:
        beside = (os.path.join(os.path.dirname(file), name) for name in NAMES_FILES)
        path = next((name for name in beside if tf.io.gfile.exists(name)), None)
    if path is not None:
        if not tf.io.gfile.exists(os.path.expanduser(path)):
            raise ValueError(f"classes of data {spec} must be a file, received {path!r}.")
        with tf.io.gfile.GFile(os.path.expanduser(path)) as names_file:
            names = tuple(line.strip() for line in names_file.read().splitlines() if line.strip())
        source = path
    else:
        texts = {label: text for one in counted for label, text in one.texts.items()}
        names = tuple(texts.get(label, "") for label in range(max(seen) + 1))
        source = layout.text
        if not all(names):
            raise ValueError(
                f"data {spec} must have class names: {' or '.join(NAMES_FILES)} beside it, the option classes, or "
                f"{layout.text} in a record of every class; received none for label {names.index('') + layout.first}."
            )
    if max(seen) >= len(names):
        raise ValueError(
            f"labels of data {spec} must be in {layout.first}...{len(names) - 1 + layout.first}, "
            f"the classes of {source}, received {max(seen) + layout.first}."
        )
    if len(names) < 2:
        raise ValueError(f"data {spec} must have at least 2 classes, received {names}.")
    return names
