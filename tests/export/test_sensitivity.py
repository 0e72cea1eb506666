"""Which dense layers stay float: a short list that is enough."""

import numpy as np
import pytest

from vitkeras.export import checks, graph, tflite
from vitkeras.export.calibrate import collect
from vitkeras.export.operators import read_operators
from vitkeras.export.quantize import quantize
from vitkeras.export.runtime import TFLiteRunner
from vitkeras.export.sensitivity import fewest, keep_float, layer_noise


@pytest.mark.parametrize("needed", [(), (0,), (31,), (4, 17), (0, 1, 2), (29, 30, 31)])
def test_what_is_needed_is_found(needed):
    calls = []

    def reaches(some):
        calls.append(some)
        return set(needed) <= set(some)

    assert fewest(list(range(37)), reaches) == list(needed)
    assert len(calls) < 60


def test_what_is_never_enough_is_all():
    assert fewest(list(range(5)), lambda some: False) == [0, 1, 2, 3, 4]
    assert fewest([], lambda some: True) == []


def test_the_noisiest_layer_is_kept(make, pixels, tmp_path):
    path, made = str(tmp_path / "float.tflite"), str(tmp_path / "int8.tflite")
    tflite.convert(graph.export_model(make(), True), path)
    operators, images = read_operators(path), pixels.astype("float32")
    names = {name for operator in operators for name in (*operator.inputs, operator.output)}
    ranges = {name: found.range() for name, found in collect(path, names, images).items()}
    worst = next(o for o in operators if o.role == "fc2")
    ranges[worst.inputs[0]] = (-4000.0, 4000.0)  # one range that rounds everything away
    modes = {o.index: "static" if o.weight_shape else "float" for o in operators}
    dense = [o for o in operators if o.kind == "FULLY_CONNECTED"]
    noise = layer_noise(path, dense, ranges, images)
    assert min(noise, key=noise.get) == worst.index and noise[worst.index] < 10
    chosen, labels = keep_float(path, operators, modes, ranges, images)
    assert worst.label in labels and chosen[worst.index] == "float" and len(labels) < 5
    exact = TFLiteRunner(path)(images)

    def decibels(some):
        quantize(path, made, operators, some, ranges)
        return checks.compare(exact, TFLiteRunner(made)(images))["sqnr_db"]

    assert decibels(chosen) > decibels(modes) + 6
    assert np.isfinite(decibels(chosen))
