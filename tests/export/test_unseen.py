"""Ranges before a GELU end where it begins to see, and what it doesn't see is no noise."""

import keras
import numpy as np
import pytest

from vitkeras.export import graph, post_training, tflite, to_tflite
from vitkeras.export.file_graph import Graph
from vitkeras.export.operators import read_operators
from vitkeras.export.presets import Preset
from vitkeras.export.sensitivity import layer_noise
from vitkeras.export.unseen import GELU_FLOOR, seen_by_gelu


def images(count):
    return np.random.default_rng(17).integers(0, 256, (count, 33, 55, 3)).astype("float32")


def with_low_values(make):
    """A net with values near -60 before its GELUs, as trained ones have some."""
    model = make()
    for name in ("encoder_block_00", "encoder_block_01"):
        bias = model.get_layer(name).mlp.expand.bias
        bias.assign(np.where(np.arange(53) % 5 == 2, -60, bias.numpy()))
    return model


@pytest.mark.parametrize("approximate", [True, False])
def test_the_floor_is_where_gelu_is_nothing(approximate):
    x = np.linspace(-100, GELU_FLOOR, 997).astype("float32")
    assert np.abs(keras.ops.convert_to_numpy(keras.ops.gelu(x, approximate=approximate))).max() < 1.3e-4
    np.testing.assert_array_equal(seen_by_gelu(np.array([-7.0, -4.0, -3.9, 5.0])), [-4.0, -4.0, -3.9, 5.0])


def test_tensors_that_only_gelus_read(make, tmp_path):
    path = str(tmp_path / "net.tflite")
    tflite.convert(graph.export_model(make(), True), path)
    assert [operator.role for operator in read_operators(path) if operator.before_gelu] == ["fc1"] * 2
    image = keras.Input((3, 5, 3))
    x = keras.layers.Dense(7)(keras.layers.Flatten()(image))
    y = keras.ops.gelu(x)
    for outputs, count in ((y, 1), ([y, x], 0), (y + x, 0)):
        tflite.convert(keras.Model(image, outputs), path)
        assert [operator.before_gelu for operator in read_operators(path)] == [bool(count)], outputs


def test_int8_levels_lie_where_they_are_seen(make, tmp_path, monkeypatch):
    model, photos, reports = with_low_values(make), images(137), []
    for floor in (GELU_FLOOR, -np.inf):
        monkeypatch.setattr("vitkeras.export.unseen.GELU_FLOOR", floor)
        path = str(tmp_path / "net.tflite")
        reports.append(to_tflite(model, path, "int8_static", calibration_images=photos[:128], overwrite=True))
        lows = []
        for operator in Graph(path).operators:
            tensor = Graph(path).tensors[operator.outputs[0]]
            if "Dense_0" in tensor.name.decode() and tensor.type == 9:
                lows.append(tensor.quantization.scale[0] * (-128 - tensor.quantization.zeroPoint[0]))
        assert len(lows) == 2 and all(low > -4.1 if floor == GELU_FLOOR else low < -50 for low in lows), lows
    cut, wide = ({k.split("/", 1)[1]: db for k, db in r.layer_snr if "/" in k} for r in reports)
    for name in ("encoder_block_00/mlp/Dense_1", "encoder_block_01/mlp/Dense_1"):
        assert cut[name] > wide[name] + 10, (cut[name], wide[name])
    assert cut["encoder_block_00/mlp/Dense_0"] > 25  # without the clipped values


def test_the_search_for_float_layers_counts_what_is_seen(make, tmp_path):
    path = str(tmp_path / "net.tflite")
    tflite.convert(graph.export_model(with_low_values(make), True), path)
    dense = [operator for operator in read_operators(path) if operator.role == "fc1"]
    modes = {operator.index: "static" for operator in dense}
    ranges = post_training.measure_ranges(path, dense, modes, Preset(""), images(7), True)
    assert {ranges[operator.output][0] for operator in dense} == {GELU_FLOOR}
    assert min(layer_noise(path, dense, ranges, images(7)).values()) > 25
