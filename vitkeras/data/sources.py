"""From a short text to a training part and a held-out part."""

import numbers

from vitkeras.data.digits import open_digits
from vitkeras.data.folder import open_folder
from vitkeras.data.tfds_source import open_tfds

BAD_IMAGE_RULES = ("refuse", "skip")


def open_dataset(spec, on_bad_image="refuse", test_fraction=0.2, seed=0):
    """Opens a set of labelled images.

    Sources:
        * `folder:PATH`: `PATH/train/CLASS/*` with `PATH/test/CLASS/*` (or `val`, `validation`), or one of
          `PATH/train/CLASS/*` and `PATH/CLASS/*` alone, from which a stratified part is held out. Image files end
          in jpg, jpeg, png, bmp, gif, webp, tif or tiff, in any case; hidden files, other files and deeper folders
          are left out and counted in `ImageSet.num_ignored`. Every image is decoded once on opening. Greyscale,
          palette, transparent (alpha is dropped), CMYK and 16-bit files (scaled to 8 bits) all become RGB; of
          files with several frames the first is used. The EXIF orientation is ignored, as the loaders of this
          field do: turn such photos upright beforehand.
        * `tfds:NAME`: a TensorFlow Datasets name with `image` and `label` features, prepared (and downloaded)
          where TFDS keeps its data; `TFDS_DATA_DIR` moves that. The held-out part is `test`, else `validation`,
          else the last records of `train`.
        * `digits`: the 1,797 handwritten digits that come with scikit-learn, 8x8 pixels, with a fixed stratified
          split of 1,437 and 360. No download.

    Args:
        spec: str, one of the sources.
        on_bad_image: "refuse" (default): a folder with an unreadable or truncated image is an error that names
            it. "skip": such images are left out, with one warning that names and counts them.
        test_fraction: float in (0, 1), the part that is held out of a set without a held-out part. Default 0.2.
        seed: int >= 0, picks the images that are held out of a folder. Default 0.

    Returns:
        `DatasetSplits(train, test, class_names, name)`.

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
    if not isinstance(test_fraction, numbers.Real) or not 0 < test_fraction < 1:
        raise ValueError(f"test_fraction must be between 0 and 1, both excluded, received {test_fraction!r}.")
    if not isinstance(seed, numbers.Integral) or seed < 0:
        raise ValueError(f"seed must be an integer >= 0, received {seed!r}.")
    scheme, colon, rest = spec.partition(":") if isinstance(spec, str) else ("", "", "")
    if scheme == "digits" and not colon:
        return open_digits()
    if scheme == "folder" and rest:
        return open_folder(rest, on_bad_image, test_fraction, seed)
    if scheme == "tfds" and rest:
        return open_tfds(rest, test_fraction)
    raise ValueError(f"data must be folder:PATH, tfds:NAME or digits, received {spec!r}.")
