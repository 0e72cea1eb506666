"""LayerNorm for int16: the same numbers in float, and tokens of different sizes kept apart in integers."""

import keras
import numpy as np
import pytest

import vitkeras
from vitkeras import layers
from vitkeras.export import tflite, to_tflite
from vitkeras.export.wide_norm import standardise, widen_norms


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 0.0])
def test_the_numbers_are_those_of_layer_norm(epsilon, assert_close):
    rng = np.random.default_rng(1)
    x = rng.normal(0.3, 1, (3, 7, 53)) * np.logspace(-5, 3, 21).reshape(3, 7, 1)
    centred = x - x.mean(-1, keepdims=True)
    expected = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)
    assert_close(standardise(keras.ops.convert_to_tensor(x, "float32"), epsilon), expected.astype("float32"), 1e-5)


def test_a_constant_token_is_zero(assert_close):
    x = np.full((2, 5), 3.0, "float32")
    assert_close(standardise(keras.ops.convert_to_tensor(x), 1e-6), np.zeros_like(x), 0)


def test_every_norm_is_exchanged_and_scales_stay(assert_close):
    model = vitkeras.VisionTransformer((24, 16, 3), 8, 2, 32, 2, 64, classes=7, classifier_activation=None)
    rng = np.random.default_rng(2)
    for variable in model.trainable_variables:
        variable.assign(rng.normal(variable.name == "scale", 0.15, variable.shape))
    x = rng.uniform(-1, 1, (3, 24, 16, 3)).astype("float32")
    before = keras.ops.convert_to_numpy(model(x))
    assert widen_norms(model) is model
    norms = [layer for layer in model._flatten_layers() if isinstance(layer, layers.LayerNorm)]
    assert len(norms) == 5 and all(norm.standardise.func is standardise for norm in norms)
    assert_close(model(x), before, 1e-5)


def small_net(seed):
    """A new net, whose class token is much smaller than its patches."""
    keras.utils.set_random_seed(seed)
    model = vitkeras.VisionTransformer((24, 16, 3), 8, 2, 32, 2, 64, classes=7, classifier_activation=None)
    rng = np.random.default_rng(5)
    for variable in model.get_layer("head").trainable_variables:
        variable.assign(rng.normal(0, 0.5, variable.shape))
    return model


def test_sixteen_bits_are_enough_for_small_tokens(tmp_path, monkeypatch):
    images = np.random.default_rng(11).integers(0, 256, (128, 24, 16, 3))
    options = {"calibration_images": images, "verify_images": images[:16], "overwrite": True}
    model, path = small_net(1), str(tmp_path / "net.tflite")
    assert to_tflite(model, path, "int16x8", **options).sqnr_db > 26
    monkeypatch.setattr(tflite, "widen_norms", lambda model: model)
    with pytest.raises(vitkeras.export.ExportError, match="'cosine' failed"):
        to_tflite(model, path, "int16x8", **options)
