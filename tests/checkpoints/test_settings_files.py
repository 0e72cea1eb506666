"""What a settings file says is compared with the arrays beside it, and a damaged one is named."""

import json
import shutil

import keras
import layout_files
import numpy as np
import pytest

import vitkeras


@pytest.fixture
def timm(golden, tmp_path):
    """`timm(settings)` -> path of a timm file with that config.json beside it."""

    def place(settings):
        path = tmp_path / "timm" / "model.safetensors"
        path.parent.mkdir(exist_ok=True)
        shutil.copy(layout_files.timm(golden), path)
        text = settings if isinstance(settings, str) else json.dumps({"architecture": "vit", **settings})
        (path.parent / "config.json").write_text(text)
        return path

    return place


@pytest.fixture
def hugging_face(golden, tmp_path):
    """`hugging_face(config, processor)` -> folder with some settings changed."""

    def place(config=None, processor=None):
        folder = tmp_path / "hf"
        shutil.copytree(layout_files.hugging_face(golden), folder, dirs_exist_ok=True)
        settings = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(settings | (config or {})))
        if processor is not None:
            (folder / "preprocessor_config.json").write_text(json.dumps(processor))
        return folder

    return place


TIMM = {
    "classes": ({"num_classes": 5}, "its arrays say num_classes 7, its config.json says 5"),
    "classes as text": ({"num_classes": "x"}, "its arrays say num_classes 7, its config.json says 'x'"),
    "depth": ({"model_args": {"depth": 5}}, "its arrays say depth 2, its config.json says 5"),
    "width": ({"model_args": {"embed_dim": 64}}, "its arrays say embed_dim 48, its config.json says 64"),
    "patch": ({"model_args": {"patch_size": 8}}, "its arrays say patch_size 16, its config.json says 8"),
    "pooling": ({"model_args": {"global_pool": "avg"}}, "global_pool of its config.json must be 'token' for a model"),
    "norm": ({"model_args": {"norm_layer": "rmsnorm"}}, "norm_layer of its config.json must be one of"),
    "query norm": ({"model_args": {"qk_norm": True}}, "qk_norm of its config.json must be false"),
    "token": ({"model_args": {"class_token": False}}, "its arrays say class_token True, its config.json says False"),
    "flag": ({"model_args": {"no_embed_class": "x"}}, "no_embed_class of its config.json must be true or false"),
    "heads": ({"model_args": {"num_heads": 0}}, "num_heads of its config.json must be a positive int, received 0"),
    "heads as text": ({"num_heads": "x"}, "num_heads of its config.json must be a positive int, received 'x'"),
    "arguments": ({"model_args": 3}, "model_args of its config.json must be an object, received 3"),
    "pretrained": ({"pretrained_cfg": 3}, "pretrained_cfg of its config.json must be an object, received 3"),
    "twice": ('{"architecture": "a", "architecture": "b"}', "it names 'architecture' twice"),
    "deviation": (
        {"pretrained_cfg": {"mean": [0.5] * 3, "std": [0.0] * 3}},
        "std of its config.json must be positive, received [0.0, 0.0, 0.0]",
    ),
    "two means": (
        {"pretrained_cfg": {"mean": [0.5] * 2, "std": [0.5] * 2}},
        "mean of its config.json must be a list of 1 or 3 finite floats, received [0.5, 0.5]",
    ),
}


@pytest.mark.parametrize("settings, reason", TIMM.values(), ids=TIMM)
def test_timm_settings_that_do_not_fit(settings, reason, timm):
    with pytest.raises(ValueError) as caught:
        vitkeras.from_checkpoint(timm(settings), num_heads=3)
    assert reason in str(caught.value) and "config.json" in str(caught.value)


def test_timm_settings_that_fit(timm):
    settings = {"num_classes": 7, "model_args": {"depth": 2, "embed_dim": 48, "patch_size": 16, "class_token": True}}
    assert vitkeras.from_checkpoint(timm({**settings, "pretrained_cfg": None}), num_heads=3).output_shape == (None, 7)
    assert vitkeras.from_checkpoint(timm({"num_heads": 3})).get_layer("encoder_block_00").num_heads == 3


HUGGING_FACE = {
    "bias": ({"qkv_bias": False}, None, "its arrays say qkv_bias True, its config.json says False"),
    "size": ({"image_size": "a"}, None, "image_size of its config.json must be a positive int or a pair of them"),
    "negative size": ({"image_size": -1}, None, "image_size of its config.json must be a positive int or a pair"),
    "scale": (None, {"do_rescale": False}, "do_rescale of its preprocessor_config.json must be true"),
    "flag": (None, {"do_normalize": "no"}, "do_normalize of its preprocessor_config.json must be true or false"),
    "deviation": (
        None,
        {"image_mean": [0.5] * 3, "image_std": [0.0, 1, 1]},
        "image_std of its preprocessor_config.json must be positive, received [0.0, 1, 1]",
    ),
    "no list": (
        None,
        {"image_mean": 0.5, "image_std": [0.5] * 3},
        "image_mean of its preprocessor_config.json must be a list of 1 or 3 finite floats, received 0.5",
    ),
}


@pytest.mark.parametrize("config, processor, reason", HUGGING_FACE.values(), ids=HUGGING_FACE)
def test_hugging_face_settings_that_do_not_fit(config, processor, reason, hugging_face):
    with pytest.raises(ValueError) as caught:
        vitkeras.from_checkpoint(hugging_face(config, processor))
    assert reason in str(caught.value)


def test_pixels_without_normalisation_are_those_of_0_to_1(hugging_face, assert_close):
    """do_normalize false: the network was trained on 0...1, and here it takes -1...1."""
    halves = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    x = np.random.default_rng(3).uniform(-1, 1, (2, 32, 32, 3)).astype("float32")
    plain = vitkeras.from_checkpoint(hugging_face(processor=halves), classifier_activation=None)
    raw = vitkeras.from_checkpoint(hugging_face(processor={"do_normalize": False}), classifier_activation=None)
    expected = keras.ops.convert_to_numpy(plain((x + 1) / 2))
    assert_close(keras.ops.convert_to_numpy(raw(x)), expected, atol=2e-5)


def test_layer_scale_of_one_block_only(timm, save_safetensors):
    arrays = layout_files.read_safetensors(timm({}))
    arrays["blocks.0.ls1.gamma"] = np.ones(48, "float32")
    with pytest.raises(ValueError, match="has LayerScale in some blocks only: missing 'blocks.0.ls2.gamma'"):
        vitkeras.from_checkpoint(save_safetensors(arrays, "scale.safetensors"), num_heads=3)
