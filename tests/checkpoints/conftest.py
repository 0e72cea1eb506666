"""No test here reaches the network or the user's cache."""

import re
import urllib.request

import keras
import numpy as np
import pytest
from safetensors_writer import safetensors_bytes

import vitkeras


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    """Keras' cache folder, empty, with downloads refused."""

    def refuse(request, **_):
        raise AssertionError(f"a test tried to download {request.full_url}")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
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


@pytest.fixture
def save_safetensors(tmp_path):
    """`save_safetensors(arrays, name)` -> path of a .safetensors file, written by hand as the format asks for."""

    def save(arrays, name="model.safetensors", kinds=None):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(safetensors_bytes(arrays, kinds))
        return path

    return save


@pytest.fixture
def weights_of():
    """`weights_of(model)` -> {weight path without the model's own numbering: array}."""

    def weights_of(model):
        return [np.asarray(keras.ops.convert_to_numpy(w)) for w in model.weights]

    return weights_of


@pytest.fixture
def refused(make, snapshot):
    """`refused(path, message)`: the loader raises ValueError with that text, and the model keeps every bit."""

    def refused(path, message, model=None, error=ValueError, **arguments):
        model = model or make()
        before = snapshot(model)
        with pytest.raises(error, match=re.escape(message)) as caught:
            vitkeras.load_checkpoint(model, path, **arguments)
        assert snapshot(model) == before
        return str(caught.value)

    return refused
