"""timm's names of hybrids, with the numbers of the original's golden files."""

import json
import re

import backends
import keras
import numpy as np
import pytest

import vitkeras
from vitkeras.checkpoints.timm_stem import stem_key, stem_name

HYBRID_TOLERANCE = 1e-4  # on float32 logits, as the golden files' notes suggest
GOLDEN = ["hybrid_r111_w05_p1", "hybrid_r11_w05_smallvar"]


def in_timms_layout(arrays):
    """The arrays of a hybrid of the original under timm's names, as its published files have them."""
    out, blocks = {}, {key.split("/")[1] for key in arrays if key.startswith("Transformer/encoderblock")}
    for key, value in arrays.items():
        name = stem_name(key, has_stages=any(k.startswith("block1/") for k in arrays))
        if name is not None:
            if value.ndim == 4 and not name.endswith(("norm.weight", "norm.bias")) and key.endswith("kernel"):
                value = value.transpose(3, 2, 0, 1)
            out[name] = np.ascontiguousarray(value.reshape(-1) if "norm" in name else value).astype("float32")
    width = arrays["cls"].shape[-1]
    out |= {"cls_token": arrays["cls"], "pos_embed": arrays["Transformer/posembed_input/pos_embedding"]}
    out["patch_embed.proj.weight"] = arrays["embedding/kernel"].transpose(3, 2, 0, 1)
    out["patch_embed.proj.bias"] = arrays["embedding/bias"]
    for theirs, ours in (("norm", "Transformer/encoder_norm"), ("head", "head")):
        kernel = "scale" if theirs == "norm" else "kernel"
        out[f"{theirs}.weight"], out[f"{theirs}.bias"] = arrays[f"{ours}/{kernel}"].T, arrays[f"{ours}/bias"]
    for i in range(len(blocks)):
        block, attention = (
            f"Transformer/encoderblock_{i}/",
            f"Transformer/encoderblock_{i}/MultiHeadDotProductAttention_1/",
        )
        for leaf, kind in (("kernel", "weight"), ("bias", "bias")):
            parts = [arrays[f"{attention}{part}/{leaf}"] for part in ("query", "key", "value")]
            parts = [p.reshape(width, width).T if leaf == "kernel" else p.reshape(-1) for p in parts]
            out[f"blocks.{i}.attn.qkv.{kind}"] = np.concatenate(parts)
            proj = arrays[f"{attention}out/{leaf}"]
            out[f"blocks.{i}.attn.proj.{kind}"] = proj.reshape(width, width).T if leaf == "kernel" else proj
            for theirs, ours in (("fc1", "Dense_0"), ("fc2", "Dense_1")):
                out[f"blocks.{i}.mlp.{theirs}.{kind}"] = arrays[f"{block}MlpBlock_3/{ours}/{leaf}"].T
        for theirs, ours in (("norm1", "LayerNorm_0"), ("norm2", "LayerNorm_2")):
            out[f"blocks.{i}.{theirs}.weight"] = arrays[f"{block}{ours}/scale"]
            out[f"blocks.{i}.{theirs}.bias"] = arrays[f"{block}{ours}/bias"]
    return out


@pytest.fixture
def hybrid(golden, save_safetensors):
    """`hybrid(name)` -> path of a golden hybrid in timm's layout, with the original's GELU in its settings."""

    def hybrid(name=GOLDEN[0], change=None):
        arrays = in_timms_layout(golden(name))
        if change is not None:
            change(arrays)
        path = save_safetensors(arrays, "hybrid/model.safetensors")
        settings = {"architecture": "vit", "model_args": {"act_layer": "gelu_tanh", "num_heads": 3}}
        path.with_name("config.json").write_text(json.dumps(settings))
        return path

    return hybrid


@pytest.mark.parametrize("name", GOLDEN)
def test_the_originals_numbers(name, golden, hybrid, assert_close):
    expected = vitkeras.from_checkpoint(golden.path(name), classifier_activation=None)
    heads = expected.get_layer("encoder_block_00").num_heads
    assert heads == 3
    model = vitkeras.from_checkpoint(hybrid(name).parent, classifier_activation=None)
    io = golden(f"{name}_io")
    assert_close(model(io["input"]), io["logits"], atol=HYBRID_TOLERANCE)
    assert model.input_shape == expected.input_shape and model.count_params() == expected.count_params()
    for layer in model._flatten_layers():
        if isinstance(layer, vitkeras.layers.GroupNorm):
            assert keras.ops.convert_to_numpy(layer.scale).std() > 0


