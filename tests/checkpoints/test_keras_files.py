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
    refused(weights_file, "it has 2 encoder blocks of width 48 and MLP dimension 96, the model has 3", model)
    refused(weights_file, "classes must be 7, the head of checkpoint", make(classes=5))


def test_a_cut_weights_file(weights_file, refused):
    weights_file.write_bytes(weights_file.read_bytes()[:5000])
    refused(weights_file, "is truncated or not an .h5 file (")


def test_weights_that_are_not_finite(model, tmp_path, refused):
    model.get_layer("head").bias.assign(np.full(7, np.nan))
    model.save_weights(tmp_path / "nan.weights.h5")
    refused(tmp_path / "nan.weights.h5", "(1 fault): 'layers/dense/vars/1' holds values that are not finite")


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
    refused(weights_file, "does not fit the model (1 fault): unexpected 'layers/bomb'.")


def change_weights(path, change):
    with h5py.File(path, "r+") as file:
        change(file["layers"])
    return path


def test_one_array_less_is_named(weights_file, refused):
    def change(group):
        del group["encoder_block_1/attention/out/vars/1"]

    refused(change_weights(weights_file, change), "(1 fault): missing 'layers/encoder_block_1/attention/out/vars/1'.")


def test_a_whole_layer_less_is_called_by_its_name(weights_file, refused):
    def change(group):
        del group["class_token"]

    refused(change_weights(weights_file, change), "(1 fault): missing 'class_token/vars/0'.")


def test_wrong_shapes_are_named(weights_file, refused):
    def change(group):
        del group["encoder_block/mlp/expand/vars/1"]
        group["encoder_block/mlp/expand/vars/1"] = np.zeros(95, "f4")

    text = "(1 fault): 'layers/encoder_block/mlp/expand/vars/1' must have shape (96,), received (95,)."
    refused(change_weights(weights_file, change), text)


@pytest.mark.parametrize("ending", [".keras", ".weights.h5"])
def test_every_kind_of_model_comes_back_bit_for_bit(ending, tmp_path):
    def vit():
        return vitkeras.VisionTransformer(
            (64, 96, 3), 2, 2, 24, 3, 40, stem_blocks=(1, 2), stem_width_factor=0.5, representation_size=7, classes=5
        )

    builders = {"hybrid": vit, "resnet": lambda: vitkeras.models.ResNet((64, 96, 3), (1, 2), 0.5, classes=5)}
    for name, build in builders.items():
        model, other = build(), build()
        rng = np.random.default_rng(len(name))
        for weight in model.weights:
            weight.assign(rng.normal(size=weight.shape))
        path = str(tmp_path / (name + ending))
        model.save(path) if ending == ".keras" else model.save_weights(path)
        assert not same(other, model)
        assert same(vitkeras.load_checkpoint(other, path), model)


def test_bfloat16_weights(make, tmp_path):
    keras.config.set_dtype_policy("bfloat16")
    try:
        model = make()
    finally:
        keras.config.set_dtype_policy("float32")
    model.get_layer("head").bias.assign(np.arange(7) + 0.5)
    model.save_weights(tmp_path / "b.weights.h5")
    with pytest.warns(UserWarning, match="all-zero head"):
        loaded = vitkeras.load_checkpoint(make(), tmp_path / "b.weights.h5")
    for actual, expected in zip(loaded.weights, model.weights, strict=True):
        as_float = keras.ops.convert_to_numpy(keras.ops.cast(expected, "float32"))
        assert np.array_equal(keras.ops.convert_to_numpy(actual), as_float)


def test_a_weights_file_at_another_size(weights_file, make):
    taller = vitkeras.load_checkpoint(make(image=(48, 80)), weights_file)
    expected = vitkeras.at_resolution(vitkeras.load_checkpoint(make(), weights_file), (48, 80))
    assert same(taller, expected)
    headless = vitkeras.load_checkpoint(make(classes=5), weights_file, load_head=False)
    assert not keras.ops.convert_to_numpy(headless.get_layer("head").kernel).any()


def of_layer(name, **fields):
    def change(config):
        layer = next(x for x in config["config"]["layers"] if x["config"]["name"] == name)
        layer["config"] |= fields

    return change


