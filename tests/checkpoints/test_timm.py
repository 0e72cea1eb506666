"""timm's layout: its golden numbers, what of its variants is exact, and what is refused by name."""

import json

import keras
import numpy as np
import pytest
from layout_files import read_safetensors, timm

import vitkeras

TOLERANCE = 2e-5  # on float32 logits, as for every plain ViT here


def test_timm(golden, assert_close):
    model = vitkeras.from_checkpoint(timm(golden), classifier_activation=None, num_heads=3)
    io = golden("timm_vit_32x32_io")
    assert_close(model(io["input"]), io["logits"], atol=TOLERANCE)
    encoded = keras.Model(model.input, model.get_layer("encoder_norm").output)(io["input"])
    assert_close(encoded, io["encoded"], atol=TOLERANCE)
    block = model.get_layer("encoder_block_00")
    assert (block.activation, block.layer_norm_epsilon) == ("gelu", 1e-6)


@pytest.mark.parametrize("wrong", [dict(), dict(activation="gelu_tanh"), dict(num_heads=4)])
def test_a_wrong_constant_would_show(wrong, golden, assert_close, weights_of):
    """The numbers are so small that the GELU moves them by 1.5e-5 only; the right model is within 1.2e-7."""
    io = golden("timm_vit_32x32_io")
    right = vitkeras.from_checkpoint(timm(golden), classifier_activation=None, num_heads=3)
    arguments = {**dict(num_heads=3, activation="gelu", classes=7, classifier_activation=None), **wrong}
    model = vitkeras.VisionTransformer((32, 32, 3), 16, 2, 48, mlp_dim=96, **arguments)
    model.set_weights(weights_of(right))
    if not wrong:
        assert_close(model(io["input"]), io["logits"], atol=1e-6)
        return
    with pytest.raises(AssertionError, match="max abs difference"):
        assert_close(model(io["input"]), io["logits"], atol=1e-6)


@pytest.fixture
def timm_arrays(golden):
    return read_safetensors(timm(golden))


def test_layer_scale_is_folded_exactly(timm_arrays, save_safetensors, rng, assert_close, golden):
    """A factor for a branch: dividing the branch's last layer by it first leaves the golden numbers."""
    for i in range(2):
        for module, scale in (("attn.proj", "ls1"), ("mlp.fc2", "ls2")):
            gamma = rng.uniform(0.5, 2, 48).astype("float32") * rng.choice([-1, 1], 48).astype("float32")
            timm_arrays[f"blocks.{i}.{scale}.gamma"] = gamma
            timm_arrays[f"blocks.{i}.{module}.weight"] = timm_arrays[f"blocks.{i}.{module}.weight"] / gamma[:, None]
            timm_arrays[f"blocks.{i}.{module}.bias"] = timm_arrays[f"blocks.{i}.{module}.bias"] / gamma
    model = vitkeras.from_checkpoint(save_safetensors(timm_arrays), num_heads=3, classifier_activation=None)
    io = golden("timm_vit_32x32_io")
    assert_close(model(io["input"]), io["logits"], atol=TOLERANCE)


def test_layer_scale_of_another_width(timm_arrays, save_safetensors, make, refused):
    for name in ("ls1", "ls2"):
        timm_arrays |= {f"blocks.{block}.{name}.gamma": np.ones(48, "float32") for block in range(2)}
    timm_arrays["blocks.0.ls1.gamma"] = np.ones(47, "float32")
    model = make(activation="gelu")
    refused(save_safetensors(timm_arrays), "'blocks.0.ls1.gamma' must have shape (48,), received (47,)", model)
    timm_arrays["blocks.0.ls1.gamma"] = np.full(48, np.nan, "float32")
    refused(save_safetensors(timm_arrays), "'blocks.0.ls1.gamma' holds values that are not finite", model)


def test_a_class_token_without_position(timm_arrays, save_safetensors, golden, assert_close):
    position = timm_arrays["pos_embed"]
    timm_arrays["cls_token"] = timm_arrays["cls_token"] + position[:, :1]
    timm_arrays["pos_embed"] = position[:, 1:]
    path = save_safetensors(timm_arrays)
    io = golden("timm_vit_32x32_io")
    with pytest.raises(ValueError, match="'pos_embed' of shape .*: its positions form no square .*pass position_grid"):
        vitkeras.from_checkpoint(path, num_heads=3)
    given = vitkeras.from_checkpoint(path, num_heads=3, classifier_activation=None, position_grid=(2, 2))
    config = {"architecture": "vit_tiny", "model_args": {"no_embed_class": True, "num_heads": 3}}
    path.with_name("config.json").write_text(json.dumps(config))
    for model in (given, vitkeras.from_checkpoint(path, classifier_activation=None)):
        assert_close(model(io["input"]), io["logits"], atol=TOLERANCE)