def test_a_root_alone(tmp_path, rng, save_safetensors, assert_close):
    """R+Ti/16: timm's names have no `stem.` then."""
    arguments = dict(stem_blocks=(), classes=7, classifier_activation=None, activation="gelu")
    model = backends.randomise(vitkeras.VisionTransformer((64, 64, 3), 8, 2, 48, 3, 96, **arguments))
    with pytest.warns(UserWarning, match="which the original's layout can't say"):
        path = vitkeras.save_checkpoint(model, tmp_path / "root.npz")
    with np.load(path) as file:
        layout = in_timms_layout({key: file[key] for key in file.files})
    assert "patch_embed.backbone.conv.weight" in layout and not any("stem" in name for name in layout)
    loaded = vitkeras.from_checkpoint(save_safetensors(layout), num_heads=3, classifier_activation=None)
    images = rng.normal(size=(2, 64, 64, 3)).astype("float32")
    assert_close(loaded(images), model(images), atol=HYBRID_TOLERANCE)


NAMES = {
    "patch_embed.backbone.stem.conv.weight": "conv_root/kernel",
    "patch_embed.backbone.stem.norm.bias": "gn_root/bias",
    "patch_embed.backbone.conv.weight": "conv_root/kernel",
    "patch_embed.backbone.stages.0.blocks.0.downsample.conv.weight": "block1/unit1/conv_proj/kernel",
    "patch_embed.backbone.stages.2.blocks.0.downsample.norm.weight": "block3/unit1/gn_proj/scale",
    "patch_embed.backbone.stages.2.blocks.8.conv2.weight": "block3/unit9/conv2/kernel",
    "patch_embed.backbone.stages.10.blocks.0.norm3.bias": "block11/unit1/gn3/bias",
}


@pytest.mark.parametrize("theirs, ours", NAMES.items())
def test_names_both_ways(theirs, ours):
    assert stem_key(theirs) == ours
    assert stem_name(ours, has_stages="stem" in theirs or "stages" in theirs) == theirs


FOREIGN = [
    "conv1.0.weight",
    "stem.conv1.weight",
    "stem.conv.bias",
    "stages.0.blocks.0.conv.weight",
    "stages.0.blocks.0.conv4.weight",
    "stages.0.blocks.0.downsample.conv1.weight",
    "stages.0.blocks.0.conv1.bias",
    "norm1.weight",
    "0.conv.weight",
]


@pytest.mark.parametrize("name", FOREIGN)
def test_other_stems_are_refused_by_name(name, hybrid):
    name = "patch_embed.backbone." + name
    assert stem_key(name) is None
    path = hybrid(change=lambda arrays: arrays.update({name: np.ones((1, 1, 3, 3), "float32")}))
    message = f"array {name!r}: the model has another stem than the paper's ResNet (GroupNorm and standardised"
    with pytest.raises(ValueError, match=re.escape(message)):
        vitkeras.from_checkpoint(path)


def test_faults_are_named_as_in_the_file(hybrid, golden):
    model = vitkeras.from_checkpoint(golden.path(GOLDEN[0]))
    gone = "patch_embed.backbone.stages.1.blocks.0.downsample.norm.weight"
    wrong = "patch_embed.backbone.stages.0.blocks.0.conv2.weight"

    def change(arrays):
        del arrays[gone]
        arrays[wrong] = arrays[wrong][:, :-1]

    with pytest.raises(ValueError, match="2 faults") as caught:
        vitkeras.load_checkpoint(model, hybrid(change=change))
    assert f"missing {gone!r}" in str(caught.value)
    assert re.search(rf"'{re.escape(wrong)}' must have shape \((\d+), \1, 3, 3\), received", str(caught.value))


def test_another_normalisation_is_refused(hybrid):
    with pytest.raises(ValueError, match="input_mean and input_std fold into a patch embedding only"):
        vitkeras.from_checkpoint(hybrid(), input_mean=0.4, input_std=0.3)