@pytest.mark.parametrize(
    "change, reason",
    [
        (
            of_layer("encoder_block_00", mlp_dim=2_000_000),
            "'encoder_block_00' mlp_dim=2000000, and the longest axis",
        ),
        (of_layer("head", units=97), "gives layer 'head' units=97, and the longest axis of its weights is 96"),
        (of_layer("position_embedding", grid_size=[10, 10]), "'position_embedding' grid_size=100, and the longest"),
        (
            of_layer("head", units=5),
            "'layers/dense/vars/0' must have shape (48, 5), received (48, 7); ",
        ),
        (of_layer("encoder_block_01", nope=5), "Unrecognized keyword arguments passed to EncoderBlock: {'nope': 5}"),
        (dict.clear, "its config.json must describe a model, received {}."),
    ],
)
def test_a_configuration_that_does_not_fit_the_weights(change, reason, keras_file):
    with pytest.raises(ValueError, match=re.escape(reason)) as caught:
        vitkeras.from_checkpoint(config_with(keras_file, change))
    text = str(caught.value)
    assert str(keras_file) in text and len(text) < 700 and "\n" not in text


def test_a_layer_that_claims_to_be_built_on_millions(keras_file):
    def change(config):
        layer = next(x for x in config["config"]["layers"] if x["config"]["name"] == "head")
        layer["build_config"] = {"input_shape": [None, 10**7]}

    with pytest.raises(ValueError, match="gives layer 'head' build_config=10000000, and the longest axis"):
        vitkeras.from_checkpoint(config_with(keras_file, change))


def test_heads_of_another_type(keras_file, refused):
    config_with(keras_file, of_layer("encoder_block_01", num_heads="3"))
    refused(keras_file, "the layers of its config.json must have one num_heads, received")
    config_with(keras_file, of_layer("encoder_block_00", num_heads="3"))
    refused(keras_file, "num_heads must be '3', that of checkpoint")


def test_arrays_that_no_layer_asks_for(keras_file, model, tmp_path):
    model.save_weights(tmp_path / "w.weights.h5")
    with h5py.File(tmp_path / "w.weights.h5", "r+") as file:
        file["layers/other/vars/0"] = np.zeros(3, "f4")
    content = (tmp_path / "w.weights.h5").read_bytes()
    with pytest.raises(ValueError, match="must hold 40 arrays, those of its model 'mine', received 41"):
        vitkeras.from_checkpoint(rewrite(keras_file, **{"model.weights.h5": content}))


def test_another_librarys_model(tmp_path, refused):
    image = keras.Input((4,))
    other = keras.Model(image, keras.layers.Dense(3)(image), name="other")
    other.save(tmp_path / "other.keras")
    with pytest.raises(ValueError, match="holds the model 'other', which has no layer of this library; load it with"):
        vitkeras.from_checkpoint(tmp_path / "other.keras")
    refused(tmp_path / "other.keras", "missing 'patch_embedding/projection/vars/0'")


def test_loading_does_not_build_the_files_model(keras_file, make, monkeypatch):
    model = make()
    monkeypatch.setattr(keras.saving, "load_model", None)
    vitkeras.load_checkpoint(model, keras_file)


def test_numbers_that_are_none_or_integers_in_a_keras_file(keras_file, model, tmp_path):
    def content(change):
        model.save_weights(tmp_path / "w.weights.h5")
        change_weights(tmp_path / "w.weights.h5", change)
        return (tmp_path / "w.weights.h5").read_bytes()

    def integers(group):
        values = np.ones(group["dense/vars/1"].shape, "int32")
        del group["dense/vars/1"]
        group["dense/vars/1"] = values

    def infinite(group):
        group["dense/vars/1"][3] = np.inf

    for change, reason in ((integers, "must be floating point, received int32"), (infinite, "that are not finite")):
        with pytest.raises(ValueError, match=f"'layers/dense/vars/1' .*{reason}"):
            vitkeras.from_checkpoint(rewrite(keras_file, **{"model.weights.h5": content(change)}))


def test_layers_of_two_epsilons(keras_file, refused):
    config_with(keras_file, of_layer("encoder_norm", epsilon=1e-3))
    refused(keras_file, "the layers of its config.json must have one layer_norm_epsilon, received ['0.001', '1e-06']")


def test_logits_are_not_asked_of_a_keras_file(keras_file):
    with pytest.raises(ValueError, match="classifier_activation is not for a .keras file.*received None with"):
        vitkeras.from_checkpoint(keras_file, classifier_activation=None)


def test_a_wrong_note_of_bfloat16(weights_file, make, model):
    def change(group):
        group["class_token/vars/0"].attrs["dtype"] = "bfloat16"
        group["dense/vars/0"].attrs["dtype"] = np.ones(3)

    assert same(vitkeras.load_checkpoint(make(), change_weights(weights_file, change)), model)
