"""The 19 tasks of VTAB (Zhai et al., arXiv 1910.04867) as data sets: TFDS names, labels and how some are derived.

Bins, groups of values and parts are those of the benchmark's code, google-research/task_adaptation, commit d2a72ed
(`task_adaptation/data/*.py`, `scripts/run_all_tasks.sh`). A task's 1,000 training images are the first 800 of its
training part and the first 200 of its validation part, as they are stored (TFDS shuffles before it stores).
`docs/paper-settings.md` says what of that could not be confirmed.
"""

from collections.abc import Callable
from dataclasses import dataclass

GROUPS = ("natural", "specialised", "structured")


@dataclass(frozen=True)
class Task:
    """A task.

    Attributes:
        group: one of `GROUPS`.
        dataset: str, TFDS name with its configuration.
        classes: int, K.
        features: what TFDS has to decode besides the image, as `tfds.decode.PartialDecoding` takes it.
        label: function of a record's features that returns an int tensor (), the label.
        scale: int, what pixels are multiplied by; dsprites stores 0 and 1.
    """

    group: str
    dataset: str
    classes: int
    features: dict | None = None
    label: Callable | None = None
    scale: int = 1


def clevr_count(record):
    """Number of objects, 3...10, from 0 on (task_adaptation: clevr.py, count_all)."""
    from vitkeras._tensorflow import tf

    return tf.shape(record["objects"]["size"])[0] - 3


def clevr_distance(record):
    """Distance of the closest object in six bins (task_adaptation: clevr.py, closest_object_distance)."""
    from vitkeras._tensorflow import tf

    return interval(tf.reduce_min(record["objects"]["pixel_coords"][:, 2]), (0.0, 8.0, 8.5, 9.0, 9.5, 10.0))


def kitti_distance(record):
    """Distance of the closest car, van or truck in four bins; the last one: there is none.

    The types below 3 are those three in TFDS' order (task_adaptation: kitti.py, closest_vehicle_distance).
    """
    from vitkeras._tensorflow import tf

    distances = tf.boolean_mask(record["objects"]["location"][:, 2], record["objects"]["type"] < 3)
    return interval(tf.reduce_min(tf.concat([distances, [1000.0]], axis=0)), (-100.0, 8.0, 20.0, 999.0))


def interval(value, starts):
    """int32 (), the last of the ascending `starts` that is below `value`; 0 if none is."""
    from vitkeras._tensorflow import tf

    return tf.maximum(tf.reduce_sum(tf.cast(value > tf.constant(starts), tf.int32)) - 1, 0)


def grouped(feature, values, groups):
    """A function of a record that puts `values` equal steps of a feature into fewer `groups`."""

    def label(record):
        from vitkeras._tensorflow import tf

        return tf.cast(record[feature], tf.int32) * groups // values

    return label


def _clevr(label, classes, *features):
    return Task("structured", "clevr", classes, {"objects": set(features)}, label)


# dsprites.py groups neighbouring values by float division, which is the same as here for integers.
def _dsprites(feature, values):
    return Task("structured", "dsprites", 16, {feature: True}, grouped(feature, values, 16), scale=255)


def _smallnorb(feature, values):
    return Task("structured", "smallnorb", values, {feature: True}, grouped(feature, values, values))


TASKS = {
    "caltech101": Task("natural", "caltech101", 102),
    "cifar100": Task("natural", "cifar100", 100),
    "dtd": Task("natural", "dtd", 47),
    "flowers102": Task("natural", "oxford_flowers102", 102),
    "pets": Task("natural", "oxford_iiit_pet", 37),
    "sun397": Task("natural", "sun397", 397),
    "svhn": Task("natural", "svhn_cropped", 10),
    "patch_camelyon": Task("specialised", "patch_camelyon", 2),
    "eurosat": Task("specialised", "eurosat/rgb", 10),
    "resisc45": Task("specialised", "resisc45", 45),
    "retinopathy": Task("specialised", "diabetic_retinopathy_detection/btgraham-300", 5),
    "clevr_count": _clevr(clevr_count, 8, "size"),
    "clevr_distance": _clevr(clevr_distance, 6, "pixel_coords"),
    "dmlab": Task("structured", "dmlab", 6),
    "kitti_distance": Task("structured", "kitti", 4, {"objects": {"location", "type"}}, kitti_distance),
    "dsprites_location": _dsprites("label_x_position", 32),
    "dsprites_orientation": _dsprites("label_orientation", 40),
    "smallnorb_azimuth": _smallnorb("label_azimuth", 18),
    "smallnorb_elevation": _smallnorb("label_elevation", 9),
}
TRAIN, VAL = 800, 200  # of VTAB-1k


def _cut(*borders, test="test"):
    """Parts of "train", cut at per cents, and a split for tests, unless they are the last of those parts."""
    cuts = [("train", *pair) for pair in zip((0, *borders), (*borders, 100))]
    return (*cuts, (test, 0, 100))[:3]


