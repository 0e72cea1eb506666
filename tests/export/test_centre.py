"""Centred values: the same function, means of zero, and less noise where int8 rounds an attention's weights."""

import numpy as np
import pytest

from vitkeras.export import ExportError, graph, post_training, tflite, to_tflite
from vitkeras.export.centre import measure_means
from vitkeras.export.operators import read_operators
from vitkeras.export.post_training import centre
from vitkeras.export.runtime import TFLiteRunner


def images(count):
    return np.random.default_rng(17).integers(0, 256, (count, 33, 55, 3)).astype("float32")


def with_shifted_values(make, **kwargs):
    """A net whose values have means far from zero, as trained ones have."""
    model = make(**kwargs)
    for name in ("encoder_block_00", "encoder_block_01"):
        bias = model.get_layer(name).attention.value.bias
        bias.assign(bias + np.random.default_rng(5).normal(0, 3, bias.shape))
    return model


def converted(model, tmp_path):
    paths = [str(tmp_path / name) for name in ("before.tflite", "after.tflite")]
    tflite.convert(graph.export_model(model, True), paths[0])
    return paths


def everything(operators):
    return {operator.index for operator in operators}


def test_means_are_zero_and_the_function_is_the_same(make, tmp_path):
    before, after = converted(with_shifted_values(make), tmp_path)
    operators = read_operators(before)
    assert centre(before, after, operators, everything(operators), images(7)) == 2
    for path, least, most in ((before, 1, 10), (after, 0, 1e-5)):
        names = [operator.output for operator in read_operators(path) if operator.role == "value"]
        means = measure_means(path, names, images(7))
        assert len(means) == 2
        assert all(least <= np.abs(mean).max() <= most for mean in means.values())
    answers = [TFLiteRunner(path)(images(3)) for path in (before, after)]
    np.testing.assert_allclose(*answers, rtol=0, atol=1e-4 * max(1, np.abs(answers[0]).max()))


@pytest.mark.parametrize("constant", [0.0, 0.7])  # left out of the file, and stored once
def test_equal_biases_are_told_apart(make, tmp_path, constant):
    model = make()
    for name in ("encoder_block_00", "encoder_block_01"):
        for layer in (model.get_layer(name).attention.value, model.get_layer(name).attention.out):
            layer.bias.assign(np.full(layer.bias.shape, constant))
    before, after = converted(model, tmp_path)
    operators = read_operators(before)
    assert centre(before, after, operators, everything(operators), images(5)) == 2
    answers = [TFLiteRunner(path)(images(3)) for path in (before, after)]
    np.testing.assert_allclose(*answers, rtol=0, atol=1e-4 * max(1, np.abs(answers[0]).max()))


def test_nothing_is_done_where_the_mix_is_float(make, tmp_path):
    before, after = converted(make(), tmp_path)
    operators = read_operators(before)
    static = {operator.index for operator in operators if operator.role != "mix"}
    assert centre(before, after, operators, static, images(5)) == 0
    assert not (tmp_path / "after.tflite").exists()


def test_a_wrong_constant_is_refused(make, tmp_path, monkeypatch):
    before, after = converted(with_shifted_values(make), tmp_path)
    monkeypatch.setattr(
        post_training,
        "centre_values",
        lambda graph, pairs, means: [graph.set_bias(v.index, graph.bias(v.index) - means[v.output]) for v, _ in pairs],
    )
    operators = read_operators(before)
    with pytest.raises(ExportError, match="'equalisation' failed: expected max .difference."):
        centre(before, after, operators, everything(operators), images(5))


@pytest.mark.slow
def test_static_files_lose_less(make, tmp_path, monkeypatch):
    model = with_shifted_values(make)
    photos = images(141)
    reports = []
    for name in ("centred", "plain"):
        if name == "plain":
            monkeypatch.setattr(post_training, "centre", lambda *args: 0)
        path = str(tmp_path / f"{name}.tflite")
        report = to_tflite(model, path, "int8_static", calibration_images=photos[:128], verify_images=photos[128:])
        reports.append(report)
    centred, plain = reports
    assert (centred.centred, plain.centred) == (2, 0) and "values of 2 attentions" in str(centred)
    values = [db for label, db in centred.layer_snr if label.endswith("/value")]
    assert len(values) == 2 and min(values) > 25, values  # the shift itself is no noise
    assert centred.sqnr_db >= plain.sqnr_db + 2  # 2.8 here, with 16 tokens; more tokens have smaller weights
