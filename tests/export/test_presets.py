"""Every preset on every kind of model: the file passes its checks, and holds what the preset promises."""

import collections

import keras
import numpy as np
import pytest

import vitkeras
from vitkeras.export import PRESETS, ExportError, checks, run_tflite, to_tflite
from vitkeras.export.file_graph import Graph
from vitkeras.export.post_training import Quantized
from vitkeras.export.presets import find_preset
from vitkeras.models.resnet import ResNet

HEAD = {"classes": 7, "classifier_activation": None}
INT8, INT16, INT4 = 9, 7, 17  # TFLite's types


def plain(**kwargs):
    return vitkeras.VisionTransformer((33, 55, 3), 11, 2, 64, 2, 96, **{**HEAD, **kwargs})


MODELS = {
    "plain": plain,
    "gap": lambda: plain(classifier="gap", classifier_activation="softmax"),
    "hybrid": lambda: vitkeras.VisionTransformer(
        (45, 61, 3), 2, 1, 64, 2, 96, stem_blocks=(1,), stem_width_factor=0.5, **HEAD
    ),
    "resnet": lambda: ResNet((29, 45, 3), (1,), 0.5, **HEAD),
    "features": lambda: plain(include_top=False, classes=None, pooling="token"),
}
MADE = [name for name, preset in PRESETS.items() if not preset.learned]


def randomised(name):
    model, rng = MODELS[name](), np.random.default_rng(5)
    for variable in model.trainable_variables:
        centre = 1.0 if variable.name == "scale" else 0.0
        variable.assign(rng.normal(centre, 0.15, variable.shape).astype("float32"))
    return model


