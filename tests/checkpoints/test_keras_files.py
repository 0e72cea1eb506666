"""Keras' own files as checkpoints, and what is refused before Keras opens them."""

import io
import json
import re
import zipfile

import h5py
import keras
import numpy as np
import pytest

import vitkeras


@pytest.fixture
def model(make, golden):
    return make(weights=golden.path("vit_token_32x32"), name="mine")


@pytest.fixture
def keras_file(model, tmp_path):
    model.save(tmp_path / "m.keras")
    return tmp_path / "m.keras"


@pytest.fixture
def weights_file(model, tmp_path):
    model.save_weights(tmp_path / "m.weights.h5")
    return tmp_path / "m.weights.h5"


def same(actual, expected):
    pairs = zip(actual.weights, expected.weights, strict=True)
    return all(np.array_equal(*map(keras.ops.convert_to_numpy, pair)) for pair in pairs)


def test_from_a_keras_file(keras_file, model):
    loaded = vitkeras.from_checkpoint(keras_file)
    assert loaded.name == "mine" and same(loaded, model)


def test_into_a_model(keras_file, weights_file, make, model):
    for path in (keras_file, weights_file):
        assert same(vitkeras.load_checkpoint(make(), path), model)
        assert same(make(weights=path), model)


def test_at_another_size_and_without_head(keras_file, make, model):
    larger = make(image=(48, 80), weights=keras_file)
    assert larger.get_layer("position_embedding").embedding.shape == (1, 16, 48)
    kept = make(classes=5, weights=keras_file)
    assert not keras.ops.convert_to_numpy(kept.get_layer("head").kernel).any()


def test_a_variant_takes_a_keras_file(keras_file):
    body = dict(num_layers=2, hidden_dim=48, num_heads=3, mlp_dim=96)
    assert vitkeras.ViTTi16(weights=keras_file, **body).output_shape == (None, 7)


def test_its_gelu_is_known(make, tmp_path):
    make(activation="gelu").save(tmp_path / "erf.keras")
    with pytest.warns(UserWarning, match="all-zero head"):
        assert make(weights=tmp_path / "erf.keras").get_layer("encoder_block_00").activation == "gelu"
    with pytest.raises(ValueError, match="activation must be 'gelu', that of checkpoint"):
        make(activation="gelu_tanh", weights=tmp_path / "erf.keras")


def test_weights_do_not_tell_their_configuration(weights_file):
    with pytest.raises(ValueError, match=r"build the model, then use vitkeras.load_checkpoint\(model, path\)"):
        vitkeras.from_checkpoint(weights_file)


def rewrite(path, **members):
    """The same archive with other members; None removes one."""
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    content |= {name.replace("__", "."): value for name, value in members.items()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, value in content.items():
            if value is not None:
                archive.writestr(name, value)
    return path


def config_with(path, change):
    with zipfile.ZipFile(path) as archive:
        config = json.loads(archive.read("config.json"))
    change(config)
    return rewrite(path, config__json=json.dumps(config))


def test_classes_of_other_packages_are_never_imported(keras_file):
    def change(config):
        config["config"]["layers"][1] |= {"module": "os", "class_name": "system"}

    with pytest.raises(ValueError, match="names the class 'system' of 'os'; only those of .* are loaded"):
        vitkeras.from_checkpoint(config_with(keras_file, change))


def test_lambdas_are_never_loaded(keras_file):
    def change(config):
        config["config"]["layers"][1]["config"]["function"] = {"class_name": "__lambda__", "config": {"value": "4wE="}}

    with pytest.raises(ValueError, match="names the class '__lambda__'"):
        vitkeras.from_checkpoint(config_with(keras_file, change))


def test_members_that_are_no_part_of_a_model(keras_file):
    with pytest.raises(ValueError, match="a .keras file holds .*, received 'setup.py'"):
        vitkeras.from_checkpoint(rewrite(keras_file, setup__py="print()"))


def test_a_member_that_is_too_large(keras_file, monkeypatch):
    from vitkeras.checkpoints import keras_file as module

    monkeypatch.setattr(module, "MAX_CONFIG_BYTES", 99)
    with pytest.raises(ValueError, match="must have at most 99 bytes, received"):
        vitkeras.from_checkpoint(keras_file)


@pytest.mark.parametrize("share", [0.1, 0.9])
def test_a_cut_keras_file(keras_file, share, make, snapshot):
    content = keras_file.read_bytes()
    keras_file.write_bytes(content[: int(len(content) * share)])
    model = make()
    before = snapshot(model)
    with pytest.raises(ValueError, match="is truncated or not a .keras file"):
        vitkeras.load_checkpoint(model, keras_file)
    assert snapshot(model) == before


def test_damaged_members(keras_file):
    with pytest.raises(ValueError, match="is truncated or not a .keras file"):
        vitkeras.from_checkpoint(rewrite(keras_file, config__json="{"))
    buffer = io.BytesIO()
    np.save(buffer, np.ones(3))
    with pytest.raises(ValueError, match="m.keras' is "):
        vitkeras.from_checkpoint(rewrite(keras_file, config__json=None))


@pytest.mark.parametrize("suffix", [".keras", ".weights.h5"])
def test_absent_and_empty(suffix, make, tmp_path):
    path = tmp_path / f"none{suffix}"
    with pytest.raises(FileNotFoundError, match="is not a file"):
        vitkeras.load_checkpoint(make(), path)
    path.touch()
    with pytest.raises(ValueError, match="is empty"):
        vitkeras.load_checkpoint(make(), path)


def test_weights_of_another_model(weights_file, make, refused):
    model = vitkeras.VisionTransformer((32, 32, 3), 16, 3, 48, 3, 96, classes=7)
    refused(weights_file, "it must hold 56 arrays, received 40", model)
    refused(weights_file, "does not fit the model", make(classes=5))


def test_a_cut_weights_file(weights_file, refused):
    weights_file.write_bytes(weights_file.read_bytes()[:5000])
    refused(weights_file, "is truncated or not an .h5 file (")


def test_weights_that_are_not_finite(model, tmp_path, refused):
    model.get_layer("head").bias.assign(np.full(7, np.nan))
    model.save_weights(tmp_path / "nan.weights.h5")
    refused(tmp_path / "nan.weights.h5", "'head/bias' holds values that are not finite")


def test_data_in_another_file_is_refused(weights_file, tmp_path, refused):
    (tmp_path / "secret").write_bytes(bytes(range(28)))
    with h5py.File(weights_file, "r+") as file:
        names = []
        file.visititems(lambda name, item: names.append(name) if getattr(item, "shape", None) == (7,) else None)
        (name,) = names
        del file[name]
        file.create_dataset(name, (7,), "f4", external=[(str(tmp_path / "secret"), 0, 28)])
    refused(weights_file, "keeps its data in another file")


def test_an_array_that_is_larger_than_any_weight(weights_file, refused):
    with h5py.File(weights_file, "r+") as file:
        file.create_dataset("layers/bomb", (10**9,), "f4", compression="gzip", chunks=(10**6,))
    text = refused(weights_file, "array 'layers/bomb' must have at most 36864 values, received 1000000000")
    assert re.search("it must hold 40 arrays, received 41", text)