_OWN = (("train", 0, 100), ("validation", 0, 100), ("test", 0, 100))
# Data set -> its training, validation and test part: a split, and from where to where of it in per cent.
PARTS = {
    "caltech101": _cut(90),
    "cifar100": _cut(90),
    "clevr": _cut(90, test="validation"),  # TFDS' "test" has no labels
    "diabetic_retinopathy_detection/btgraham-300": _OWN,
    "dmlab": _OWN,
    "dsprites": _cut(80, 90),
    "dtd": _OWN,
    "eurosat/rgb": _cut(60, 80),
    "kitti": _OWN,
    "oxford_flowers102": _OWN,
    "oxford_iiit_pet": _cut(80),
    "patch_camelyon": _OWN,
    "resisc45": _cut(60, 80),
    "smallnorb": (("train", 0, 100), ("test", 0, 50), ("test", 50, 100)),
    "sun397": _OWN,
    "svhn_cropped": _cut(90),
}


class Unavailable(Exception):
    """A task's data set is not prepared and can't be; the message says why."""


def open_task(name):
    """Opens a task's data.

    Args:
        name: str, key of `TASKS`.

    Returns:
        `vitkeras.data.DatasetSplits`. `train` begins with the benchmark's 1,000 images, 800 of the training part and
        200 of the validation part; what is left of both comes after them.

    Raises:
        Unavailable: if TFDS can't prepare the set here.
        ImportError: if tensorflow-datasets is missing.
    """
    from vitkeras._optional import require
    from vitkeras.data import DatasetSplits

    tfds = require("tensorflow_datasets", "tensorflow-datasets", f"task {name} of VTAB")
    downloads = require("tensorflow_datasets.core.download.util", "tensorflow-datasets", f"task {name} of VTAB")
    task = TASKS[name]
    # AssertionError: a set that has to be downloaded by hand.
    unprepared = (OSError, AssertionError, ValueError, downloads.DownloadError)
    unprepared += (tfds.core.registered.DatasetNotFoundError,)
    try:
        builder = tfds.builder(task.dataset)
        builder.download_and_prepare()
    except ImportError as error:
        raise Unavailable(f"tfds:{task.dataset} (TFDS needs one more package for it: {error})") from error
    except unprepared as error:
        reason = str(error).strip() or type(error).__name__
        raise Unavailable(f"tfds:{task.dataset} ({reason.splitlines()[0]})") from error
    train, val, test = (_range(builder, *part) for part in PARTS[task.dataset])
    borders = ((train, 0, TRAIN), (val, 0, VAL), (train, TRAIN, None), (val, VAL, None))
    ranges = [part for (split, numbers), start, stop in borders if (part := (split, numbers[start:stop]))[1]]
    class_names = tuple(f"{name} {k}" for k in range(task.classes))
    sets = (
        _stream(tfds, builder, task, parts, f"{name} ({kind})", class_names)
        for kind, parts in (("train", ranges), ("test", [test]))
    )
    return DatasetSplits(*sets, class_names, f"vtab:{name}")


def _range(builder, split, start, stop):
    """(split, range of the records' numbers in it) of a part in per cent."""
    count = builder.info.splits[split].num_examples
    return split, range(count * start // 100, count * stop // 100)


def _stream(tfds, builder, task, ranges, name, class_names):
    """The records of some (split, range) pairs, one after the other."""
    from vitkeras.data.stream_set import StreamSet

    class ScaledSet(StreamSet):
        """Pixels that are stored as 0 and 1."""

        def image(self, record):
            return super().image(record) * task.scale

        def window(self, record, draw):
            from vitkeras.data.images import cut_window

            return cut_window(self.image(record), draw)

    features = {"image": True, **({"label": True} if task.label is None else task.features)}
    decoders = tfds.decode.PartialDecoding(features, decoders={"image": tfds.decode.SkipDecoding()})

    def read(split, numbers):
        part = f"{split}[{numbers.start}:{numbers.stop}]"
        # One file after the other: several at a time would mix them up, each slice in another way.
        config = tfds.ReadConfig(try_autocache=False, interleave_cycle_length=1)
        records = builder.as_dataset(split=part, shuffle_files=False, decoders=decoders, read_config=config)
        if task.label is None:
            return records
        return records.map(lambda record: {"image": record["image"], "label": task.label(record)})

    def make_records(start, stop):
        records, before = None, 0
        for split, numbers in ranges:
            own = numbers[max(start - before, 0) : max(stop - before, 0)]
            if own:
                records = read(split, own) if records is None else records.concatenate(read(split, own))
            before += len(numbers)
        return records

    count = sum(len(numbers) for _, numbers in ranges)
    return (StreamSet if task.scale == 1 else ScaledSet)(name, class_names, count, make_records)