def images(model, count):
    rng = np.random.default_rng(6)
    height, width, _ = model.input_shape[1:]
    low = rng.uniform(0, 255, (count, height // 11 + 1, width // 11 + 1, 3))
    wide = np.repeat(np.repeat(low, 11, axis=1), 11, axis=2)[:, :height, :width]
    return np.clip(wide + rng.normal(0, 15, wide.shape), 0, 255).round().astype("float32")


def decided(model, photos, count=7):
    """The first photos that aren't near ties of a random net, whose answers rounding may turn: two are within 5 %."""
    outputs = keras.ops.convert_to_numpy(model(vitkeras.preprocess_input(photos), training=False))
    best = np.sort(outputs.reshape(len(photos), -1), axis=1)
    return photos[best[:, -1] - best[:, -2] > 0.05 * np.abs(outputs).max()][:count]


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("preset", MADE)
def test_each_preset_for_each_model(tmp_path, name, preset):
    model, rule = randomised(name), PRESETS[preset]
    path = str(tmp_path / "net.tflite")
    photos = images(model, 128)
    # Four bits change the answers of a random net: no agreement is asked for on made-up images.
    chosen = decided(model, photos)
    verified = None if preset == "int4_weights" else chosen
    report = to_tflite(
        model,
        path,
        preset,
        calibration_images=None if rule.images == "none" else photos,
        verify_images=verified,
    )
    reference = keras.ops.convert_to_numpy(model(vitkeras.preprocess_input(chosen), training=False))
    compared = checks.compare(reference, run_tflite(path, chosen))
    assert verified is None or compared["cosine"] == pytest.approx(report.cosine, abs=1e-6)
    assert min(compared["cosine"], report.cosine) >= rule.least_cosine
    assert report.fully_accelerated == rule.accelerated or not rule.accelerated
    assert (report.partitions == 1) >= rule.accelerated and report.reference_cosine >= 0.99
    products = {"plain": 18, "gap": 18, "features": 17}.get(name)
    if preset not in ("fp32",) and products:
        assert len(report.layer_snr) == products
    assert_types(path, preset)


def types(path):
    """Types of products' first inputs and weights: Counter of (input, weights)."""
    graph = Graph(path)
    found = collections.Counter()
    for operator, kind in zip(graph.operators, graph.kinds):
        if kind in ("FULLY_CONNECTED", "CONV_2D", "BATCH_MATMUL"):
            found[tuple(graph.tensors[t].type for t in operator.inputs[:2])] += 1
    return graph, found


def assert_types(path, preset):
    graph, found = types(path)
    seen = {weights for _, weights in found}
    if preset == "int8_full":
        assert set(found) == {(INT8, INT8)} and graph.tensors[graph.inputs[0]].type == INT8
        scale, zero = (getattr(graph.tensors[graph.inputs[0]].quantization, k)[0] for k in ("scale", "zeroPoint"))
        assert (scale, zero) == (1.0, -128)  # pixels without loss
    elif preset == "int16x8":
        assert {x for x, _ in found} == {INT16} and graph.tensors[graph.inputs[0]].type == 0
    elif preset == "int4_weights":
        assert seen <= {0, INT8, INT4}
    elif preset.startswith("int8"):
        assert INT8 in seen
    else:
        assert INT8 not in seen


def test_the_static_file_is_static_where_it_says(tmp_path):
    model = randomised("plain")
    photos = images(model, 128)
    path = str(tmp_path / "net.tflite")
    report = to_tflite(model, path, "int8_static", calibration_images=photos, verify_images=decided(model, photos))
    graph, found = types(path)
    # Patch, q, k, v, both products and fc1 of two blocks in ranges; out, fc2 and head round a row at a time.
    assert found == {(INT8, INT8): 1 + 2 * 6, (0, INT8): 2 * 2 + 1}
    lefts = []
    for operator, kind in zip(graph.operators, graph.kinds):
        if kind == "BATCH_MATMUL":
            assert list(graph.tensors[operator.inputs[1]].quantization.zeroPoint) == [0]
            lefts.append(int(graph.tensors[operator.inputs[0]].quantization.zeroPoint[0]))
    assert lefts[1::2] == [-128, -128]  # what the softmax gives is never negative
    assert report.layer_snr and report.partitions == 1


def test_four_bits_where_32_divides_the_inputs(tmp_path):
    path = str(tmp_path / "net.tflite")
    model = randomised("plain")
    report = to_tflite(model, path, "int4_weights")
    _, found = types(path)
    assert found == {(0, INT4): 2 * 6, (0, INT8): 2, (0, 0): 4}
    assert report.partitions == 1 and report.fully_accelerated
    odd = vitkeras.VisionTransformer((33, 55, 3), 11, 1, 38, 2, 53, **HEAD)
    to_tflite(odd, path, "int4_weights", overwrite=True)
    assert INT4 not in {weights for _, weights in types(path)[1]}


def test_refusals(tmp_path, monkeypatch):
    model, path = randomised("plain"), str(tmp_path / "net.tflite")
    photos = images(model, 3)
    with pytest.raises(ValueError, match="calibration_images must be given for preset 'int8_static': it measures"):
        to_tflite(model, path, "int8_static")
    with pytest.raises(ValueError, match="calibration_images must be None: preset 'fp16' needs no calibration"):
        to_tflite(model, path, "fp16", calibration_images=photos)
    with pytest.raises(ValueError, match="input_dtype must be 'float32' for preset 'int8_full', whose input is int8"):
        to_tflite(model, path, "int8_full", calibration_images=photos, input_dtype="uint8")
    with pytest.raises(ValueError, match="verify_labels needs verify_images, received none"):
        to_tflite(model, path, "fp32", verify_labels=[1])
    with pytest.raises(ValueError, match=r"verify_labels must be 3 ints in 0...6, received shape \(3,\) with 0...7"):
        to_tflite(model, path, "fp32", verify_images=photos, verify_labels=[0, 7, 1])
    with pytest.raises(ValueError, match="preset 'qat_int8' is for a model of prepare_qat, received 'vision_transf"):
        to_tflite(model, path, "qat_int8")
    with pytest.raises(ValueError, match="preset must be one of .* received 'static'; nearest: 'int8_static'"):
        find_preset("static")
    assert not any(tmp_path.iterdir())


def test_float_operators_in_an_integer_file_are_refused(tmp_path, monkeypatch):
    from vitkeras.export import quantize, tflite

    model, path = randomised("plain"), str(tmp_path / "net.tflite")

    def careless(float_path, target, *_, **__):
        quantize.quantize_dynamic(float_path, target)
        return Quantized(float_path=float_path)

    monkeypatch.setattr(tflite, "quantize_post_training", careless)
    with pytest.raises(
        ExportError, match="'integers' failed: expected integer operators .* received .*CONV_2D.* in float"
    ):
        to_tflite(model, path, "int8_full", calibration_images=images(model, 128))
    assert not any(tmp_path.iterdir())


def test_reference_kernels_that_disagree_are_refused(tmp_path, monkeypatch):
    from vitkeras.export import verify

    class Wrong(verify.TFLiteRunner):
        def one(self, image):
            return super().one(image)[::-1]

    real = verify.TFLiteRunner
    monkeypatch.setattr(verify, "TFLiteRunner", lambda *a: (Wrong if a[2:] == ("reference",) else real)(*a))
    with pytest.raises(ExportError, match="'reference kernels' failed: expected cosine >= 0.99, received"):
        to_tflite(randomised("plain"), str(tmp_path / "net.tflite"), "fp32")
    assert not any(tmp_path.iterdir())


def test_accuracies_of_given_labels(tmp_path):
    model = randomised("plain")
    photos = images(model, 7)
    answers = keras.ops.convert_to_numpy(model(vitkeras.preprocess_input(photos), training=False)).argmax(axis=1)
    labels = np.where(np.arange(7) < 5, answers, (answers + 1) % 7)
    report = to_tflite(model, str(tmp_path / "a.tflite"), "fp32", verify_images=photos, verify_labels=labels)
    assert report.accuracies == pytest.approx((5 / 7, 5 / 7)) and report.top5_agreement == 1.0
    assert "accuracy" in report.as_text() and "Keras 71.43 %, file 71.43 %" in report.as_text()
