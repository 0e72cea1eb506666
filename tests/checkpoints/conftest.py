"""No test here reaches the network or the user's cache."""

import keras
import numpy as np
import pytest

import vitkeras


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    """Keras' cache folder, empty, with downloads refused."""

    def refuse(*_, origin=None, **__):
        raise AssertionError(f"a test tried to download {origin}")

    monkeypatch.setattr(keras.utils, "get_file", refuse)
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "keras_home"))
    return tmp_path / "keras_home"


@pytest.fixture
def arrays(golden):
    """A complete file: two layers of width 48, 32 x 32 pixels, 7 classes."""
    return golden("vit_token_32x32")


@pytest.fixture
def save(tmp_path):
    """`save(arrays, name)` -> path of an .npz file."""

    def save(arrays, name="weights.npz", writer=np.savez):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "wb") as file:
            writer(file, **arrays)
        return path

    return save


@pytest.fixture
def make():
    """The model that fits `arrays`, or a like one."""

    def make(image=(32, 32), **arguments):
        arguments = {**dict(classes=7, classifier_activation=None), **arguments}
        return vitkeras.VisionTransformer((*image, 3), 16, 2, 48, 3, 96, **arguments)

    return make


@pytest.fixture
def snapshot():
    """`snapshot(model)` -> its weights as bytes, to prove that nothing moved."""

    def snapshot(model):
        return {w.path: np.asarray(keras.ops.convert_to_numpy(w)).tobytes() for w in model.weights}

    return snapshot
