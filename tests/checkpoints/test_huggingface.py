"""Hugging Face's layout: its golden numbers, both generations of names, and settings that must fit the arrays."""

import json
import re

import numpy as np
import pytest
from layout_files import hugging_face, read_safetensors

import vitkeras

TOLERANCE = 2e-5  # on float32 logits, as for every plain ViT here


def test_hugging_face(golden, assert_close):
    with np.load(hugging_face(golden) / "io.npz") as io:
        inputs, logits = io["input"], io["logits"]
    for path in (hugging_face(golden), hugging_face(golden) / "model.safetensors"):
        model = vitkeras.from_checkpoint(path, classifier_activation=None)
        assert_close(model(inputs), logits, atol=TOLERANCE)
    block = model.get_layer("encoder_block_01")
    assert (block.activation, block.layer_norm_epsilon) == ("gelu", 1e-12)
    assert model.get_layer("encoder_norm").epsilon == 1e-12


# The newer generation of Hugging Face's names, and a bare backbone with its pooler.

HF_NEWER = (
    ("encoder.layer.", "layers."),
    (".attention.attention.query.", ".attention.q_proj."),
    (".attention.attention.key.", ".attention.k_proj."),
    (".attention.attention.value.", ".attention.v_proj."),
    (".attention.output.dense.", ".attention.o_proj."),
    (".intermediate.dense.", ".mlp.fc1."),
    (".output.dense.", ".mlp.fc2."),
)


@pytest.fixture
def hf_folder(golden, save_safetensors, tmp_path):
    """`hf_folder(arrays, **settings)` -> a folder with both files."""

    def hf_folder(arrays=None, drop=(), **settings):
        source = hugging_face(golden)
        config = {**json.loads((source / "config.json").read_text()), **settings}
        arrays = arrays or read_safetensors(source / "model.safetensors")
        path = save_safetensors(arrays, "hf/model.safetensors")
        path.with_name("config.json").write_text(json.dumps({k: v for k, v in config.items() if k not in drop}))
        return path.parent

    return hf_folder


def test_both_generations_give_the_same_bits(golden, hf_folder, weights_of):
    arrays = read_safetensors(hugging_face(golden) / "model.safetensors")
    renamed = {}
    for key, value in arrays.items():
        for old, new in HF_NEWER:
            key = key.replace(old, new)
        renamed[key] = value
    assert "vit.layers.1.mlp.fc2.bias" in renamed and not any("encoder" in key for key in renamed)
    expected = weights_of(vitkeras.from_checkpoint(hugging_face(golden)))
    actual = weights_of(vitkeras.from_checkpoint(hf_folder(renamed)))
    assert [a.tobytes() for a in actual] == [b.tobytes() for b in expected]


def test_a_bare_backbone_with_a_pooler(golden, hf_folder, rng):
    arrays = read_safetensors(hugging_face(golden) / "model.safetensors")
    bare = {key.removeprefix("vit."): value for key, value in arrays.items() if not key.startswith("classifier")}
    bare |= {"pooler.dense.weight": rng.normal(size=(48, 48)).astype("f4"), "pooler.dense.bias": np.zeros(48, "f4")}
    folder = hf_folder(bare)
    assert vitkeras.from_checkpoint(folder, pooling="token").output_shape == (None, 48)
    model = vitkeras.from_checkpoint(folder, classes=5)
    assert model.output_shape == (None, 5)
    with pytest.raises(ValueError, match="has no head; use include_top=False, or give classes for a new one"):
        vitkeras.from_checkpoint(folder, include_top=True)


@pytest.mark.parametrize(
    "act, expected", [("gelu_new", "gelu_tanh"), ("gelu_pytorch_tanh", "gelu_tanh"), ("gelu", "gelu")]
)
def test_the_gelu_follows_the_settings(act, expected, hf_folder):
    assert vitkeras.from_checkpoint(hf_folder(hidden_act=act)).get_layer("encoder_block_00").activation == expected


HF_FAULTS = {
    "other model": (dict(model_type="deit"), "needs its config.json beside it, with model_type 'vit', received 'deit'"),
    "relu": (dict(hidden_act="relu"), "hidden_act of its config.json must be one of ('gelu', 'gelu_new', "),
    "no heads": (dict(num_attention_heads=None), "num_attention_heads of its config.json must be a positive int"),
    "epsilon": (
        dict(layer_norm_eps="1e-6"),
        "layer_norm_eps of its config.json must be a positive float, received '1e",
    ),
    "depth": (dict(num_hidden_layers=5), "its arrays say num_hidden_layers 2, its config.json says 5"),
    "width": (dict(hidden_size=64), "its arrays say hidden_size 48, its config.json says 64"),
    "patch": (dict(patch_size=14), "its arrays say patch_size 16, its config.json says 14"),
    "labels": (dict(id2label={"0": "a"}), "its head has 7 classes, id2label of its config.json has 1"),
    "size": (
        dict(image_size=64),
        "its positions form the grid (2, 2), images of (32, 32), and its settings say (64, 64)",
    ),
}


@pytest.mark.parametrize("settings, message", HF_FAULTS.values(), ids=HF_FAULTS)
def test_settings_that_contradict_the_arrays(settings, message, hf_folder):
    with pytest.raises(ValueError, match=re.escape(message)):
        vitkeras.from_checkpoint(hf_folder(**settings))


def test_settings_that_are_absent_or_damaged(hf_folder):
    folder = hf_folder()
    (folder / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"config.json' is damaged or not JSON \("):
        vitkeras.from_checkpoint(folder)
    (folder / "config.json").write_text("[]")
    with pytest.raises(ValueError, match="config.json' must hold a JSON object, received list"):
        vitkeras.from_checkpoint(folder)
    (folder / "config.json").unlink()
    with pytest.raises(ValueError, match="needs its config.json beside it, with model_type 'vit', received None"):
        vitkeras.from_checkpoint(folder)


def test_a_folder_of_something_else(tmp_path):
    with pytest.raises(FileNotFoundError, match="has neither model.safetensors nor model.safetensors.index.json"):
        vitkeras.from_checkpoint(tmp_path)


def test_another_scale_of_pixels_is_refused(hf_folder):
    folder = hf_folder()
    (folder / "preprocessor_config.json").write_text(json.dumps({"rescale_factor": 1 / 127.5}))
    with pytest.raises(ValueError, match="its preprocessor_config.json must be 1/255, received 0.00784"):
        vitkeras.from_checkpoint(folder)


@pytest.mark.parametrize("said", [{"do_normalize": True}, {}], ids=["said", "default"])
def test_the_normalisation_beside_the_weights_is_folded(golden, hf_folder, assert_close, said):
    folder = hf_folder()
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    settings = {**said, "image_mean": mean, "image_std": std}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    with np.load(hugging_face(golden) / "io.npz") as io:
        inputs, logits = io["input"], io["logits"]
    model = vitkeras.from_checkpoint(folder, classifier_activation=None)
    # The file's own input, undone to -1...1.
    ours = ((inputs * np.array(std) + np.array(mean)) * 2 - 1).astype("float32")
    assert_close(model(ours), logits, atol=TOLERANCE)
