"""From a short text to a training part and a held-out part."""

import numbers
import re
from dataclasses import replace

from vitkeras._data_sources import LISTED
from vitkeras.data.csv_list import open_csv
from vitkeras.data.digits import open_digits
from vitkeras.data.folder import open_folder
from vitkeras.data.mock import open_mock
from vitkeras.data.tfds_source import open_tfds
from vitkeras.data.tfrecord_source import open_tfrecord

BAD_IMAGE_RULES = ("refuse", "skip")


def open_dataset(spec, on_bad_image="refuse", test_fraction=0.2, seed=0, dev_fraction=0.0, limit=None):
    """Opens a set of labelled images.

    Sources:
        * `folder:PATH`: `PATH/train/CLASS/*` with `PATH/test/CLASS/*` (or `val`, `validation`), or one of
          `PATH/train/CLASS/*` and `PATH/CLASS/*` alone, from which a stratified part is held out. Image files end
          in jpg, jpeg, png, bmp, gif, webp, tif or tiff, in any case; hidden files, other files and deeper folders
          are left out and counted in `ImageSet.num_ignored`. Every image is decoded once on opening. Greyscale,
          palette, transparent (alpha is dropped), CMYK and 16-bit files (scaled to 8 bits) all become RGB; of
          files with several frames the first is used. The EXIF orientation is ignored, as the loaders of this
          field do: turn such photos upright beforehand.
        * `csv:PATH`: a list of images with a header line, columns `path`, `label` and perhaps `split` (train, test,
          val or validation). Paths start at the list's folder; class names are sorted, or those of a `classes.txt`
          beside it. Every row that cannot be used is named by its line; images are treated as those of folders.
        * `tfds:NAME`: a TensorFlow Datasets name with `image` and `label` features, prepared (and downloaded)
          where TFDS keeps its data; `TFDS_DATA_DIR` moves that. The held-out part is `test`, else `validation`,
          else the last records of `train`. `tfds:NAME?label=KEY` takes another feature with classes as label, and so
          does `image`; `train` and `test` name splits in TFDS' notation: `?train=train[:80%]&test=train[80%:]`.
        * `tfrecord:GLOB`: files of `tf.train.Example`s in ImageNet's usual layout, `image/encoded`,
          `image/class/label` and perhaps `image/class/text`. Class names come from `classes.txt` or `labels.txt`
          beside them, else from the texts. Files named test*, val* or validation* beside train* are held out, else
          the last records. All records are read once on opening, to count them and to check labels and images; those
          that cannot be read are named by file and place. Options after a question mark, `tfrecord:GLOB?first=1`:
          `image`, `label`, `text` (features), `first` (label of the first class), `classes` (names file), `test`
          (glob of held-out files), `check=false` (leaves the images undecoded on opening).
        * `digits`: the 1,797 handwritten digits that come with scikit-learn, 8x8 pixels, with a fixed stratified
          split of 1,437 and 360. No download.
        * `mock:HxWxK`: 64 and 16 made-up images of H x W pixels and K classes, always the same, to try a recipe out.

    Args:
        spec: str, one of the sources.
        on_bad_image: "refuse" (default): a folder or list with an unreadable or truncated image is an error that names
            it. "skip": such images are left out, with one warning that names and counts them.
        test_fraction: float in (0, 1), the part that is held out of a set without a held-out part. Default 0.2. None
            holds nothing out: `train` and `test` of such a set are both the whole of it, to look through rather than to
            train on, and a folder or list may be of one class.
        seed: int >= 0, picks the images that are held out or taken. Default 0.
        dev_fraction: float in [0, 1), the part of the training images that `splits.dev` gets, to choose settings
            with; `splits.train_without_dev` is the rest and `splits.train` stays whole. Stratified where labels are
            known without reading every record, else the last records; with `limit`, the end of the images taken.
            Default 0, no such part.
        limit: int >= 2, train with so many images only, as VTAB does: with `limit=1000, dev_fraction=0.2`,
            `splits.train_without_dev` has 800 and `splits.dev` 200. The first ones of an order that `seed` makes;
            of records in a stored order (TFDS) the first ones stored. Classes are not balanced. Default None.

    Returns:
        `DatasetSplits(train, test, class_names, name, dev, train_without_dev)`.

    Raises:
        ValueError: if the source is unknown, a folder is missing, empty, of one class, has classes in its held-out
            part that training lacks, or has images that cannot be read; or if a TFDS name is unknown or is not
            image classification.
        ImportError: if a package for the source is missing; the message names the extra to install.

    Example:
        >>> splits = open_dataset("digits")
        >>> splits.train.num_examples, splits.test.num_examples, splits.class_names[:3]
        (1437, 360, ('0', '1', '2'))
    """
    if on_bad_image not in BAD_IMAGE_RULES:
        raise ValueError(f"on_bad_image must be 'refuse' or 'skip', received {on_bad_image!r}.")
    if test_fraction is not None and (not isinstance(test_fraction, numbers.Real) or not 0 < test_fraction < 1):
        raise ValueError(f"test_fraction must be between 0 and 1, both excluded, received {test_fraction!r}.")
    if not isinstance(seed, numbers.Integral) or seed < 0:
        raise ValueError(f"seed must be an integer >= 0, received {seed!r}.")
    if not isinstance(dev_fraction, numbers.Real) or not 0 <= dev_fraction < 1:
        raise ValueError(f"dev_fraction must be at least 0 and below 1, received {dev_fraction!r}.")
    if limit is not None and (not isinstance(limit, numbers.Integral) or limit < 2):
        raise ValueError(f"limit must be an integer >= 2 or None, received {limit!r}.")
    splits = replace(_open(spec, on_bad_image, test_fraction, seed), name=spec)
    train = splits.train
    if limit is not None:
        if limit > train.num_examples:
            raise ValueError(f"limit must be at most the {train.num_examples} training images, received {limit}.")
        train = train.first(limit, seed)
    if not dev_fraction:
        return replace(splits, train=train, train_without_dev=train)
    rest, dev = train.hold_out(dev_fraction, seed, stratified=limit is None)
    return replace(splits, train=train, dev=dev, train_without_dev=rest)


def _open(spec, on_bad_image, test_fraction, seed):
    scheme, colon, rest = spec.partition(":") if isinstance(spec, str) else ("", "", "")
    if scheme == "digits" and not colon:
        return open_digits()
    if scheme == "folder" and rest:
        return open_folder(rest, on_bad_image, test_fraction, seed)
    if scheme == "csv" and rest:
        return open_csv(rest, on_bad_image, test_fraction, seed)
    if scheme == "tfds" and rest:
        name, options = _with_options(rest)
        return open_tfds(name, test_fraction, options)
    if scheme == "tfrecord" and rest:
        return open_tfrecord(*_with_options(rest), on_bad_image, test_fraction)
    if scheme == "mock" and rest:
        return open_mock(rest)
    raise ValueError(f"data must be {LISTED}, received {spec!r}.")


def _with_options(text):
    """("PATH", {"a": "b"}) of "PATH?a=b&c=d"; a question mark without options after it belongs to the path."""
    match = re.fullmatch(r"(.+?)\?(\w+=[^&?]*(?:&\w+=[^&?]*)*)", text)
    if match is None:
        return text, {}
    return match[1], dict(pair.split("=", 1) for pair in match[2].split("&"))
