"""The handwritten digits that come with scikit-learn."""

import numpy as np

from vitkeras._optional import require
from vitkeras.data.image_set import DatasetSplits, PixelSet
from vitkeras.data.split import stratified_split

_TEST_EXAMPLES = 360


def open_digits():
    """Opens scikit-learn's 1,797 digits: 8x8 pixels, grey levels 0...16 scaled to 0...255, three equal channels.

    Returns:
        `DatasetSplits` with 1,437 and 360 images; the split is fixed and stratified.

    Raises:
        ImportError: if scikit-learn is missing.
        RuntimeError: if it holds other than 1,797 digits.

    Example:
        >>> open_digits().train.num_examples
        1437
    """
    bunch = require("sklearn.datasets", "scikit-learn", "data digits").load_digits()
    grey = np.rint(bunch.images * (255 / 16)).astype("uint8")  # (N, 8, 8)
    if len(grey) != 1797:
        raise RuntimeError(f"scikit-learn's digits must be 1797 images, received {len(grey)}.")
    images = np.repeat(grey[..., None], 3, axis=-1)  # (N, 8, 8, 3)
    names = tuple(str(name) for name in bunch.target_names)
    parts = stratified_split(bunch.target, _TEST_EXAMPLES / len(grey))
    train, test = (
        PixelSet(f"digits/{part}", names, images[chosen], bunch.target[chosen])
        for part, chosen in zip(("train", "test"), parts)
    )
    return DatasetSplits(train, test, names, "digits")
