"""Every layout gives the numbers of its source, and every way to write the original's gives the same bits."""

import json
import re

import keras
import numpy as np
import pytest

import vitkeras
from vitkeras.checkpoints.timm import is_timm

TOLERANCE = 2e-5  # on float32 logits, as for every plain ViT here
HYBRID_TOLERANCE = 1e-4  # as the golden files' notes suggest: standardised kernels amplify rounding
POSITION = "Transformer/posembed_input/pos_embedding"
NEWER = {
    "MultiHeadDotProductAttention_1": "MultiHeadDotProductAttention_0",
    "MlpBlock_3": "MlpBlock_0",
    "LayerNorm_2": "LayerNorm_1",
}


def newer(arrays):
    """The arrays under the linen names."""

    def rename(key):
        for old, new in NEWER.items():
            key = key.replace(old, new)
        return key

    return {rename(key): value for key, value in arrays.items()}


def prefixed(prefix):
    return lambda arrays: {prefix + key: value for key, value in arrays.items()}


def top_level_position(arrays):
    return {("pos_embedding" if key == POSITION else key): value for key, value in arrays.items()}


def stacked(arrays):
    """All blocks of an array along a new first axis, as big_vision's scan writes them."""
    out = {}
    for key, value in arrays.items():
        match = re.fullmatch(r"(.*Transformer/encoderblock)_(\d+)/(.+)", key)
        if match is None:
            out[key] = value
        elif match[2] == "0":
            out[f"{match[1]}/{match[3]}"] = np.stack([value, arrays[f"{match[1]}_1/{match[3]}"]])
    return out


def with_optimiser_state(arrays):
    state = {f"opt/state/param_states/{key}/momentum": value for key, value in arrays.items()}
    return {**prefixed("opt/target/")(arrays), **state, "opt/state/step": np.array(7)}


def with_extra(arrays):
    return {**prefixed("params/")(arrays), "opt/0/count": np.array(3), "extra/step": np.array(5)}


def with_text_tower(arrays):
    text = {"params/txt/embedding/kernel": np.ones((3, 5), "f4"), "params/t": np.ones(1, "f4"), "params/b": np.zeros(1)}
    return {**prefixed("params/img/")(top_level_position(newer(arrays))), **text}


REWRITES = {
    "newer names": newer,
    "opt/target/": prefixed("opt/target/"),
    "params/": prefixed("params/"),
    "params/img/": prefixed("params/img/"),
    "img/": prefixed("img/"),
    "target/": prefixed("target/"),
    "position at top level": lambda a: top_level_position(newer(a)),
    "stacked": lambda a: stacked(newer(a)),
    "stacked, prefixed": lambda a: prefixed("params/")(stacked(newer(a))),
    "stacked, first names": stacked,
    "optimiser state": with_optimiser_state,
    "optimiser state beside": lambda a: {**a, "opt/state/step": np.array(3)},
    "training state": with_extra,
    "text tower": with_text_tower,
    "reversed": lambda a: dict(reversed(a.items())),
}


@pytest.mark.parametrize("rewrite", REWRITES.values(), ids=REWRITES)
def test_every_way_to_write_it_gives_the_same_bits(rewrite, golden, save, make, weights_of):
    model = make(weights=golden.path("vit_token_rep24"), representation_size=24)
    expected = [a.tobytes() for a in weights_of(model)]
    for weight in model.weights:
        weight.assign(np.zeros(weight.shape))
    vitkeras.load_checkpoint(model, save(rewrite(golden("vit_token_rep24"))))
    assert [a.tobytes() for a in weights_of(model)] == expected


@pytest.mark.parametrize("name", ["hybrid_r11_w05_smallvar"])
@pytest.mark.parametrize("rewrite", ["opt/target/", "optimiser state", "stacked, prefixed"])
def test_hybrids_are_written_in_as_many_ways(name, rewrite, golden, save, weights_of):
    arrays = golden(name)
    plain_maps = {key: value.reshape(value.shape[-1:]) if "gn" in key else value for key, value in arrays.items()}
    expected = weights_of(vitkeras.from_checkpoint(golden.path(name)))
    for content in (arrays, plain_maps):
        actual = weights_of(vitkeras.from_checkpoint(save(REWRITES[rewrite](content))))
        assert [a.tobytes() for a in actual] == [b.tobytes() for b in expected]


def test_positions_before_the_class_token(arrays, save, make, golden, assert_close):
    """big_vision adds no position to the class token: an old file is converted by adding it into the token."""
    position = arrays.pop(POSITION)
    arrays["cls"] = arrays["cls"] + position[:, :1]
    arrays["pos_embedding"] = position[:, 1:]
    model = make(weights=save(prefixed("params/")(newer(arrays))))
    layer = model.get_layer("position_embedding").embedding
    assert not keras.ops.convert_to_numpy(layer)[0, 0].any()
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(layer)[:, 1:], position[:, 1:])
    io = golden("vit_token_32x32_io")
    assert_close(model(io["input"]), io["logits"], atol=TOLERANCE)


