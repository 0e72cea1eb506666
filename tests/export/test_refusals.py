"""Each way in which others ship wrong files, provoked and refused; and bad input, which loses nothing."""

import os
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import vitkeras
from vitkeras.export import (
    ExportError,
    checks,
    graph,
    presets,
    quantize,
    run_tflite,
    tflite,
    to_saved_model,
    to_tflite,
    to_trainable_tflite,
)
from vitkeras.export.quiet import quiet
from vitkeras.export.runtime import TFLiteRunner, is_fully_accelerated


def convert(function, shape, path, flex=False):
    """A `.tflite` of any TensorFlow function, the ordinary careless way."""
    concrete = tf.function(function, input_signature=[tf.TensorSpec(shape, tf.float32)]).get_concrete_function()
    with quiet():
        converter = tf.lite.TFLiteConverter.from_concrete_functions([concrete])
        if flex:
            converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS, tf.lite.OpsSet.SELECT_TF_OPS]
        data = converter.convert()
    path.write_bytes(data)
    return str(path)


def test_flex_operators(tmp_path):
    path = convert(lambda x: tf.linalg.inv(x), (1, 3, 3), tmp_path / "flex", flex=True)
    with pytest.raises(ExportError, match=r"'builtin operators' failed: .* custom operators \['FlexMatrixInverse'\]"):
        checks.check_graph(path)


def test_a_layer_that_needs_flex_is_named(tmp_path):
    image = keras.Input((16, 16, 3))
    x = keras.layers.UpSampling2D(interpolation="bicubic", name="larger")(image)
    model = keras.Model(image, keras.layers.Dense(3)(keras.layers.Flatten()(x)))
    for export in (to_tflite, lambda *args: to_trainable_tflite(*args, classes=3)):
        with pytest.raises(
            ExportError, match=r"'builtin operators' failed: .* ResizeBicubic of '.*larger.*'; nothing w"
        ):
            export(model, str(tmp_path / "net.tflite"))
    assert not os.listdir(tmp_path)


def test_a_sequential_model_is_exported(tmp_path, assert_close):
    layers = [keras.Input((16, 12, 3)), keras.layers.Conv2D(5, 3), keras.layers.Flatten(), keras.layers.Dense(3)]
    model, images = keras.Sequential(layers), np.random.default_rng(2).integers(0, 256, (5, 16, 12, 3))
    to_tflite(model, str(tmp_path / "net.tflite"), "fp32")
    assert_close(run_tflite(str(tmp_path / "net.tflite"), images), model.predict(images / 127.5 - 1, verbose=0), 1e-5)
    to_saved_model(model, str(tmp_path / "saved"))
    with pytest.raises(ValueError, match="model must be functional with one input"):
        to_tflite(keras.Sequential(layers[1:]), str(tmp_path / "other.tflite"))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"labels": "abcdefg"}, "labels must be a list of names, received 'abcdefg'"),
        ({"labels": 3}, "labels must be a list of names, received 3"),
        ({"labels": [None] * 7}, "labels must be text, received None"),
        ({"about": "me"}, "about must be a dict of text, received 'me'"),
        ({"num_threads": 0}, "num_threads must be an int in 1...256, received 0"),
        ({"num_threads": 1.5}, "num_threads must be an int in 1...256, received 1.5"),
        ({"num_threads": True}, "num_threads must be an int in 1...256, received True"),
        ({"preset": ["fp32"]}, r"preset must be one of .* received \['fp32'\]"),
        ({"overwrite": "no"}, "overwrite must be True or False, received 'no'"),
        ({"pixel_input": "x"}, "pixel_input must be True or False, received 'x'"),
    ],
)
def test_arguments_of_other_types(make, tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        to_tflite(make(), str(tmp_path / "net.tflite"), **options)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    "function, message",
    [
        (lambda x: tf.cumsum(x * 2.0, axis=1), "'allowed operators' failed: .* received CUMSUM of"),
        (
            lambda x: tf.broadcast_to(x[:, :, None], (3, 7, 5)) * 2.0,
            "'allowed operators' failed: .* received BROADCAST_TO",
        ),
        (
            lambda x: tf.matmul(x[None], x[None] * 2.0, adjoint_b=True),
            "'transposed operands' failed: .* received adj_y of",
        ),
    ],
)
def test_operators_that_devices_lack(tmp_path, function, message):
    path = convert(function, (3, 7), tmp_path / "net")
    with pytest.raises(ExportError, match=message):
        checks.check_graph(path)


