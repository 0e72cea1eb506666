"""Intermediate features of every kind of model."""

import re

import keras
import numpy as np
import pytest

import vitkeras

RNG = np.random.default_rng(29)
IMAGES = RNG.normal(size=(2, 21, 55, 2)).astype("float32")


def tiny(**overrides):
    return vitkeras.VisionTransformer((21, 55, 2), (3, 5), 3, 12, 3, 17, **{"classes": 7, **overrides})


def numpy(x):
    return keras.ops.convert_to_numpy(x)


def block_outputs(model, images=IMAGES):
    blocks = [layer.output for layer in model.layers if isinstance(layer, vitkeras.layers.EncoderBlock)]
    return [numpy(x) for x in keras.Model(model.input, blocks)(images)]


@pytest.mark.parametrize("classifier, prefix", [("token", 1), ("gap", 0), ("token_unpooled", 1), ("unpooled", 0)])
def test_maps_are_the_patch_tokens(classifier, prefix):
    model = tiny(classifier=classifier)
    tokens = block_outputs(model)
    maps = vitkeras.features(model, (2, 0, -2))(IMAGES)
    for actual, index in zip(maps, (2, 0, 1), strict=True):
        assert actual.shape == (2, 7, 11, 12)
        np.testing.assert_array_equal(numpy(actual), tokens[index][:, prefix:].reshape(2, 7, 11, 12))


def test_tokens_and_norm(assert_close):
    model = tiny(include_top=False)
    norm = model.get_layer("encoder_norm")
    norm.bias.assign(RNG.normal(size=12))
    tokens = block_outputs(model)
    plain = vitkeras.features(model, [1], as_maps=False)(IMAGES)
    np.testing.assert_array_equal(numpy(plain), tokens[1])
    normed = vitkeras.features(model, [1, 2], as_maps=False, norm=True)(IMAGES)
    assert_close(numpy(normed[0]), numpy(norm(tokens[1])), atol=1e-6)
    assert_close(numpy(normed[1]), numpy(model(IMAGES)), atol=1e-6)


def test_weights_are_shared():
    model = tiny()
    backbone = vitkeras.features(model, (0,))
    before = numpy(backbone(IMAGES))
    model.get_layer("encoder_block_00").mlp.project.bias.assign(np.ones(12))
    np.testing.assert_allclose(numpy(backbone(IMAGES)), before + 1, atol=1e-5)


def test_any_image_size():
    model = vitkeras.VisionTransformer((None, None, 2), (3, 5), 3, 12, 3, 17, classes=7, grid_size=(7, 11))
    backbone = vitkeras.features(model, (1,))
    for size, grid in (((21, 55), (7, 11)), ((33, 35), (11, 7))):
        actual = backbone(np.zeros((2, *size, 2), "float32"))
        assert actual.shape == (2, *grid, 12)


def test_hybrid_axial_and_resnet():
    hybrid = vitkeras.VisionTransformer((64, 96, 3), 1, 2, 12, 3, 17, stem_blocks=(1, 1), stem_width_factor=0.5)
    assert [tuple(x.shape) for x in vitkeras.features(hybrid, (0, 1)).outputs] == [(None, 8, 12, 12)] * 2
    axial = vitkeras.models.AxialViT((21, 55, 2), (3, 5), 2, 12, 3, 17)
    assert [tuple(x.shape) for x in vitkeras.features(axial, (1,)).outputs] == [(None, 7, 11, 12)]
    assert [tuple(x.shape) for x in vitkeras.features(axial, (1,), as_maps=False).outputs] == [(None, 77, 12)]
    resnet = vitkeras.models.ResNet((64, 96, 3), (2, 1, 1), 0.5)
    backbone = vitkeras.features(resnet, (0, 1, -1))
    assert [tuple(x.shape) for x in backbone.outputs] == [(None, 16, 24, 128), (None, 8, 12, 256), (None, 4, 6, 512)]
    assert backbone.name == "resnet_features"


def test_the_map_layer_keeps_its_configuration_and_the_raster_order():
    layer = vitkeras.layers.TokenMap.from_config(vitkeras.layers.TokenMap(2, name="given").get_config())
    assert layer.num_prefix_tokens == 2 and layer.name == "given"
    tokens = RNG.normal(size=(3, 2 + 5 * 7, 11)).astype("float32")
    result = numpy(layer(tokens, np.zeros((3, 5, 7, 1), "float32")))
    np.testing.assert_array_equal(result, tokens[:, 2:].reshape(3, 5, 7, 11))
    assert layer.compute_output_shape((3, 37, 11), (3, 5, 7, 1)) == result.shape


def test_saved_and_loaded(tmp_path):
    backbone = vitkeras.features(tiny(), (0, 2), norm=True)
    backbone.save(tmp_path / "b.keras")
    loaded = keras.saving.load_model(tmp_path / "b.keras")
    for old, new in zip(backbone(IMAGES), loaded(IMAGES), strict=True):
        np.testing.assert_array_equal(numpy(old), numpy(new))


@pytest.mark.parametrize("layers", [(), (3,), (-4,), ("1",), (1.0,), (True,), 3, "1"])
def test_unknown_layers(layers):
    with pytest.raises(
        ValueError, match=rf"layers must be a sequence of ints in -3\.\.\.2, received {re.escape(repr(layers))}\."
    ):
        vitkeras.features(tiny(), layers)


def test_other_refusals():
    resnet = vitkeras.models.ResNet((64, 96, 3), (1,), 0.5)
    for option in (dict(norm=True), dict(as_maps=False)):
        with pytest.raises(ValueError, match="are for ViTs, received them for 'resnet'"):
            vitkeras.features(resnet, (0,), **option)
    image = keras.Input((21, 55, 2))
    with pytest.raises(ValueError, match="must hold encoder blocks or ResNet stages, 'plain' holds none"):
        vitkeras.features(keras.Model(image, image * 2.0, name="plain"), (0,))
