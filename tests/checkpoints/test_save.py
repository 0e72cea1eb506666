"""Saving in the original's layout: bit for bit what was loaded, never half a file, nothing silently left out."""

import os
import re

import keras
import numpy as np
import pytest

import vitkeras

NAMES = ("vit_token_32x32", "vit_token_rep24", "vit_gap", "hybrid_r11_w05_smallvar")


@pytest.mark.parametrize("name", NAMES)
def test_what_was_loaded_is_saved_bit_for_bit(name, golden, tmp_path):
    model = vitkeras.from_checkpoint(golden.path(name))
    path = vitkeras.save_checkpoint(model, tmp_path / "saved.npz")
    with np.load(golden.path(name)) as expected, np.load(path, allow_pickle=False) as actual:
        assert actual.files == expected.files
        for key in expected.files:
            assert actual[key].dtype == expected[key].dtype == "float32" and actual[key].shape == expected[key].shape
            assert actual[key].tobytes() == expected[key].tobytes()
    again = vitkeras.save_checkpoint(vitkeras.from_checkpoint(path), tmp_path / "again.npz")
    with open(path, "rb") as first, open(again, "rb") as second:
        assert first.read() == second.read()
    assert sorted(os.listdir(tmp_path)) == ["again.npz", "saved.npz"]


def test_a_resnet_baseline(tmp_path, rng, weights_of):
    model = vitkeras.models.ResNet((64, 96, 3), (1, 2), 0.5, classes=7, classifier_activation=None)
    model.set_weights([rng.normal(size=w.shape) for w in model.weights])
    path = vitkeras.save_checkpoint(model, tmp_path / "resnet.npz")
    loaded = vitkeras.from_checkpoint(path, input_shape=(64, 96, 3))
    assert [a.tobytes() for a in weights_of(loaded)] == [b.tobytes() for b in weights_of(model)]
    assert vitkeras.from_checkpoint(path).input_shape == (None, None, None, 3)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "bfloat16", "float16"])
def test_any_dtype_is_saved_as_float32(policy, golden, tmp_path):
    keras.config.set_dtype_policy(policy)
    model = vitkeras.from_checkpoint(golden.path("vit_token_32x32"))
    with np.load(vitkeras.save_checkpoint(model, tmp_path / "x.npz")) as file:
        assert {file[key].dtype.name for key in file.files} == {"float32"}
        atol = 0 if policy.startswith("mixed") else 2**-7
        np.testing.assert_allclose(file["embedding/bias"], golden("vit_token_32x32")["embedding/bias"], atol=atol)


def test_other_suffixes_are_refused(make, tmp_path):
    with pytest.raises(ValueError, match=r"path must end in .npz, received '.*x\.safetensors'"):
        vitkeras.save_checkpoint(make(), tmp_path / "x.safetensors")


def test_an_existing_file_is_kept_unless_told(make, tmp_path):
    (tmp_path / "x.npz").write_text("mine")
    with pytest.raises(FileExistsError, match="x.npz' exists; pass overwrite=True to replace it"):
        vitkeras.save_checkpoint(make(), tmp_path / "x.npz")
    assert (tmp_path / "x.npz").read_text() == "mine"
    path = vitkeras.save_checkpoint(make(), tmp_path / "x.npz", overwrite=True)
    assert np.load(path)["cls"].shape == (1, 1, 48)