def test_timm_without_class_token(timm_arrays, save_safetensors, rng, assert_close):
    del timm_arrays["cls_token"]
    timm_arrays["pos_embed"] = timm_arrays["pos_embed"][:, 1:]
    model = vitkeras.from_checkpoint(save_safetensors(timm_arrays), num_heads=3, classifier_activation=None)
    assert "class_token" not in [layer.name for layer in model.layers]
    images = rng.normal(size=(2, 32, 32, 3)).astype("float32")
    encoded = np.asarray(keras.Model(model.input, model.get_layer("encoder_norm").output)(images))
    logits = encoded.mean(axis=1) @ timm_arrays["head.weight"].T + timm_arrays["head.bias"]
    assert_close(model(images), logits, atol=TOLERANCE)


REFUSED = {
    "fc_norm.weight": "a norm after the pooling (fc_norm)",
    "reg_token": "register tokens",
    "dist_token": "a distillation token",
    "head_dist.weight": "a distillation token",
    "norm_pre.weight": "a norm before the blocks",
    "attn_pool.q.weight": "attention pooling",
    "blocks.0.attn.q_norm.weight": "normalised queries and keys",
    "patch_embed.backbone.conv1.0.weight": "another stem than the paper's ResNet",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_this_architecture_is_refused_by_name(name, timm_arrays, save_safetensors, refused):
    path = save_safetensors({**timm_arrays, name: np.ones(48, "float32")})
    refused(path, f"array {name!r}: the model has {REFUSED[name]}")


@pytest.mark.parametrize("name", ["blocks.0.attn.rel_pos", "mask_token", "blocks.x.norm1.weight"])
def test_anything_else_is_unexpected(name, timm_arrays, save_safetensors, make, refused):
    path = save_safetensors({**timm_arrays, name: np.ones(48, "float32")})
    refused(path, f"(1 fault): unexpected {name!r}.", make(activation="gelu"))


def test_timm_settings(timm_arrays, save_safetensors):
    path = save_safetensors(timm_arrays)
    settings = path.with_name("config.json")
    settings.write_text(json.dumps({"architecture": "v", "model_args": {"act_layer": "gelu_tanh", "num_heads": 4}}))
    block = vitkeras.from_checkpoint(path).get_layer("encoder_block_00")
    assert (block.activation, block.num_heads) == ("gelu_tanh", 4)
    settings.write_text(json.dumps({"architecture": "v", "model_args": {"act_layer": "silu"}}))
    with pytest.raises(ValueError, match="act_layer of its config.json must be one of .*, received 'silu'"):
        vitkeras.from_checkpoint(path)
    settings.write_text(json.dumps({"architecture": "v", "global_pool": "avg"}))
    with pytest.raises(
        ValueError, match="global_pool of its config.json must be 'token' for a model with a class token"
    ):
        vitkeras.from_checkpoint(path)
    settings.write_text(json.dumps({"architecture": "v", "pretrained_cfg": {"mean": [0.5, 0.5, 0.5]}}))
    with pytest.raises(ValueError, match="std of its config.json must be a list of 1 or 3 finite floats, received"):
        vitkeras.from_checkpoint(path)


def test_timm_positions_are_resized_bicubically(timm_arrays, save_safetensors, make, rng):
    from vitkeras.layers.position_embedding import resize_position_embedding

    timm_arrays["pos_embed"] = rng.normal(size=(1, 10, 48)).astype("float32")
    model = make(image=(80, 64), activation="gelu")
    vitkeras.load_checkpoint(model, save_safetensors(timm_arrays))
    expected = resize_position_embedding(timm_arrays["pos_embed"], (3, 3), (5, 4), method="bicubic")
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(model.get_layer("position_embedding").embedding), expected)


def test_faults_name_the_files_own_arrays_and_shapes(timm_arrays, save_safetensors, make, refused):
    timm_arrays["blocks.1.attn.qkv.weight"] = np.ones((143, 48), "float32")
    timm_arrays["patch_embed.proj.weight"] = np.ones((48, 3, 16, 15), "float32")
    timm_arrays["head.weight"] = timm_arrays["head.weight"].astype("int32")
    del timm_arrays["blocks.0.attn.qkv.bias"], timm_arrays["norm.bias"]
    text = refused(save_safetensors(timm_arrays), "does not fit the model (5 faults): ", make(activation="gelu"))
    for part in (
        "missing 'blocks.0.attn.qkv.bias'",
        "missing 'norm.bias'",
        "'blocks.1.attn.qkv.weight' must have shape (144, 48), received (143, 48)",
        "'patch_embed.proj.weight' must have shape (48, 3, 16, 16), received (48, 3, 16, 15)",
        "'head.weight' must be floating point, received int32",
    ):
        assert part in text
