"""Image classification sets of TensorFlow Datasets."""

from dataclasses import dataclass

import numpy as np

from vitkeras._optional import require
from vitkeras.data.image_set import DatasetSplits
from vitkeras.data.stream_set import StreamSet

FILE_NAME = "file_name"  # the feature that ImageNet's sets and many others have
OPTIONS = {"image": "image", "label": "label", "train": "train", "test": None}


def open_tfds(name, test_fraction=0.2, options=None):
    """Opens (and on first use prepares) a TFDS data set with an image and a class as features.

    Args:
        name: str, as `tfds.builder` takes it: `name`, `name/config` or `name/config:version`.
        test_fraction: float in (0, 1), used where there is neither `test` nor `validation`: the last records of
            `train` are held out.
        options: dict of str, any of `OPTIONS`: names of the features `image` and `label`, and the splits `train` and
            `test` in TFDS' notation, such as `train[:800]+validation[:200]`.

    Returns:
        `DatasetSplits`. Images are decoded while reading; `ImageSet.labels` is None.

    Raises:
        ValueError: if the name is unknown, there is no `train` split, a feature is missing or is not what image
            classification needs, there are fewer than two classes, or no held-out split has labels.
        ImportError: if tensorflow-datasets is missing.

    Example:
        >>> open_tfds("cifar10").class_names[:2]                             # doctest: +SKIP
        ('airplane', 'automobile')
    """
    given = {**OPTIONS, **(options or {})}
    unknown = sorted(set(given) - set(OPTIONS))
    if unknown:
        raise ValueError(f"data tfds:{name} takes the options {', '.join(OPTIONS)}, received {', '.join(unknown)}.")
    tfds = require("tensorflow_datasets", "tensorflow-datasets", f"data tfds:{name}")
    try:
        builder = tfds.builder(name)
    except ImportError as error:
        raise ImportError(f"data tfds:{name} needs one more package, which TFDS asks for: {error}.") from error
    except (tfds.core.registered.DatasetNotFoundError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(
            f"data tfds:NAME must name a TensorFlow Datasets set, received {name!r} ({reason})."
        ) from error
    source = _Source(tfds, name, builder, given["image"], given["label"])
    class_names = source.class_names()
    builder.download_and_prepare()
    sets = _sets(source, class_names, given["train"], given["test"], test_fraction)
    return DatasetSplits(*sets, class_names, f"tfds:{name}")


def _sets(source, class_names, train, test, test_fraction):
    """The training and the held-out part."""
    name, splits = source.name, source.builder.info.splits
    if train == "train" and "train" not in splits:
        raise ValueError(f"data tfds:{name} must have a split train, received {sorted(splits)}.")
    training = source.stream(train, class_names)
    present = [test] if test else [split for split in ("test", "validation") if split in splits]
    for split in present:
        held_out = source.stream(split, class_names)
        # Competition sets publish their test images with label -1.
        first = next(iter(source.read(split).take(1)), None)
        if first is not None and int(first["label"]) >= 0:
            return training, held_out
    if present:
        raise ValueError(f"data tfds:{name} must have a held-out split with labels, received none in {present}.")
    return (training, training) if test_fraction is None else training.hold_out(test_fraction, seed=0)


@dataclass(frozen=True)
class _Source:
    """A builder, and the names of the features that are read."""

    tfds: object
    name: str
    builder: object
    image: str
    label: str

    def class_names(self):
        """Checks that the features are those of image classification."""
        tfds, name, features = self.tfds, self.name, self.builder.info.features
        missing = [key for key in (self.image, self.label) if key not in features]
        if missing:
            raise ValueError(
                f"data tfds:{name} must have features {self.image} and {self.label}, received {sorted(features)}: "
                f"{' and '.join(missing)} missing."
            )
        image, label = features[self.image], features[self.label]
        if not isinstance(image, tfds.features.Image) or np.dtype(image.np_dtype) != "uint8":
            raise ValueError(f"data tfds:{name} must have 8-bit images as feature {self.image}, received {image!r}.")
        if not isinstance(label, tfds.features.ClassLabel) or label.num_classes < 2:
            raise ValueError(
                f"data tfds:{name} must have one of at least 2 classes as feature {self.label}, received {label!r}."
            )
        return tuple(label.names)

    def stream(self, split, class_names):
        """The `StreamSet` of a split."""
        try:
            # Also right inside tfds.testing.mock_data.
            num_examples = int(self.read(split).cardinality())
        except (ValueError, AssertionError) as error:
            reason = str(error).strip().splitlines()[0]
            raise ValueError(f"data tfds:{self.name} must have a split {split!r}, received none ({reason}).") from error
        if num_examples < 0:  # unknown
            num_examples = self.builder.info.splits[split].num_examples

        def part(read, start, stop):
            if (start, stop) == (0, num_examples):
                return read(split)
            if split in self.builder.info.splits:  # a slice is read without what lies before it
                return read(f"{split}[{start}:{stop}]")
            return read(split).skip(start).take(stop - start)

        def read_names(start, stop):
            return [name.decode("utf-8", "replace") for name in part(self.names, start, stop).as_numpy_iterator()]

        return StreamSet(
            f"tfds:{self.name} ({split})",
            class_names,
            num_examples,
            lambda start, stop: part(self.read, start, stop),
            read_names=read_names if FILE_NAME in self.builder.info.features else None,
        )

    def read(self, split):
        """The records of a split in a fixed order: encoded images with labels, whatever other features there are."""
        skip = {self.image: self.tfds.decode.SkipDecoding()}
        records = self._read(split, {self.image: True, self.label: True}, skip)
        return records.map(lambda record: {"image": record[self.image], "label": record[self.label]})

    def names(self, split):
        """The file names of a split, in the order of `read`."""
        return self._read(split, {FILE_NAME: True}, {}).map(lambda record: record[FILE_NAME])

    def _read(self, split, features, decoders):
        decoders = self.tfds.decode.PartialDecoding(features, decoders=decoders)
        config = self.tfds.ReadConfig(try_autocache=False)
        return self.builder.as_dataset(split=split, shuffle_files=False, decoders=decoders, read_config=config)
