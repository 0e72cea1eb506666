"""`at_resolution` and `with_new_head`: new models with the old one's weights, the old one left alone."""

import re

import keras
import numpy as np
import pytest
from backends import randomise

import vitkeras
from vitkeras.layers.position_embedding import resize_position_embedding


def numpy(x):
    return keras.ops.convert_to_numpy(keras.ops.cast(x, "float32"))


def tiny(**arguments):
    arguments = {**dict(input_shape=(21, 55, 2), classes=13, classifier_activation=None), **arguments}
    return randomise(vitkeras.VisionTransformer(arguments.pop("input_shape"), (3, 5), 2, 21, 3, 23, **arguments))


def snapshot(model):
    return {weight.path: keras.ops.convert_to_numpy(weight).copy() for weight in model.weights}


def assert_same(first, second):
    assert first.keys() == second.keys()
    for path, array in first.items():
        np.testing.assert_array_equal(array, second[path], err_msg=path)


@pytest.fixture
def images(rng):
    return rng.uniform(-1, 1, size=(2, 21, 55, 2)).astype("float32")


@pytest.mark.parametrize("method", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(33, 35), (9, 85), 45])
def test_at_resolution_resizes_the_positions_and_copies_the_rest(size, method, rng):
    model = tiny(representation_size=17)
    before = snapshot(model)
    new = vitkeras.at_resolution(model, size, method)
    height, width = (size, size) if isinstance(size, int) else size
    assert new.input_shape == (None, height, width, 2) and new.name == model.name
    expected = dict(before)
    path = "position_embedding/embedding"
    expected[path] = resize_position_embedding(before[path], (7, 11), (height // 3, width // 5), 1, method)
    assert_same(snapshot(new), expected)
    assert_same(snapshot(model), before)
    assert tuple(new(rng.normal(size=(1, height, width, 2))).shape) == (1, 13)


def test_at_resolution_equals_loading_the_checkpoint_at_that_size(golden, assert_close):
    def build(size, **arguments):
        return vitkeras.VisionTransformer((*size, 3), 16, 2, 48, 3, 96, classes=7, **arguments)

    path, size = golden.path("ft_64to96_src"), (96, 128)
    loaded, moved = build(size, weights=path), vitkeras.at_resolution(build((64, 64), weights=path), size)
    assert_same(snapshot(moved), snapshot(loaded))
    x = np.random.default_rng(3).normal(size=(1, *size, 3)).astype("float32")
    assert_close(moved(x), loaded(x), atol=1e-6)


def test_at_resolution_of_the_same_size_gives_the_same_numbers(images):
    model = tiny()
    np.testing.assert_array_equal(numpy(vitkeras.at_resolution(model, (21, 55))(images)), numpy(model(images)))


def test_at_resolution_without_position_embedding(images):
    model = tiny(position_embedding="none", classifier="gap")
    new = vitkeras.at_resolution(model, (42, 55))
    doubled = np.concatenate([images, images], axis=1)  # every patch twice: attention and the mean don't notice
    np.testing.assert_allclose(numpy(new(doubled)), numpy(model(images)), atol=1e-5)


def test_at_resolution_keeps_dtype_dropout_and_what_is_frozen():
    keras.config.set_dtype_policy("mixed_bfloat16")
    model = tiny(dropout_rate=0.3, stochastic_depth_rate=0.2, activation="gelu", layer_norm_epsilon=1e-3)
    keras.config.set_dtype_policy("float32")
    model.get_layer("encoder_block_00").trainable = False
    new = vitkeras.at_resolution(model, (42, 55))
    block = new.get_layer("encoder_block_01")
    assert block.dtype_policy.name == block.mlp.expand.dtype_policy.name == "mixed_bfloat16"
    assert new.get_layer("head").dtype_policy.name == "float32"
    assert (block.dropout_rate, block.stochastic_depth_rate, block.activation) == (0.3, 0.2, "gelu")
    assert block.layer_norm_epsilon == 1e-3
    assert not new.get_layer("encoder_block_00").trainable and block.trainable


def test_at_resolution_of_a_model_on_an_input_tensor(images, assert_close):
    tensor = keras.layers.Rescaling(1 / 127.5, -1)(keras.Input((21, 55, 2), name="pixels"))
    model = tiny(input_tensor=tensor)
    new = vitkeras.at_resolution(model, (42, 55))
    assert new.input_shape == (None, 42, 55, 2) and new.inputs[0].name == "pixels"
    pixels = np.tile((images + 1) * 127.5, (1, 2, 1, 1))
    plain = vitkeras.at_resolution(tiny(), (42, 55))
    assert_close(new(pixels), plain(pixels / 127.5 - 1), atol=1e-4)


@pytest.mark.parametrize(
    "size, method, message",
    [
        ((22, 55), "bilinear", "image_size must be a multiple of the patch size (3, 5), received (22, 55)."),
        ((21, 56), "bilinear", "image_size must be a multiple of the patch size (3, 5), received (21, 56)."),
        ((0, 55), "bilinear", "image_size must be a positive int or a pair (height, width) of them, received (0, 55)."),
        ((42, 55), "nearest", "method must be one of ('bilinear', 'bicubic'), received 'nearest'."),
        ((21, 55), "nearest", "method must be one of ('bilinear', 'bicubic'), received 'nearest'."),
    ],
)
@pytest.mark.parametrize("position_embedding", ["learned_1d", "none"])
def test_at_resolution_errors(size, method, message, position_embedding):
    with pytest.raises(ValueError, match=re.escape(message)):
        vitkeras.at_resolution(tiny(position_embedding=position_embedding), size, method)


def test_two_patch_embeddings_are_refused():
    image = keras.Input((21, 55, 2))
    maps = [vitkeras.layers.PatchEmbedding((3, 5), 4)(image) for _ in range(2)]
    other = keras.Model(image, keras.layers.Add()(maps), name="other")
    with pytest.raises(ValueError, match="model must hold one PatchEmbedding layer, 'other' holds 2."):
        vitkeras.at_resolution(other, (24, 60))


@pytest.mark.parametrize("arguments", [dict(), dict(representation_size=17), dict(classifier="gap")], ids=str)
def test_with_new_head_keeps_the_backbone_and_starts_at_zero(arguments, images):
    model = tiny(**arguments)
    before = snapshot(model)
    new = vitkeras.with_new_head(model, 5)
    names = [layer.name for layer in new.layers]
    assert "pre_logits" not in names and names[-2:] == ["pool", "head"] and new.output_shape == (None, 5)
    after = snapshot(new)
    assert not after.pop("head/kernel").any() and not after.pop("head/bias").any()
    assert_same(after, {k: v for k, v in before.items() if not k.startswith(("head/", "pre_logits/"))})
    np.testing.assert_allclose(numpy(new(images)), np.full((2, 5), 0.2), rtol=1e-6)
    new.get_layer("encoder_block_00").mlp.expand.kernel.assign(np.ones((21, 23)))
    assert_same(snapshot(model), before)


@pytest.mark.parametrize("pooling", ["token", "avg", "max"])
def test_with_new_head_on_a_backbone_with_pooling(pooling, images):
    backbone = tiny(include_top=False, pooling=pooling)
    new = vitkeras.with_new_head(backbone, 5, classifier_activation=None)
    features = keras.Model(new.input, new.get_layer("head").input)
    np.testing.assert_array_equal(numpy(features(images)), numpy(backbone(images)))
    assert new.get_layer("head").activation is keras.activations.linear


def test_with_new_head_keeps_dropout_and_gives_float32_scores_under_mixed_precision(images):
    keras.config.set_dtype_policy("mixed_bfloat16")
    model = tiny(dropout_rate=0.3)
    keras.config.set_dtype_policy("float32")
    new = vitkeras.with_new_head(model, 5)
    assert new.get_layer("encoder_block_01").dtype_policy.name == "mixed_bfloat16"
    assert new.get_layer("encoder_block_01").dropout_rate == 0.3
    assert keras.backend.standardize_dtype(new(images).dtype) == "float32"


def test_with_new_head_can_be_saved_and_rebuilt_again(images, tmp_path):
    new = vitkeras.at_resolution(vitkeras.with_new_head(tiny(representation_size=17), 5), (42, 55))
    randomise(new)
    new.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    x = np.tile(images, (1, 2, 1, 1))
    np.testing.assert_array_equal(numpy(again(x)), numpy(new(x)))


@pytest.mark.parametrize("classes", [0, -3, 2.0, "5"])
def test_with_new_head_refuses_other_numbers_of_classes(classes):
    with pytest.raises(ValueError, match=re.escape(f"classes must be a positive int, received {classes!r}.")):
        vitkeras.with_new_head(tiny(), classes)


@pytest.mark.parametrize(
    "call",
    [
        lambda m: vitkeras.at_resolution(m, (42, 55)),
        lambda m: vitkeras.with_new_head(m, 5),
        lambda m: vitkeras.features(m, (0,)),
    ],
)
def test_a_sequential_is_refused(call):
    inner = tiny()
    wrapped = keras.Sequential([keras.Input(inner.input_shape[1:]), inner], name="outer")
    message = (
        f"model must be functional, 'outer' is a Sequential: pass the model inside it, model.get_layer({inner.name!r})."
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        call(wrapped)
    alone = keras.Sequential([keras.Input(inner.input_shape[1:]), keras.layers.Flatten()], name="flat")
    with pytest.raises(ValueError, match="model must be functional, 'flat' is a Sequential\\.$"):
        call(alone)


def test_with_new_head_refuses_a_backbone_without_pooling():
    message = (
        "model must give one vector an image to carry a head, its features have shape (None, 78, 21); "
        "build it with a pooling, such as 'avg'."
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        vitkeras.with_new_head(tiny(include_top=False), 5)


def test_models_whose_input_is_a_list_are_rebuilt_too(rng):
    model = tiny()
    listed = keras.Model([model.input], model.output)
    moved = vitkeras.at_resolution(vitkeras.with_new_head(listed, 5), (42, 55))
    assert tuple(moved([rng.normal(size=(1, 42, 55, 2)).astype("float32")]).shape) == (1, 5)
