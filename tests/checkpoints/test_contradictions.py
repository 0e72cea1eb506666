"""What a file and the caller may not say at once, and damage that is easily overlooked."""

import json
import zipfile

import keras
import numpy as np
import pytest

import vitkeras


@pytest.mark.parametrize("half", ["head/kernel", "head/bias"])
@pytest.mark.parametrize("arguments", [dict(), dict(load_head=False)], ids=["with_head", "load_head=False"])
def test_half_a_head_is_damage(arrays, save, refused, half, arguments):
    del arrays[half]
    refused(save(arrays), f"missing {half!r}", **arguments)


@pytest.mark.parametrize("half", ["head/kernel", "head/bias"])
def test_half_a_head_is_no_headless_model(arrays, save, half):
    del arrays[half]
    with pytest.raises(ValueError, match=f"missing '{half}'"):
        vitkeras.from_checkpoint(save(arrays))


def test_a_head_with_another_kernel_than_bias_is_damage(arrays, save, refused):
    arrays["head/kernel"] = arrays["head/kernel"][:, :-1]
    refused(save(arrays), f"'head/kernel' must have shape (48, {arrays['head/bias'].size})")


@pytest.mark.parametrize(
    "argument, value",
    [("classes", 3), ("input_shape", (64, 64, 3)), ("activation", "gelu"), ("name", "mine"), ("dropout_rate", 0.1)],
)
def test_a_keras_file_comes_as_it_was_saved(tmp_path, make, argument, value):
    path = str(tmp_path / "whole.keras")
    make().save(path)
    with pytest.raises(ValueError, match=f"{argument} is not for a .keras file, .* received") as caught:
        vitkeras.from_checkpoint(path, **{argument: value})
    assert repr(value) in str(caught.value) and path in str(caught.value)


def test_a_registered_class_of_others_is_not_loaded(tmp_path, make):
    @keras.saving.register_keras_serializable(package="elsewhere")
    class Foreign(keras.layers.Layer):
        def call(self, x):
            raise AssertionError("it ran")

    path, changed = tmp_path / "whole.keras", tmp_path / "changed.keras"
    make().save(path)
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(changed, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            if name == "config.json":
                config = json.loads(data)
                layer = next(x for x in config["config"]["layers"] if x["class_name"] == "Dropout")
                layer |= {"module": None, "class_name": "Foreign", "registered_name": "elsewhere>Foreign"}
                data = json.dumps(config)
            target.writestr(name, data)
    with pytest.raises(ValueError, match=r"names the class 'elsewhere>Foreign' of 'elsewhere'; only those of"):
        vitkeras.from_checkpoint(changed)


def test_a_weights_file_of_integers_is_refused(tmp_path, make):
    h5py = pytest.importorskip("h5py")
    path = str(tmp_path / "m.weights.h5")
    make().save_weights(path)
    with h5py.File(path, "r+") as file:
        names = []
        file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        name = next(name for name in names if "seed" not in name)
        values = np.ones(file[name].shape, "int64")
        del file[name]
        file[name] = values
    with pytest.raises(ValueError, match=f"'{name}' must be floating point, received int64"):
        vitkeras.load_checkpoint(make(), path)


def test_a_path_in_no_folder(tmp_path, make):
    path = tmp_path / "nowhere" / "w.npz"
    with pytest.raises(FileNotFoundError, match="the folder of path must exist, received"):
        vitkeras.save_checkpoint(make(), path)


def test_a_grid_that_does_not_hold_the_positions(arrays, save):
    with pytest.raises(ValueError, match=r"position_grid must hold the positions of .* received \(3, 5\)"):
        vitkeras.from_checkpoint(save(arrays), position_grid=(3, 5))


@pytest.mark.parametrize("name", ["ViTB16", "vit_b16", "R50ViTB16"])
def test_a_functions_name_lists_its_files(name):
    assert vitkeras.list_weights(name)


@pytest.mark.parametrize(
    "key, cut, shape",
    [
        ("Transformer/encoderblock_0/MlpBlock_3/Dense_0/kernel", np.s_[:, :-1], "(48, 96)"),
        ("embedding/kernel", np.s_[..., :-1], "(16, 16, 3, 48)"),
        ("Transformer/encoderblock_0/LayerNorm_0/scale", np.s_[:-1], "(48,)"),
    ],
)
def test_only_the_damaged_array_is_named(arrays, save, key, cut, shape):
    arrays[key] = arrays[key][cut]
    with pytest.raises(ValueError) as caught:
        vitkeras.from_checkpoint(save(arrays))
    assert f"(1 fault): {key!r} must have shape {shape}, received {arrays[key].shape}." in str(caught.value)


def test_what_is_not_a_resnets(tmp_path):
    model = vitkeras.models.ResNet((64, 96, 3), (1,), 0.5, classes=5)
    path = vitkeras.save_checkpoint(model, tmp_path / "r.npz")
    for argument in (dict(num_heads=5), dict(position_grid=(2, 2)), dict(activation="gelu")):
        with pytest.raises(ValueError, match=f"{next(iter(argument))} is for ViTs, and .* is a ResNet; received"):
            vitkeras.from_checkpoint(path, **argument)
    with pytest.raises(ValueError, match=r"position_grid is for a model with 1-d .* received \(5, 5\)"):
        vitkeras.load_checkpoint(model, path, position_grid=(5, 5))


def test_flags_are_flags(make, save, arrays):
    path = save(arrays)
    with pytest.raises(ValueError, match="load_head must be True or False, received 'no'"):
        vitkeras.load_checkpoint(make(), path, load_head="no")
    with pytest.raises(ValueError, match="overwrite must be True or False, received 'no'"):
        vitkeras.save_checkpoint(make(), path, overwrite="no")
    with pytest.raises(ValueError, match="weights must not be given"):
        vitkeras.from_checkpoint(path, weights="augreg")


def test_axial_models_have_no_files(save, arrays):
    with pytest.raises(ValueError, match="weights must be None for an axial model"):
        vitkeras.AxialViTB16(weights=save(arrays))


@pytest.mark.parametrize(
    "url", ["http://host/ok/", "http://host/a%00.npz", f"http://host/{'a' * 300}.npz", "http://h/a.bin"]
)
def test_addresses_without_a_files_name(url):
    with pytest.raises(ValueError, match="an address must end in the name of a file, with one of"):
        vitkeras.from_checkpoint(url)


def test_other_kinds_of_addresses():
    for build in (vitkeras.from_checkpoint, lambda weights: vitkeras.ViTTi16(weights=weights)):
        with pytest.raises(ValueError, match="weights='gs://a/b.npz': addresses begin with http:// or https://"):
            build("gs://a/b.npz")


def test_classes_are_checked_before_anything_is_fetched():
    with pytest.raises(ValueError, match="classes must be a positive int, received -3"):
        vitkeras.ViTTi16(weights="augreg", classes=-3)


def test_numpy_counts_classes_too():
    assert vitkeras.ViTTi16(weights=None, input_shape=(32, 32, 3), classes=np.int64(3)).output_shape == (None, 3)
