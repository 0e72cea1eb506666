"""Equalised channels: the same function, and more decibels where outliers were put in."""

import numpy as np
import pytest

import vitkeras
from vitkeras.export import ExportError, graph, tflite, to_tflite
from vitkeras.export.equalize import best_strength, equalize
from vitkeras.export.post_training import check_same
from vitkeras.export.rounding import round_rows, round_tensor, round_weights, snr_db
from vitkeras.export.runtime import TFLiteRunner


def with_outliers(make, factor=60.0):
    """A net of which some channels are large behind `value`, and some behind each LayerNorm, as in trained ones.

    The value channels are scaled without a change of the function. Those of the residual stream come from the position
    embedding: a few channels stand out in every token, and the norms pass them on.
    """
    model = make(patch=11)
    positions = model.get_layer("position_embedding")
    weight = positions.weights[0]
    weight.assign(weight + factor / 4 * np.eye(38)[5] - factor / 6 * np.eye(38)[17])
    for block in ("encoder_block_00", "encoder_block_01"):
        attention = model.get_layer(block).attention
        weights = {v.path.split("/")[-2] + "/" + v.name: v for v in attention.weights}
        scale = np.ones(38, "float32")
        scale[[3, 22]] = factor
        value, out = weights["value/kernel"], weights["out/kernel"]
        value.assign(value.numpy() * scale.reshape(value.shape[1:]))
        bias = weights["value/bias"]
        bias.assign(bias.numpy() * scale.reshape(bias.shape))
        kernel = out.numpy()
        out.assign((kernel.reshape(38, 38) / scale[:, None]).reshape(kernel.shape))
    return model


@pytest.fixture
def build(make):
    return lambda patch=None, **kwargs: make(**kwargs)


def images(count):
    rng = np.random.default_rng(11)
    low = rng.uniform(0, 255, (count, 3, 5, 3))
    wide = np.repeat(np.repeat(low, 11, axis=1), 11, axis=2)
    return np.clip(wide + rng.normal(0, 15, wide.shape), 0, 255).round().astype("float32")


def test_outliers_cost_ten_decibels_less(build, tmp_path):
    model = with_outliers(build)
    calibration, photos = images(128), images(141)[128:]
    plain = to_tflite(model, tmp_path / "plain.tflite", "int8_dynamic", verify_images=photos)
    helped = to_tflite(
        model, tmp_path / "helped.tflite", "int8_dynamic", verify_images=photos, calibration_images=calibration
    )
    assert helped.equalized and helped.sqnr_db >= plain.sqnr_db + 10
    assert helped.partitions == 1 and helped.fully_accelerated


def test_the_float_file_computes_the_same(build, tmp_path):
    paths = [str(tmp_path / name) for name in ("before.tflite", "after.tflite")]
    tflite.convert(graph.export_model(with_outliers(build), True), paths[0])
    rows = equalize(*paths, images(16))
    assert len(rows) == 9 and sum(row.strength > 0 for row in rows) >= 4  # two norms, value and fc2 a block, the head
    for row in rows:
        assert row.after_db >= row.before_db + (0.5 if row.strength else 0)
    check_same(*paths, images(3))
    answers = [TFLiteRunner(path)(images(3)) for path in paths]
    assert np.abs(answers[0] - answers[1]).max() <= 1e-4 * max(1, np.abs(answers[0]).max())


def test_another_function_is_refused(build, tmp_path):
    paths = [str(tmp_path / name) for name in ("a.tflite", "b.tflite")]
    for seed, path in enumerate(paths):
        tflite.convert(graph.export_model(build(seed=seed), True), path)
    with pytest.raises(ExportError, match=r"'equalisation' failed: expected max .difference. <= .* in float, received"):
        check_same(*paths, images(2))


@pytest.mark.parametrize("static", [False, True])
def test_strength_of_a_product(static):
    rng = np.random.default_rng(7)
    rows, weights = rng.normal(size=(211, 38)), rng.normal(size=(53, 38))
    even = best_strength(rows, np.abs(rows).max(axis=0), weights, static)
    assert even[3] < even[2] + 2  # hardly anything to win
    rows[:, 7] *= 100
    weights[:, 7] /= 100
    strength, scales, before, after = best_strength(rows, np.abs(rows).max(axis=0), weights, static)
    assert after > before + 15 and scales[7] == scales.max() and np.log(scales).mean() == pytest.approx(0, abs=1e-6)
    rounded = (lambda x: round_tensor(x, min(0, x.min()), max(0, x.max()))) if static else round_rows
    again = snr_db(rows @ weights.T, rounded(rows / scales) @ round_weights(weights * scales).T)
    assert again == pytest.approx(after, abs=1e-6)


def test_channels_that_are_always_zero():
    rng = np.random.default_rng(8)
    rows, weights = rng.normal(size=(31, 11)), rng.normal(size=(5, 11))
    rows[:, 2], weights[:, 4] = 0, 0
    _, scales, _, after = best_strength(rows, np.abs(rows).max(axis=0), weights, False)
    assert np.isfinite(scales).all() and (scales > 0).all() and scales[2] == scales[4] == 1 and np.isfinite(after)
    strength, scales, before, after = best_strength(rows, np.abs(rows).max(axis=0), 0 * weights, False)  # a new head
    assert (scales == 1).all() and before == after


def test_rounding_is_that_of_the_kernels():
    x = np.array([[0.0, 1.0, 2.54], [-1.27, 0.0, 1.28]])
    np.testing.assert_allclose(round_tensor(x, -1.28, 1.27), np.clip(x, -1.28, 1.27), atol=0.005)
    steps = round_weights(x) / np.abs(x).max(axis=1, keepdims=True) * 127
    np.testing.assert_allclose(steps, np.rint(steps), atol=1e-9)
    assert snr_db(x, x) == np.inf and snr_db(np.ones(4), np.full(4, 1.1)) == pytest.approx(20)


def test_models_of_other_kinds_have_fewer_sites(tmp_path):
    model = vitkeras.VisionTransformer((33, 55, 3), 11, 1, 38, 2, 53, include_top=False)
    path = str(tmp_path / "features.tflite")
    tflite.convert(graph.export_model(model, True), path)
    assert len(equalize(path, str(tmp_path / "after.tflite"), images(2))) == 4