def test_positions_before_the_class_token_at_another_size(arrays, save, make, rng):
    arrays["pos_embedding"] = rng.normal(size=(1, 16, 48)).astype("float32")
    del arrays[POSITION]
    path = save(newer(arrays))
    with pytest.warns(UserWarning, match="tuned at 64x64 pixels and is loaded at 48x80"):
        model = make(image=(48, 80), weights=path)
    expected = vitkeras.layers.position_embedding.resize_position_embedding(arrays["pos_embedding"], (4, 4), (3, 5), 0)
    actual = keras.ops.convert_to_numpy(model.get_layer("position_embedding").embedding)
    np.testing.assert_array_equal(actual[:, 1:], expected)
    assert vitkeras.from_checkpoint(path).input_shape == (None, 64, 64, 3)


def test_sixteen_positions_of_the_first_names_are_no_square_without_a_class_token(arrays, save, make, rng):
    """3 x 5 patches and a class token, or 4 x 4 patches: only a given grid decides."""
    arrays[POSITION] = rng.normal(size=(1, 16, 48)).astype("float32")
    path = save(arrays)
    with pytest.raises(ValueError, match="holds 15 positions, which may form more than one grid"):
        vitkeras.load_checkpoint(make(image=(64, 64)), path)
    for grid, first in (((3, 5), arrays[POSITION][0, 0]), ((4, 4), np.zeros(48))):
        model = vitkeras.from_checkpoint(path, position_grid=grid)
        assert model.input_shape == (None, grid[0] * 16, grid[1] * 16, 3)
        np.testing.assert_array_equal(
            keras.ops.convert_to_numpy(model.get_layer("position_embedding").embedding)[0, 0], first
        )


# Golden numbers of the other sources.


def test_the_linen_file_of_the_original(golden, make, assert_close):
    model = make(weights=golden.path("vit_token_32x32_linenkeys"))
    io = golden("vit_token_32x32_io")
    assert_close(model(io["input"]), io["logits"], atol=TOLERANCE)


@pytest.mark.parametrize("name", ["hybrid_r111_w05_p1", "hybrid_r11_w05_smallvar"])
def test_hybrids_equal_the_original_step_by_step(name, golden, assert_close):
    model = vitkeras.from_checkpoint(golden.path(name), classifier_activation=None)
    io = golden(f"{name}_io")
    blocks = [layer for layer in model.layers if layer.name.startswith("encoder_block")]
    steps = keras.Model(
        model.input,
        {
            "logits": model.output,
            "encoded": model.get_layer("encoder_norm").output,
            "pre_logits": model.get_layer("head").input,
            "block_in": [block.input for block in blocks],
        },
    )(io["input"])
    for key in ("logits", "encoded", "pre_logits"):
        assert_close(steps[key], io[key], atol=HYBRID_TOLERANCE)
    pairs = zip(blocks, steps["block_in"])
    attention = [np.asarray(block.attention.attention_weights(block.attention_norm(x))) for block, x in pairs]
    assert_close(np.stack(attention), io["attention"], atol=HYBRID_TOLERANCE)
    assert model.count_params() == json.loads((golden.path(name).parent / "manifest.json").read_text())[name]["params"]


def timm(golden):
    return golden.path(".").parent / "timm_vit_32x32.safetensors"


def hugging_face(golden):
    return golden.path(".").parent / "hf_vit_32x32"


def test_timm(golden, assert_close):
    model = vitkeras.from_checkpoint(timm(golden), classifier_activation=None, num_heads=3)
    io = golden("timm_vit_32x32_io")
    assert_close(model(io["input"]), io["logits"], atol=TOLERANCE)
    encoded = keras.Model(model.input, model.get_layer("encoder_norm").output)(io["input"])
    assert_close(encoded, io["encoded"], atol=TOLERANCE)
    block = model.get_layer("encoder_block_00")
    assert (block.activation, block.layer_norm_epsilon) == ("gelu", 1e-6)


def test_hugging_face(golden, assert_close):
    with np.load(hugging_face(golden) / "io.npz") as io:
        inputs, logits = io["input"], io["logits"]
    for path in (hugging_face(golden), hugging_face(golden) / "model.safetensors"):
        model = vitkeras.from_checkpoint(path, classifier_activation=None)
        assert_close(model(inputs), logits, atol=TOLERANCE)
    block = model.get_layer("encoder_block_01")
    assert (block.activation, block.layer_norm_epsilon) == ("gelu", 1e-12)
    assert model.get_layer("encoder_norm").epsilon == 1e-12


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


