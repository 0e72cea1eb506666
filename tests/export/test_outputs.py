"""What a file takes and returns: uint8 pixels, several outputs, and what is read off the head."""

import keras
import numpy as np
import pytest

import vitkeras
from vitkeras.export import checks, outputs, run_tflite, to_tflite, verify
from vitkeras.export.runtime import TFLiteRunner


def head_input(model, images):
    probe = keras.Model(model.input, model.get_layer("head").input)
    return keras.ops.convert_to_numpy(probe(vitkeras.preprocess_input(images)))


@pytest.mark.parametrize("preset", ["fp32", pytest.param("int8_dynamic", marks=pytest.mark.slow)])
def test_uint8_pixels_lose_nothing(make, pixels, tmp_path, preset):
    files = {dtype: str(tmp_path / dtype) for dtype in ("float32", "uint8")}
    reports = {dtype: to_tflite(make(), path, preset, input_dtype=dtype) for dtype, path in files.items()}
    received = {dtype: run_tflite(path, pixels.astype("uint8")) for dtype, path in files.items()}
    np.testing.assert_array_equal(received["uint8"], received["float32"])
    runner = TFLiteRunner(files["uint8"])
    assert runner.input["dtype"] == np.uint8 and runner.input["quantization"] == (1.0, 0)
    assert runner.interpreter.get_signature_list()["serving_default"] == {"inputs": ["image"], "outputs": ["logits"]}
    assert (runner.partitions(), runner.outside(), reports["uint8"].fully_accelerated) == (1, [], True)
    assert reports["uint8"].operators["DEQUANTIZE"] == 1 and "DEQUANTIZE" not in reports["float32"].operators
    assert "image 0...255 as uint8 -> logits" in str(reports["uint8"])
    np.testing.assert_array_equal(run_tflite(files["uint8"], pixels * 0.999), received["uint8"])  # rounded
    with pytest.raises(ValueError, match=r"pixels in 0...255, received -1.0...255.0"):
        run_tflite(files["uint8"], np.where(pixels == pixels[0, 0, 0, 0], -1.0, 255.0))


@pytest.mark.slow
def test_logits_softmax_and_embedding(make, pixels, expected, tmp_path):
    linear, softmax = make(), make(classifier_activation="softmax")  # the same weights
    for model, output, name, reference in (
        (softmax, "logits", "logits", expected(linear)),
        (linear, "softmax", "probabilities", expected(softmax)),
        (softmax, "embedding", "embedding", head_input(linear, pixels)),
    ):
        path = str(tmp_path / f"{output}.tflite")
        report = to_tflite(model, path, preset="fp32", output=output)
        assert (report.output, report.partitions, report.fully_accelerated) == (name, 1, True)
        assert list(TFLiteRunner(path).outputs) == [name]
        np.testing.assert_allclose(run_tflite(path, pixels), reference, rtol=0, atol=2e-5)
    assert softmax.get_layer("head").activation.__name__ == "softmax"  # the models are left alone
    np.testing.assert_allclose(expected(linear).argmax(1), expected(softmax).argmax(1))


def test_top_k(make, pixels, expected, tmp_path):
    path = str(tmp_path / "top.tflite")
    labels = [f"class {i}" for i in range(7)]
    report = to_tflite(make(), path, preset="fp32", output="top_k", k=3, verify_images=pixels, labels=labels)
    assert (report.partitions, report.fully_accelerated, report.top1_agreement) == (1, False, 1.0)
    assert TFLiteRunner(path).outside() == ["TOPK_V2"]
    received = run_tflite(path, pixels)
    probabilities = expected(make(classifier_activation="softmax"))
    order = np.argsort(-probabilities, axis=1)[:, :3]
    np.testing.assert_array_equal(received["indices"], order)
    np.testing.assert_allclose(received["scores"], np.take_along_axis(probabilities, order, 1), atol=1e-6)


