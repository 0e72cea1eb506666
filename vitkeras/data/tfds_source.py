"""Image classification sets of TensorFlow Datasets."""

import numpy as np

from vitkeras._optional import require
from vitkeras.data.image_set import DatasetSplits
from vitkeras.data.stream_set import StreamSet


def open_tfds(name, test_fraction=0.2):
    """Opens (and on first use prepares) a TFDS data set with `image` and `label` features.

    Args:
        name: str, as `tfds.builder` takes it: `name`, `name/config` or `name/config:version`.
        test_fraction: float in (0, 1), used where there is neither `test` nor `validation`: the last records of
            `train` are held out.

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
    tfds = require("tensorflow_datasets", "tensorflow-datasets", f"data tfds:{name}")
    try:
        builder = tfds.builder(name)
    except (tfds.core.registered.DatasetNotFoundError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(
            f"data tfds:NAME must name a TensorFlow Datasets set, received {name!r} ({reason})."
        ) from error
    class_names = _class_names(tfds, name, builder.info.features)
    builder.download_and_prepare()
    sets = _sets(tfds, name, builder, class_names, test_fraction)
    return DatasetSplits(*sets, class_names, f"tfds:{name}")


def _class_names(tfds, name, features):
    """Checks that the features are those of image classification."""
    missing = [key for key in ("image", "label") if key not in features]
    if missing:
        raise ValueError(
            f"data tfds:{name} must have features image and label, received {sorted(features)}: "
            f"{' and '.join(missing)} missing."
        )
    image, label = features["image"], features["label"]
    if not isinstance(image, tfds.features.Image) or np.dtype(image.np_dtype) != "uint8":
        raise ValueError(f"data tfds:{name} must have 8-bit images as feature image, received {image!r}.")
    if not isinstance(label, tfds.features.ClassLabel) or label.num_classes < 2:
        raise ValueError(f"data tfds:{name} must have one of at least 2 classes as feature label, received {label!r}.")
    return tuple(label.names)


def _sets(tfds, name, builder, class_names, test_fraction):
    """The training and the held-out part."""
    splits = builder.info.splits
    if "train" not in splits:
        raise ValueError(f"data tfds:{name} must have a split train, received {sorted(splits)}.")
    train = _stream(tfds, builder, "train", f"tfds:{name} (train)", class_names)
    present = [split for split in ("test", "validation") if split in splits]
    for split in present:
        # Competition sets publish their test images with label -1.
        first = next(iter(_read(tfds, builder, split).take(1)), None)
        if first is not None and int(first["label"]) >= 0:
            return train, _stream(tfds, builder, split, f"tfds:{name} ({split})", class_names)
    if present:
        raise ValueError(f"data tfds:{name} must have a held-out split with labels, received none in {present}.")
    return train.hold_out(test_fraction, seed=0)


def _stream(tfds, builder, split, name, class_names):
    num_examples = int(_read(tfds, builder, split).cardinality())  # also right inside tfds.testing.mock_data
    if num_examples < 0:  # unknown
        num_examples = builder.info.splits[split].num_examples

    def make_records(start, stop):
        # A slice is read without what lies before it.
        part = split if (start, stop) == (0, num_examples) else f"{split}[{start}:{stop}]"
        return _read(tfds, builder, part)

    return StreamSet(name, class_names, num_examples, make_records)


def _read(tfds, builder, split):
    """The records of a split in a fixed order: encoded images with labels, whatever other features there are."""
    decoders = tfds.decode.PartialDecoding(
        {"image": True, "label": True}, decoders={"image": tfds.decode.SkipDecoding()}
    )
    config = tfds.ReadConfig(try_autocache=False)
    return builder.as_dataset(split=split, shuffle_files=False, decoders=decoders, read_config=config)
