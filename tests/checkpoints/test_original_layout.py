"""Every way to write the original's layout gives the same bits, and its hybrids give the original's numbers."""

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
    with pytest.raises(ValueError, match="holds 16 positions, which may form more than one grid"):
        vitkeras.load_checkpoint(make(image=(64, 64)), path)
    for grid, first in (((3, 5), arrays[POSITION][0, 0]), ((4, 4), np.zeros(48))):
        model = vitkeras.from_checkpoint(path, position_grid=grid)
        assert model.input_shape == (None, grid[0] * 16, grid[1] * 16, 3)
        np.testing.assert_array_equal(
            keras.ops.convert_to_numpy(model.get_layer("position_embedding").embedding)[0, 0], first
        )


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