def test_squares_that_int16_lacks(tmp_path):
    image = keras.Input((11, 13, 3))
    x = keras.layers.Conv2D(8, 3)(image)
    model = keras.Model(image, keras.layers.Dense(5)(keras.layers.Flatten()(keras.layers.LayerNormalization()(x))))
    path = str(tmp_path / "net.tflite")
    images = np.random.default_rng(3).integers(0, 256, (128, 11, 13, 3))
    to_tflite(model, path, "int8_static", calibration_images=images)  # works: not ours, but its operators do
    with pytest.raises(ExportError, match="'integers' failed: .* received .*SQUARED_DIFFERENCE in float"):
        to_tflite(model, path, "int16x8", calibration_images=images, overwrite=True)
    assert os.listdir(tmp_path) == ["net.tflite"]


def test_dynamic_batch(tmp_path):
    path = convert(lambda x: x * 2.0, (None, 3), tmp_path / "dynamic")
    with pytest.raises(ExportError, match="'static shapes' failed: expected fixed sizes, received shape .-1, 3."):
        checks.check_graph(path)


def test_rank_five(tmp_path):
    path = convert(lambda x: tf.reshape(x, (1, 2, 3, 1, 5)) * 2.0, (1, 30), tmp_path / "rank")
    with pytest.raises(ExportError, match=r"'rank' failed: expected rank <= 4, received shape \[1, 2, 3, 1, 5\]"):
        checks.check_graph(path)


def test_several_partitions(tmp_path):
    path = convert(lambda x: tf.cumsum(x * 2.0, axis=1) * 3.0, (1, 7), tmp_path / "parts")
    runner = TFLiteRunner(path)
    assert runner.partitions() == 2
    with pytest.raises(ExportError, match="'partitions' failed: expected 1 XNNPACK partition, received 2"):
        checks.check_acceleration(runner.partitions(), is_fully_accelerated(path))


def test_one_partition_that_leaves_an_operator_out(tmp_path):
    path = convert(lambda x: tf.cumsum(x * 2.0 + 1.0, axis=1), (1, 7), tmp_path / "rest")
    runner = TFLiteRunner(path)
    assert runner.partitions() == 1 and not is_fully_accelerated(path)
    with pytest.raises(ExportError, match="'acceleration' failed: expected every operator in XNNPACK"):
        checks.check_acceleration(runner.partitions(), is_fully_accelerated(path))


def test_weights_behind_the_flatbuffer(tmp_path, monkeypatch):
    # Wide enough that the quantizer puts its matrices there.
    model = vitkeras.VisionTransformer((33, 55, 3), 11, 1, 192, 3, 384, classes=7, classifier_activation=None)
    monkeypatch.setattr(quantize, "pull_weights_in", lambda path: None)
    with pytest.raises(ExportError, match="'buffers' failed: expected all weights inside the flatbuffer, received"):
        to_tflite(model, str(tmp_path / "net.tflite"))
    assert not os.listdir(tmp_path)


