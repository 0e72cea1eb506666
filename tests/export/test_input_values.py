"""Models of others that take 0...255: found, and exported without a second scaling."""

import warnings

import keras
import numpy as np
import pytest
from keras import layers, ops

from vitkeras.export import ExportError, cli, run_tflite, to_saved_model, to_tflite
from vitkeras.models.own_scaling import scaling_operation

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras' preprocessing


def net(scaled, behind=lambda x: x):
    """A small net of random weights behind `scaled`, a function of its input."""
    keras.utils.set_random_seed(5)
    image = keras.Input((13, 11, 3), name="image")
    x = behind(layers.Conv2D(5, 3, activation="relu")(scaled(image)))
    return keras.Model(image, layers.Dense(7, name="out")(layers.GlobalAveragePooling2D()(x)), name="own")


def nested(image):
    return keras.Sequential([layers.Rescaling(1 / 255, name="within")], name="before")(image)


SCALED = {
    "rescaling": (lambda x: layers.Rescaling(1 / 255, name="scale_it")(x), "scale_it"),
    "nested": (nested, "within"),
    "normalization": (
        lambda x: layers.Normalization(mean=[120.0, 110, 100], variance=[3600.0] * 3, name="norm")(x),
        "norm",
    ),
    "mean": (lambda x: layers.Rescaling(1.0, -127.5, name="centre_it")(x), "centre_it"),
    "quotient": (lambda x: x / 255.0, "true_divide"),
    "divide": (lambda x: ops.divide(x, 255), "divide"),
    "product": (lambda x: 0.004 * x, "multiply"),
    "difference": (lambda x: (x - 127.5) * (1 / 127.5), "subtract"),
    "a row": (lambda x: x - np.array([123.7, 116.8, 103.9], "float32"), "subtract"),
}
UNSCALED = {
    "nothing": net(lambda x: x),
    "small": net(lambda x: layers.Rescaling(0.5)(x) * 2.0 - 0.5),
    "deep within": net(lambda x: x, behind=lambda x: x / 255.0),
    "two tensors": net(lambda x: x + ops.tanh(x)),
}


@pytest.mark.parametrize("name", SCALED)
def test_scaling_is_found(name):
    scaled, operation = SCALED[name]
    assert scaling_operation(net(scaled)).startswith(operation)


@pytest.mark.parametrize("name", UNSCALED)
def test_other_operations_are_no_scaling(name):
    assert scaling_operation(UNSCALED[name]) is None


def test_this_librarys_models_do_not_scale(make):
    assert scaling_operation(make()) is None


@pytest.mark.parametrize("preset", ["fp32", "int8_full"])
@pytest.mark.parametrize("name", ["nested", "normalization", "quotient"])
def test_the_file_scales_once(tmp_path, name, preset):
    model = net(SCALED[name][0])
    images = np.random.default_rng(3).integers(0, 256, (129, 13, 11, 3)).astype("float32")
    expected = keras.ops.convert_to_numpy(model(images))
    calibration = images if preset == "int8_full" else None
    path = str(tmp_path / "net.tflite")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        report = to_tflite(model, path, preset, calibration, input_values="pixels")
    assert "image 0...255" in str(report)
    received = run_tflite(path, images)
    bound = 1e-5 if preset == "fp32" else 0.05 * np.abs(expected).max()
    np.testing.assert_allclose(received, expected, atol=bound)
    assert np.abs(expected[:3] - keras.ops.convert_to_numpy(model(images[:3] / 127.5 - 1))).max() > 4 * bound


def test_whole_pixels_and_a_saved_model(tmp_path):
    import tensorflow as tf

    model = net(SCALED["nested"][0])
    images = np.random.default_rng(3).integers(0, 256, (3, 13, 11, 3)).astype("uint8")
    expected = keras.ops.convert_to_numpy(model(images.astype("float32")))
    to_tflite(model, str(tmp_path / "net.tflite"), "fp32", input_dtype="uint8", input_values="pixels")
    np.testing.assert_allclose(run_tflite(str(tmp_path / "net.tflite"), images), expected, atol=1e-5)
    to_saved_model(model, str(tmp_path / "saved"), input_values="pixels")
    loaded = tf.saved_model.load(str(tmp_path / "saved")).signatures
    files = tf.stack([tf.io.encode_png(image) for image in images])
    for answer in (loaded["serve"](image=tf.constant(images)), loaded["serve_jpeg"](encoded=files)):
        np.testing.assert_allclose(next(iter(answer.values())).numpy(), expected, atol=1e-5)


def test_the_check_sees_a_second_scaling(tmp_path, monkeypatch):
    from vitkeras.export import graph, tflite

    monkeypatch.setattr(tflite, "export_model", lambda model, scale: graph.export_model(model, True))
    with pytest.raises(ExportError, match="'(difference|cosine)' failed"):
        to_tflite(net(SCALED["quotient"][0]), str(tmp_path / "net.tflite"), "fp32", input_values="pixels")


@pytest.mark.parametrize("export", [to_tflite, to_saved_model])
def test_a_warning_and_refusals(tmp_path, export):
    model, path = net(SCALED["rescaling"][0]), str(tmp_path / "net.tflite")
    with pytest.warns(UserWarning, match="model 'own' seems to scale pixels itself by 'scale_it', but its file scales"):
        export(model, path)
    with pytest.raises(ValueError, match="input_values must be one of \\('scaled', 'pixels'\\), received 1"):
        export(model, path, overwrite=True, input_values=1)
    with pytest.raises(ValueError, match="input_values must be 'scaled' without pixel_input"):
        export(model, path, overwrite=True, input_values="pixels", pixel_input=False)


def test_the_command(tmp_path, capsys):
    model = net(SCALED["quotient"][0])
    model.save(tmp_path / "m.keras")
    command = ["--model", str(tmp_path / "m.keras"), "--overwrite"]
    for out in ("m.tflite", "saved"):
        preset = [] if out == "saved" else ["--preset", "fp32"]
        assert cli.main([*command, *preset, "--out", str(tmp_path / out)]) == 0
        lines = capsys.readouterr().err.splitlines()
        assert [line for line in lines if line.startswith("warning: model 'own' seems to scale pixels itself by ")]
        assert not [line for line in lines if "warnings.warn" in line]
    assert (
        cli.main([*command, "--preset", "fp32", "--out", str(tmp_path / "m.tflite"), "--input-values", "pixels"]) == 0
    )
    assert "warning" not in capsys.readouterr().err
    images = np.random.default_rng(3).integers(0, 256, (3, 13, 11, 3)).astype("float32")
    expected = keras.ops.convert_to_numpy(model(images))
    np.testing.assert_allclose(run_tflite(str(tmp_path / "m.tflite"), images), expected, atol=1e-5)


def test_a_trained_student_cannot_scale(make, pixels, tmp_path):
    from vitkeras.export import prepare_qat

    student = prepare_qat(make(), calibration_images=pixels / 127.5 - 1)
    with pytest.raises(ValueError, match="input_values must be 'scaled' for preset 'qat_int8', received 'pixels'"):
        to_tflite(student, str(tmp_path / "net.tflite"), "qat_int8", input_values="pixels")