def test_a_failure_leaves_nothing_and_keeps_what_was_there(make, tmp_path, monkeypatch):
    (tmp_path / "x.npz").write_text("mine")

    def fails(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr(np.lib.format, "write_array", fails)
    with pytest.raises(OSError, match="disk full"):
        vitkeras.save_checkpoint(make(), tmp_path / "x.npz", overwrite=True)
    assert os.listdir(tmp_path) == ["x.npz"] and (tmp_path / "x.npz").read_text() == "mine"


NO_PLACE = {
    "relative": (dict(position_embedding="relative"), "encoder_block_00"),
    "2-d": (dict(position_embedding="learned_2d"), "position_embedding"),
    "every layer": (dict(position_embedding_at="every_layer"), "position_embedding_00"),
    "shared": (dict(position_embedding_at="every_layer_shared"), "position_embedding"),
}


@pytest.mark.parametrize("arguments, layer", NO_PLACE.values(), ids=NO_PLACE)
def test_weights_without_a_place_are_refused(arguments, layer, make, tmp_path):
    with pytest.raises(ValueError, match=rf"layer '{layer}' \(\w+\) has weights without a place in the"):
        vitkeras.save_checkpoint(make(**arguments), tmp_path / "x.npz")
    assert not os.listdir(tmp_path)


def test_axial_resnets_have_no_place(tmp_path):
    model = vitkeras.models.ResNet((32, 32, 3), (1,), 0.5, classes=7, attention_heads=4)
    with pytest.raises(ValueError, match="layer 'block1_unit01' .* has weights without a place"):
        vitkeras.save_checkpoint(model, tmp_path / "x.npz")


def test_a_model_without_positions(make, tmp_path):
    model = make(position_embedding="none", include_top=False, pooling="token")
    path = vitkeras.save_checkpoint(model, tmp_path / "x.npz")
    with pytest.raises(ValueError, match="has no position embedding that tells its image size: pass input_shape"):
        vitkeras.from_checkpoint(path)
    loaded = vitkeras.from_checkpoint(path, input_shape=(48, 80, 3), pooling="token")
    assert loaded.output_shape == (None, 48)


@pytest.mark.parametrize("arguments", [dict(activation="gelu"), dict(layer_norm_epsilon=1e-12)])
def test_constants_that_the_layout_cannot_say_are_warned_of(arguments, make, tmp_path):
    model = make(**arguments, include_top=False)
    text = re.escape("which the original's layout can't say: its JAX code computes with")
    with pytest.warns(UserWarning, match=text):
        path = vitkeras.save_checkpoint(model, tmp_path / "x.npz")
    loaded = vitkeras.from_checkpoint(path, **arguments)
    block = loaded.get_layer("encoder_block_00")
    assert {key: getattr(block, key) for key in arguments} == arguments


def test_memory_stays_at_one_array(tmp_path):
    import tracemalloc

    model = vitkeras.VisionTransformer((32, 32, 3), 16, 3, 384, 3, 1536, classes=997)
    largest = 4 * max(int(np.prod(weight.shape)) for weight in model.weights)
    tracemalloc.start()
    vitkeras.save_checkpoint(model, tmp_path / "x.npz")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # The array and one copy of it at the most, beside the directory of the archive.
    assert peak <= 2.2 * largest + 2**20 < os.path.getsize(tmp_path / "x.npz") / 2


def test_numbers_that_are_none_are_not_saved(make, tmp_path):
    model = make()
    model.get_layer("head").bias.assign(np.full(7, np.inf))
    with pytest.raises(ValueError, match="weight 'head/bias' holds values that are not finite"):
        vitkeras.save_checkpoint(model, tmp_path / "x.npz")
    assert not os.listdir(tmp_path)


def test_a_head_on_every_token_is_warned_of(make, tmp_path):
    with pytest.warns(UserWarning, match="whose head reads every token, which the original's layout can't say"):
        vitkeras.save_checkpoint(make(classifier="unpooled"), tmp_path / "x.npz")


def test_a_folder_is_not_replaced_and_a_link_leads_to_the_file(make, tmp_path):
    (tmp_path / "d.npz").mkdir()
    with pytest.raises(FileExistsError, match="d.npz' exists; it is a folder"):
        vitkeras.save_checkpoint(make(), tmp_path / "d.npz", overwrite=True)
    (tmp_path / "link.npz").symlink_to(tmp_path / "real.npz")
    with pytest.raises(FileExistsError, match="pass overwrite=True"):
        vitkeras.save_checkpoint(make(), tmp_path / "link.npz")
    vitkeras.save_checkpoint(make(), tmp_path / "link.npz", overwrite=True)
    assert (tmp_path / "link.npz").is_symlink() and (tmp_path / "real.npz").is_file()


def test_a_name_that_the_disk_refuses(make, tmp_path):
    with pytest.raises(OSError, match="can't be written") as caught:
        vitkeras.save_checkpoint(make(), tmp_path / f"{'a' * 300}.npz")
    assert ".part" not in str(caught.value) and not os.listdir(tmp_path)
    with pytest.raises(ValueError, match="path must be a path, which has no NUL character"):
        vitkeras.save_checkpoint(make(), "a\0.npz")