def test_weights_missing(make, tmp_path, monkeypatch):
    def forgetful(model, path):
        convert(lambda x: tf.zeros((1, 7)) + tf.reduce_sum(x), (1, 33, 55, 3), tmp_path / "small")
        os.replace(tmp_path / "small", path)

    monkeypatch.setattr(tflite, "convert", forgetful)
    with pytest.raises(ExportError, match="'weights' failed: expected at least [0-9]+ bytes of weights, received"):
        to_tflite(make(), str(tmp_path / "net.tflite"), preset="fp32")
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("preset", ["fp32", "int8_dynamic"])
def test_another_models_answers(make, tmp_path, monkeypatch, preset):
    monkeypatch.setattr(tflite, "export_model", lambda model, pixels: graph.export_model(make(seed=4), pixels))
    with pytest.raises(ExportError, match=r"'(difference|cosine)' failed: expected .*; nothing was written"):
        to_tflite(make(), str(tmp_path / "net.tflite"), preset=preset)
    assert not os.listdir(tmp_path)


def test_a_forgotten_normalisation(make, tmp_path, monkeypatch):
    monkeypatch.setattr(tflite, "export_model", lambda model, pixels: graph.export_model(model, False))
    with pytest.raises(ExportError, match="'difference' failed"):
        to_tflite(make(), str(tmp_path / "net.tflite"), preset="fp32")


def test_compare_sees_a_wrong_pair():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(5, 7)).astype("float32")
    same = checks.compare(x, x)
    assert same == {"max_abs_difference": 0.0, "cosine": same["cosine"], "sqnr_db": float("inf"), "top1_agreement": 1.0}
    assert abs(same["cosine"] - 1) < 1e-12
    rolled = checks.compare(x, np.roll(x, 1, axis=1))
    assert rolled["top1_agreement"] == 0.0 and rolled["cosine"] < 0.9 and rolled["sqnr_db"] < 5
    assert checks.compare(np.zeros((2, 3), "float32"), x[:2, :3])["cosine"] == 0.0
    tie = np.array([[1.0, 1.0, 0.0]], "float32")
    assert checks.compare(tie, np.array([[0.9, 1.1, 0.0]], "float32"))["top1_agreement"] == 1.0
    with pytest.raises(ExportError, match="'output shape' failed"):
        checks.compare(x, x[:, :6])
    broken = x.copy()
    broken[2, 3] = np.nan
    with pytest.raises(ExportError, match="'finite outputs' failed: expected finite values, received 1 that are not"):
        checks.compare(x, broken)


def test_disagreement_on_given_images_is_refused():
    rule = presets.PRESETS["int8_dynamic"]
    comparison = {"max_abs_difference": 0.1, "cosine": 0.999, "sqnr_db": 30.0, "top1_agreement": 0.94}
    checks.check_numbers(comparison, np.ones((5, 7)), rule, needs_agreement=False)
    with pytest.raises(ExportError, match="'top-1 agreement' failed: expected agreement >= 0.95, received 0.9400"):
        checks.check_numbers(comparison, np.ones((5, 7)), rule, needs_agreement=True)


def test_a_file_that_is_none(tmp_path):
    path = tmp_path / "text.tflite"
    path.write_text("not a flatbuffer")
    with pytest.raises(ExportError, match="'file' failed: expected a TFLite flatbuffer"):
        checks.read_graph(path)
    with pytest.raises(ValueError, match="does not run in LiteRT"):
        run_tflite(str(path), np.zeros((1, 2, 2, 3)))


def test_existing_files_are_kept(make, tmp_path):
    path = tmp_path / "net.tflite"
    path.write_text("mine")
    with pytest.raises(FileExistsError, match="exists; choose another name, or overwrite=True"):
        to_tflite(make(), str(path))
    broken = make()
    broken.get_layer("head").bias.assign(np.full(7, np.nan))
    with pytest.raises(ValueError, match="model weight '.*head/bias' holds NaN or infinite values"):
        to_tflite(broken, str(path), overwrite=True)
    assert path.read_text() == "mine"
    to_tflite(make(), str(path), overwrite=True)
    assert path.stat().st_size > 10000 and os.listdir(tmp_path) == ["net.tflite"]