def read_safetensors(path):
    from vitkeras.checkpoints.safetensors import SafetensorsFile

    with SafetensorsFile(path) as file:
        return {name: file.read(name) for name in file.headers}


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
    with pytest.raises(FileNotFoundError, match="has no model.safetensors"):
        vitkeras.from_checkpoint(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text("{}")
    with pytest.raises(ValueError, match="holds its weights in several files"):
        vitkeras.from_checkpoint(tmp_path)


def test_the_normalisation_beside_the_weights_is_folded(golden, hf_folder, assert_close):
    folder = hf_folder()
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    settings = {"do_normalize": True, "image_mean": mean, "image_std": std}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    with np.load(hugging_face(golden) / "io.npz") as io:
        inputs, logits = io["input"], io["logits"]
    model = vitkeras.from_checkpoint(folder, classifier_activation=None)
    # The file's own input, undone to -1...1.
    ours = ((inputs * np.array(std) + np.array(mean)) * 2 - 1).astype("float32")
    assert_close(model(ours), logits, atol=TOLERANCE)


# timm's variants: what is exact, and what is refused by name.


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
    "patch_embed.backbone.stem.conv.weight": "a hybrid in timm's naming",
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
    with pytest.raises(ValueError, match=r"mean and std of its config.json must be lists of floats, received \[0.5"):
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


def test_stacked_faults_name_the_part(arrays, save, refused):
    content = stacked(newer(arrays))
    key = "Transformer/encoderblock/LayerNorm_0/scale"
    content[key] = np.ones((3, 48), "float32")
    del content["Transformer/encoderblock/MlpBlock_0/Dense_0/bias"]
    text = refused(save(content), "(3 faults): ")
    assert f"unexpected '{key}[2]'" in text
    assert "missing 'Transformer/encoderblock/MlpBlock_0/Dense_0/bias[1]'" in text


@pytest.mark.parametrize("shape", [(), (0, 48), (5000, 48)])
def test_stacks_of_no_possible_depth(shape, arrays, save, refused):
    content = stacked(arrays)
    content["Transformer/encoderblock/LayerNorm_0/scale"] = np.ones(shape, "float32")
    refused(save(content), "unexpected 'Transformer/encoderblock/LayerNorm_0/scale'")


def test_an_array_of_both_generations_is_refused(arrays, save, refused):
    both = {**arrays, "Transformer/encoderblock_0/LayerNorm_1/bias": np.ones(48, "float32")}
    refused(save(both), "holds 'Transformer/encoderblock_0/LayerNorm_2/bias' twice: as ")


def test_names_of_no_layout(save_safetensors, refused, rng):
    path = save_safetensors({"conv1.weight": np.ones(3, "f4"), "fc.bias": np.ones(3, "f4")})
    refused(path, "has array names of no known layout (timm, Hugging Face ViT, the original), such as ['conv1.weight'")


def test_the_originals_names_in_a_safetensors_file(arrays, save_safetensors, make, golden, weights_of):
    assert not is_timm(arrays)
    actual = weights_of(make(weights=save_safetensors(arrays)))
    expected = weights_of(make(weights=golden.path("vit_token_32x32")))
    assert [a.tobytes() for a in actual] == [b.tobytes() for b in expected]


# A source that knows better than the model.


CONTRADICTIONS = {
    "activation": (dict(activation="gelu_tanh"), "activation must be 'gelu', that of checkpoint"),
    "epsilon": (dict(layer_norm_epsilon=1e-3), "layer_norm_epsilon must be 1e-06, that of checkpoint"),
}


@pytest.mark.parametrize("arguments, message", CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_an_explicit_contradiction_is_refused(arguments, message, golden, make, refused):
    refused(timm(golden), message, make(**{"activation": "gelu", **arguments}))
    with pytest.raises(ValueError, match=re.escape(message)):
        vitkeras.from_checkpoint(timm(golden), num_heads=3, **arguments)
    with pytest.raises(ValueError, match=re.escape(message)):
        make(weights=timm(golden), **arguments)


def test_heads_that_contradict_the_settings(golden, make, refused):
    model = vitkeras.VisionTransformer(
        (32, 32, 3), 16, 2, 48, 4, 96, classes=7, activation="gelu", layer_norm_epsilon=1e-12
    )
    refused(hugging_face(golden), "num_heads must be 3, that of checkpoint", model)
    with pytest.raises(ValueError, match="num_heads must be 3, that of checkpoint .*, received 4"):
        vitkeras.from_checkpoint(hugging_face(golden), num_heads=4)


def test_weights_brings_the_sources_constants(golden, make):
    for path, epsilon in ((timm(golden), 1e-6), (hugging_face(golden), 1e-12)):
        block = make(weights=path).get_layer("encoder_block_00")
        assert (block.activation, block.layer_norm_epsilon) == ("gelu", epsilon)


def test_the_variant_functions_take_them_too(golden, rng):
    body = dict(num_layers=2, hidden_dim=48, num_heads=3, mlp_dim=96)
    for path in (timm(golden), hugging_face(golden), str(hugging_face(golden))):
        model = vitkeras.ViTTi16(weights=path, **body)
        assert model.input_shape == (None, 32, 32, 3) and model.output_shape == (None, 7)
        assert model.get_layer("encoder_block_00").activation == "gelu"


def test_the_original_layout_says_nothing_of_the_gelu(golden, make):
    model = make(activation="gelu", layer_norm_epsilon=1e-5, weights=golden.path("vit_token_32x32"))
    assert model.get_layer("encoder_block_00").activation == "gelu"
