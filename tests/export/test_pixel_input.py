"""Pixels in, for every family: exact at the border of a padded convolution, and one XNNPACK partition."""

import keras
import numpy as np
import pytest

import vitkeras
from vitkeras import layers
from vitkeras.export import graph, run_tflite, to_tflite
from vitkeras.models.axial import AxialViT
from vitkeras.models.resnet import ResNet

HEAD = {"classes": 7, "classifier_activation": None}


def hybrid():
    return vitkeras.VisionTransformer((45, 61, 3), 2, 1, 38, 2, 53, stem_blocks=(1,), stem_width_factor=0.5, **HEAD)


def resnet(**kwargs):
    return ResNet((29, 45, 3), (1,), 0.5, **{**HEAD, **kwargs})


def axial():
    return AxialViT((33, 55, 3), 11, 1, 38, 2, 53, **HEAD)


def around():
    """A user's model that scales its input before a model of this library."""
    inner = vitkeras.VisionTransformer((33, 55, 3), 11, 1, 38, 2, 53, include_top=False, pooling="token")
    image = keras.Input((33, 55, 3))
    return keras.Model(image, keras.layers.Dense(5, name="own_head")(inner(keras.layers.Rescaling(0.5)(image))))


FAMILIES = {
    "resnet": (resnet, True),
    "hybrid": (hybrid, True),
    "axial": (axial, False),
    "axial resnet": (lambda: resnet(attention_heads=4), True),
    "resnet features": (lambda: resnet(include_top=False, classes=None), True),
    "around": (around, True),
}

SLOW = ("axial", "axial resnet", "resnet features")


def randomise(model, rng):
    for variable in model.trainable_variables:
        centre = 1.0 if variable.name == "scale" else 0.0
        variable.assign(rng.normal(centre, 0.15, variable.shape).astype("float32"))
    return model


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in FAMILIES])
def test_a_file_of_each_family_takes_pixels(rng, tmp_path, name):
    build, explicit = FAMILIES[name]
    model = randomise(build(), rng)
    images = rng.integers(0, 256, (3, *model.input_shape[1:])).astype("float32")
    path = str(tmp_path / "net.tflite")
    report = to_tflite(model, path, preset="fp32")
    reference = keras.ops.convert_to_numpy(model(vitkeras.preprocess_input(images), training=False))
    scale = max(1.0, np.abs(reference).max())
    np.testing.assert_allclose(run_tflite(path, images), reference, rtol=0, atol=2e-5 * scale)
    assert (report.partitions, report.fully_accelerated) == (1, True)
    # The standardisation of the kernels is done before the file is written: no root of a variance is left of it.
    norms = sum(isinstance(layer, (layers.GroupNorm, layers.LayerNorm)) for layer in model._flatten_layers())
    assert report.operators.get("RSQRT", 0) == norms and not {"SQRT", "DIV"} & set(report.operators)
    clone = graph.export_model(model, True)
    assert any(isinstance(layer, graph.ScalePixels) for layer in clone.layers) == explicit


def test_baked_kernels_leave_the_model_alone(rng):
    model = randomise(resnet(), rng)
    before = [keras.ops.convert_to_numpy(v).copy() for v in model.variables]
    images = rng.normal(size=(2, 29, 45, 3)).astype("float32")
    clone = graph.export_model(model, False)
    for variable, old in zip(model.variables, before):
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(variable), old)
    root = keras.ops.convert_to_numpy(clone.get_layer("conv_root").kernel)
    np.testing.assert_allclose(root.mean(axis=(0, 1, 2)), 0, atol=1e-6)
    np.testing.assert_allclose(root.std(axis=(0, 1, 2)), 1, atol=1e-3)
    difference = keras.ops.convert_to_numpy(clone(images) - model(images))
    assert np.abs(difference).max() < 1e-5
    clone.get_layer("conv_root").kernel.assign(root + 1)  # used as it is, not standardised once more
    assert np.abs(keras.ops.convert_to_numpy(clone(images) - model(images))).max() > 1e-2


def test_operations_of_any_name_before_which_pixels_are_scaled(rng, tmp_path):
    image = keras.Input((13, 11, 3))
    x = keras.layers.Conv2D(5, 3)(image)
    x = x * keras.ops.sigmoid(x) - 0.25  # operations named "multiply" and "subtract", as the scaling's might be
    model = keras.Model(image, keras.layers.Dense(7)(keras.layers.Flatten()(x)))
    assert {"multiply", "subtract"} <= {operation.name.rstrip("_0123456789") for operation in model.operations}
    model.save(tmp_path / "m.keras")
    keras.backend.clear_session()  # as in a new process, where names begin anew
    model = keras.saving.load_model(tmp_path / "m.keras")
    images = rng.integers(0, 256, (3, 13, 11, 3)).astype("float32")
    to_tflite(model, str(tmp_path / "net.tflite"), preset="fp32")
    expected = keras.ops.convert_to_numpy(model(vitkeras.preprocess_input(images)))
    np.testing.assert_allclose(run_tflite(str(tmp_path / "net.tflite"), images), expected, atol=2e-4)
