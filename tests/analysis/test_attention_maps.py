"""Attention maps equal the original's, wherever the ViT sits."""

import json

import keras
import numpy as np
import pytest

import vitkeras

RNG = np.random.default_rng(23)
IMAGES = RNG.normal(size=(2, 21, 55, 2)).astype("float32")


def tiny(**overrides):
    return vitkeras.VisionTransformer((21, 55, 2), (3, 5), 2, 12, 3, 17, **{"classes": 7, **overrides})


def inner_maps(model, images=IMAGES):
    """The maps read off layer by layer, without recording."""
    blocks = [layer for layer in model.layers if isinstance(layer, vitkeras.layers.EncoderBlock)]
    inputs = keras.Model(model.input, [block.input for block in blocks])(images)
    inputs = inputs if isinstance(inputs, list) else [inputs]
    return [b.attention.attention_weights(b.attention_norm(x)) for b, x in zip(blocks, inputs, strict=True)]


@pytest.mark.parametrize("name", ["vit_token_32x32", "vit_gap", "ft_64to96_dst"])
def test_the_originals_maps(name, golden, assert_close):
    entry = json.loads((golden.path("vit_gap").parent / "manifest.json").read_text())[name]
    config, transformer = entry["config"], entry["config"]["transformer"]
    model = vitkeras.VisionTransformer(
        (*entry["image_hw"], 3),
        tuple(config["patches"]["size"]),
        transformer["num_layers"],
        config["hidden_size"],
        transformer["num_heads"],
        transformer["mlp_dim"],
        classifier=config["classifier"],
        classes=entry["num_classes"],
        weights=golden.path(name),
    )
    expected = golden(f"{name}_io")
    maps = vitkeras.analysis.attention_maps(model, expected["input"])
    assert_close(np.stack(maps), expected["attention"], atol=2e-5)
    assert_close(np.stack(maps).mean(axis=2), expected["attention_mean"], atol=2e-5)


def test_rows_sum_to_one_and_have_the_models_shapes(assert_close):
    maps = vitkeras.analysis.attention_maps(tiny(), IMAGES)
    assert [m.shape for m in maps] == [(2, 3, 78, 78)] * 2 and maps[0].dtype == np.float32
    assert_close(maps[1].sum(axis=-1), np.ones((2, 3, 78), "float32"), atol=1e-5)


def test_nested_wrapped_and_fine_tuned(assert_close):
    model = tiny(dropout_rate=0.3, attention_dropout_rate=0.3)
    expected = inner_maps(model)
    inner = tiny(include_top=False, pooling="token", dropout_rate=0.3, name="inner")
    for new, old in zip(inner.weights, model.weights):
        new.assign(old)
    nested = keras.Sequential([keras.layers.Rescaling(0.5), inner, keras.layers.Dense(3)])
    image = keras.Input((21, 55, 2))
    functional = keras.Model(image, keras.layers.Dense(3)(inner(image * 1.0)))

    class Wrapped(keras.Model):
        def __init__(self):
            super().__init__()
            self.backbone = inner

        def call(self, x, training=None):
            return self.backbone(x, training=training)

    for outer, images in (
        (vitkeras.with_new_head(model, 5), IMAGES),
        (nested, 2 * IMAGES),
        (functional, IMAGES),
        (Wrapped(), IMAGES),
    ):
        maps = vitkeras.analysis.attention_maps(outer, images)
        for actual, wanted in zip(maps, expected, strict=True):
            assert_close(actual, wanted, atol=1e-6)


def test_the_model_is_as_before():
    model = tiny()
    before = np.asarray(model(IMAGES))
    vitkeras.analysis.attention_maps(model, IMAGES)
    block = model.get_layer("encoder_block_00")
    assert "attention_weights" not in vars(block.attention)
    np.testing.assert_array_equal(np.asarray(model(IMAGES)), before)
    with pytest.raises(ValueError, match="incompatible"):
        vitkeras.analysis.attention_maps(model, IMAGES[:, :, :, :1])
    assert "attention_weights" not in vars(block.attention)


def test_mixed_precision_gives_float32():
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        maps = vitkeras.analysis.attention_maps(tiny(), IMAGES)
    finally:
        keras.config.set_dtype_policy("float32")
    assert maps[0].dtype == np.float32 and np.isfinite(maps[0]).all()


def test_axial_models_have_a_map_a_line():
    model = vitkeras.models.AxialViT((21, 55, 2), (3, 5), 2, 12, 3, 17, classes=7)
    maps = vitkeras.analysis.attention_maps(model, IMAGES)
    assert [m.shape for m in maps] == [(2 * 7, 3, 11, 11), (2 * 11, 3, 7, 7)] * 2


@pytest.mark.parametrize("axial", [False, True])
def test_many_images_are_those_one_by_one(axial, assert_close):
    model = vitkeras.models.AxialViT((21, 55, 2), (3, 5), 2, 12, 3, 17, classes=7) if axial else tiny()
    images = RNG.normal(size=(7, 21, 55, 2)).astype("float32")  # more than go through the model together
    maps = vitkeras.analysis.attention_maps(model, images)
    singles = [vitkeras.analysis.attention_maps(model, image[None]) for image in images]
    for layer, found in enumerate(maps):
        assert_close(found, np.concatenate([single[layer] for single in singles]), atol=1e-6)
    assert len(maps) == (4 if axial else 2) and np.abs(maps[0][0] - maps[0][-1]).max() > 1e-3


def test_relative_positions_are_in_the_map():
    model = tiny(position_embedding="relative")
    before = vitkeras.analysis.attention_maps(model, IMAGES)[0]
    relative = model.get_layer("encoder_block_00").attention.relative
    relative.embedding.assign(RNG.normal(size=relative.embedding.shape))
    assert np.abs(vitkeras.analysis.attention_maps(model, IMAGES)[0] - before).max() > 1e-3


def test_pixels_that_are_no_numbers_are_counted():
    images = np.array(IMAGES)
    images[0, 3, 5, 1], images[-1, 2, 7, 0] = np.nan, np.inf
    with pytest.raises(ValueError, match=f"images must be finite, received 2 of {images.size} values with nan or inf"):
        vitkeras.analysis.attention_maps(tiny(), images)


def test_a_model_without_attention_is_refused():
    image = keras.Input((21, 55, 2))
    with pytest.raises(ValueError, match="must hold a MultiHeadSelfAttention layer, 'plain' holds none"):
        vitkeras.analysis.attention_maps(keras.Model(image, image * 2.0, name="plain"), IMAGES)