def test_wrong_indices_are_seen():
    reference = np.array([[0.1, 0.6, 0.3], [0.5, 0.1, 0.4]], "float32")
    right = {"scores": np.array([[0.6, 0.3], [0.5, 0.4]], "float32"), "indices": np.array([[1, 2], [0, 2]])}
    assert checks.compare(*outputs.pairs(reference, right)[0])["max_abs_difference"] == 0
    wrong = {**right, "indices": np.array([[2, 1], [0, 2]])}
    comparison = checks.compare(*outputs.pairs(reference, wrong)[0])
    assert comparison["max_abs_difference"] > 0.2 and comparison["top1_agreement"] == 0.5
    assert checks.worst([{"max_abs_difference": 1, "cosine": 2}, {"max_abs_difference": 2, "cosine": 1}]) == {
        "max_abs_difference": 2,
        "cosine": 1,
    }


def test_several_outputs_are_named(make, pixels, tmp_path):
    model = vitkeras.features(make(), (1, 0), norm=True)
    path = str(tmp_path / "features.tflite")
    report = to_tflite(model, path, preset="fp32", verify_images=pixels)
    assert (report.output, report.partitions, report.fully_accelerated) == ("features_00, features_01", 1, True)
    received = run_tflite(path, pixels)
    assert set(received) == {"features_00", "features_01"}
    for name, reference in zip(sorted(received), model(vitkeras.preprocess_input(pixels))):
        assert received[name].shape == (13, 3, 5, 38)
        np.testing.assert_allclose(received[name], reference, rtol=0, atol=2e-5)
    assert np.abs(received["features_00"] - received["features_01"]).max() > 0.1
    assert set(verify.keras_outputs(model, pixels[:2].astype("float32"), True)) == set(received)


@pytest.mark.parametrize(
    "model, arguments, message",
    [
        ({}, dict(output="best"), r"output must be one of \(None, 'logits', .*received 'best'"),
        ({}, dict(output="top_k", k=6), r"k must be an int in 1...5, received 6"),
        (dict(classes=3), dict(output="top_k", k=4), r"k must be an int in 1...3, received 4"),
        ({}, dict(k=3), "k is for output='top_k', received 3 with output=None"),
        (dict(include_top=False), dict(output="embedding"), "does not end in; its last layer is LayerNorm"),
        (dict(classifier_activation="sigmoid"), dict(output="softmax"), "without activation, received 'sigmoid'"),
        (dict(classifier="unpooled"), dict(output="top_k"), r"one vector an image, received \(None, 15, 7\)"),
        ({}, dict(output="embedding", labels=list("abcdefg")), "labels are for an output of classes"),
        ({}, dict(input_dtype="int8"), r"input_dtype must be one of \('float32', 'uint8'\), received 'int8'"),
        ({}, dict(input_dtype="uint8", pixel_input=False), "input_dtype 'uint8' needs pixel_input=True"),
    ],
)
def test_refusals(make, tmp_path, model, arguments, message):
    with pytest.raises(ValueError, match=message):
        to_tflite(make(**model), str(tmp_path / "net.tflite"), **arguments)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "end, name",
    [
        ([keras.layers.Dense(7)], "logits"),
        ([keras.layers.Dense(7, activation="softmax")], "probabilities"),
        ([keras.layers.Dense(7), keras.layers.Softmax()], "probabilities"),
        ([keras.layers.Dense(7), keras.layers.Activation("sigmoid")], "probabilities"),
        ([keras.Sequential([keras.layers.Dense(7), keras.layers.Activation("softmax")])], "probabilities"),
        ([keras.layers.Dense(7), keras.layers.Activation("relu")], "features"),
        ([keras.layers.Dense(7), keras.layers.Activation("linear")], "features"),
        ([keras.layers.Dense(7, activation="tanh")], "features"),
    ],
)
def test_names_by_the_last_layer(end, name):
    image = x = keras.Input((8, 9, 3))
    for layer in [keras.layers.Flatten(), *end]:
        x = layer(x)
    assert outputs.output_names(keras.Model(image, x)) == [name]
