"""Image files and small sets for the tests of the input side."""

import numpy as np
import pytest
from PIL import Image

from vitkeras.data.image_set import PixelSet

HEIGHT, WIDTH = 29, 23  # distinct primes


@pytest.fixture
def picture(rng):
    """uint8 (HEIGHT, WIDTH, 3): smooth colours with some noise, so that JPEG keeps most of them."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    smooth = np.stack([y * 8, x * 10, 255 - y * 4 - x * 4], axis=-1)
    return np.clip(smooth + rng.integers(-9, 10, smooth.shape), 0, 255).astype("uint8")


@pytest.fixture
def make_folder(tmp_path, picture):
    """Function: {relative path: None for a JPEG, bytes, or PIL image} -> the folder with these files."""

    def make(files, name="set"):
        root = tmp_path / name
        root.mkdir()
        for number, (relative, content) in enumerate(files.items()):
            path = root / relative
            path.parent.mkdir(parents=True, exist_ok=True)
            if content is None:
                content = Image.fromarray(np.roll(picture, number, axis=1))
            if isinstance(content, bytes):
                path.write_bytes(content)
            else:
                content.save(path)
        return root

    return make


@pytest.fixture
def numbered():
    """13 images whose pixels say which they are: image k is 10 k everywhere; labels k % 3."""
    images = np.full((13, 7, 5, 3), 0, "uint8") + (np.arange(13, dtype="uint8") * 10)[:, None, None, None]
    return PixelSet("numbered", ("a", "b", "c"), images, np.arange(13) % 3)
