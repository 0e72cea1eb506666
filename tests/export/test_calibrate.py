"""Ranges of activations, and which images are taken for them."""

import warnings

import numpy as np
import pytest
import tensorflow as tf

from vitkeras.export import graph, tflite
from vitkeras.export.calibrate import BINS, Statistics, collect
from vitkeras.export.images import MOST, calibration_images
from vitkeras.export.operators import read_operators
from vitkeras.export.quantize import around_zero


def seen(values):
    statistics = Statistics()
    for part in np.array_split(values, 3):
        statistics.see_extremes(part)
    for part in np.array_split(values, 3):
        statistics.see_values(part)
    return statistics


def rounding_error(values, low, high):
    scale = (high - low) / 255
    zero = np.rint(-low / scale)
    return np.square((np.clip(np.rint(values / scale) + zero, 0, 255) - zero) * scale - values).sum()


def test_extremes_are_of_all_values():
    values = np.random.default_rng(1).normal(3, 1, 997).astype("float32")
    statistics = seen(values)
    assert (statistics.low, statistics.high) == (values.min(), values.max())
    assert statistics.counts.sum() == 997 and len(statistics.counts) == BINS
    low, high = statistics.range()
    assert low == min(0, values.min()) and high == values.max()


@pytest.mark.parametrize("sign", [1, -1])
def test_percentile_drops_an_outlier(sign):
    values = np.append(np.random.default_rng(2).uniform(-1, 1, 99_991), sign * 50.0).astype("float32")
    low, high = seen(values).range("percentile")
    assert -1.2 < low < -0.9 and 0.9 < high < 1.2


def test_mse_is_better_than_the_extremes_and_near_the_best():
    rng = np.random.default_rng(3)
    values = np.append(rng.normal(0, 1, 400_009), [12.0, -9.0]).astype("float32")
    statistics = seen(values)
    low, high = statistics.range("mse")
    assert low > -9 and high < 12
    chosen = rounding_error(values, low, high)
    assert chosen < 0.7 * rounding_error(values, *statistics.range())
    best = min(rounding_error(values, -end, end) for end in np.linspace(2, 12, 41))
    assert chosen < 1.1 * best


def test_mse_keeps_what_is_even():
    values = np.linspace(-1, 3, 40_009).astype("float32")
    low, high = seen(values).range("mse")
    assert low == pytest.approx(-1, abs=0.05) and high == pytest.approx(3, abs=0.1)


def test_a_right_operand_has_zero_point_zero():
    for low, high in ((-3.0, 1.0), (0.0, 5.0), (-1.0, 7.0), (0.0, 0.0)):
        least, most = around_zero(low, high)
        assert least <= low and most >= high * (1 - 1e-9) and least / most == pytest.approx(-128 / 127)


def test_collect_sees_every_image(make, pixels, tmp_path):
    path = str(tmp_path / "float.tflite")
    tflite.convert(graph.export_model(make(), True), path)
    head = read_operators(path)[-1].output
    images = pixels.astype("float32")
    answers = tflite_outputs(path, images)
    for order in (slice(None), slice(None, None, -1)):  # the first image has no say of its own
        found = collect(path, [head], images[order], counted=[head])
        assert found[head].low == pytest.approx(answers.min(), abs=1e-5)
        assert found[head].high == pytest.approx(answers.max(), abs=1e-5)
        assert found[head].counts.sum() == answers.size


def tflite_outputs(path, images):
    from vitkeras.export.runtime import TFLiteRunner

    return TFLiteRunner(path)(images)


SHAPE = (5, 7, 3)


def test_sources_of_images():
    images = np.random.default_rng(4).integers(0, 256, (131, *SHAPE)).astype("uint8")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = calibration_images(SHAPE, images, True)
        assert expected.dtype == np.float32 and expected.shape == images.shape
        single = tf.data.Dataset.from_tensor_slices(images)
        labelled = tf.data.Dataset.from_tensor_slices((images, np.arange(131))).batch(17)
        for source in (single, labelled):
            np.testing.assert_array_equal(calibration_images(SHAPE, source, True), expected)
    many = tf.data.Dataset.from_tensors(images[0]).repeat()
    assert len(calibration_images(SHAPE, many, True)) == MOST


def test_a_data_set_by_its_name():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert calibration_images((11, 13, 3), "digits", True).shape == (MOST, 11, 13, 3)


def test_warnings_and_refusals():
    images = np.random.default_rng(5).integers(0, 256, (127, *SHAPE)).astype("float32")
    with pytest.warns(UserWarning, match="calibration_images has 127 images; fewer than 128 may miss outliers"):
        calibration_images(SHAPE, images, True)
    with pytest.warns(UserWarning, match="reaches 255: with pixel_input=False they must be preprocessed"):
        calibration_images(SHAPE, np.concatenate([images, images]), False)
    for source, pixel_input, message in (
        (images / 255, True, "calibration_images must be pixels in 0...255, received at most 1.0: already scaled"),
        (images[:, :4], True, r"shape \(N, 5, 7, 3\), received \(127, 4, 7, 3\)"),
        (images * np.nan, False, "calibration_images must be finite"),
        (images.astype(str), True, "calibration_images must be real numbers, received <U"),
        (images.astype("complex64"), True, "calibration_images must be real numbers, received complex64"),
        (
            tf.data.Dataset.from_tensor_slices({"image": images}),
            True,
            "or of .images, labels., received elements of dict",
        ),
        ("digits", False, "for pixel_input=False, received a spec"),
        (tf.data.Dataset.from_tensor_slices(images).take(0), True, "received an empty tf.data set"),
        ("nowhere:x", True, "nowhere"),
    ):
        with pytest.raises(ValueError, match=message):
            calibration_images(SHAPE, source, pixel_input)