def test_a_failed_check_leaves_the_old_file(make, tmp_path, monkeypatch):
    path = tmp_path / "net.tflite"
    path.write_text("mine")
    monkeypatch.setattr(tflite, "export_model", lambda model, pixels: graph.export_model(make(seed=4), pixels))
    with pytest.raises(ExportError):
        to_tflite(make(), str(path), overwrite=True)
    assert path.read_text() == "mine" and os.listdir(tmp_path) == ["net.tflite"]


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        (dict(preset="int8_dyn"), ValueError, "preset must be one of .* received 'int8_dyn'; nearest: 'int8_dynamic'"),
        (dict(preset="fp32", calibration_images=[0]), ValueError, "'fp32' needs no calibration"),
        (dict(labels=["a", "b"]), ValueError, "labels must hold 7 names, one an output, received 2"),
        (dict(labels=list("abcdef") + ["g\nh"]), ValueError, "single lines with text, received 'g.nh'"),
        (dict(labels=list("abcdef") + [" "]), ValueError, "single lines with text, received ' '"),
        (
            dict(verify_images=np.zeros((2, 33, 50, 3))),
            ValueError,
            r"shape \(N, 33, 55, 3\), received \(2, 33, 50, 3\)",
        ),
        (dict(verify_images=np.zeros((0, 33, 55, 3))), ValueError, r"received \(0, 33, 55, 3\)"),
        (dict(verify_images=np.full((1, 33, 55, 3), 256.0)), ValueError, "pixels in 0...255, received 256.0...256.0"),
        (dict(verify_images=np.full((1, 33, 55, 3), -1.0)), ValueError, "pixels in 0...255, received -1.0"),
        (dict(verify_images=np.full((1, 33, 55, 3), 0.5)), ValueError, "received at most 0.5: already scaled"),
    ],
)
def test_bad_arguments(make, tmp_path, arguments, error, message):
    with pytest.raises(error, match=message):
        to_tflite(make(), str(tmp_path / "net.tflite"), **arguments)
    assert not os.listdir(tmp_path)


def test_bad_paths(make, tmp_path):
    with pytest.raises(FileNotFoundError, match="output folder '.*nowhere' does not exist"):
        to_tflite(make(), str(tmp_path / "nowhere" / "net.tflite"))
    with pytest.raises(FileNotFoundError, match="does not exist"):
        to_saved_model(make(), str(tmp_path / "nowhere" / "folder"))


def test_models_that_cannot_be_exported(tmp_path):
    path = str(tmp_path / "net.tflite")
    with pytest.raises(ValueError, match="model must be a keras.Model, received str"):
        to_tflite("m.keras", path)
    image = keras.Input((None, 32, 3))
    with pytest.raises(ValueError, match=r"images of a fixed size .* received \(None, None, 32, 3\)"):
        to_tflite(keras.Model(image, keras.layers.Conv2D(3, 1)(image)), path)
    inputs = [keras.Input((32, 32, 3)), keras.Input((32, 32, 3))]
    with pytest.raises(ValueError, match="functional with one input, 'two' has 2 inputs"):
        to_tflite(keras.Model(inputs, keras.layers.Add()(inputs), name="two"), path)


@pytest.mark.parametrize(
    "module, package, extra",
    [
        ("ai_edge_litert.interpreter", "ai-edge-litert", "export"),
        ("ai_edge_quantizer.quantizer", "ai-edge-quantizer", "export"),
        ("tensorflow", "TensorFlow", "tf-cpu"),
    ],
)
def test_missing_packages_name_their_extra(make, tmp_path, monkeypatch, module, package, extra):
    model = make()
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf'needs {package}: pip install "vitkeras\[{extra}\]"'):
        to_tflite(model, str(tmp_path / "net.tflite"))
    assert not os.listdir(tmp_path)


def test_run_tflite_refuses_other_shapes(make, tmp_path):
    path = str(tmp_path / "net.tflite")
    to_tflite(make(), path)
    with pytest.raises(ValueError, match=r"images must have shape \(N, 33, 55, 3\), received \(33, 55, 3\)"):
        run_tflite(path, np.zeros((33, 55, 3)))
    assert vitkeras.export.run_tflite(path, np.zeros((2, 33, 55, 3), "uint8")).shape == (2, 7)
