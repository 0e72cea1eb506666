"""The calculated size of an exported file against the file's."""

import os

import pytest

import vitkeras
from vitkeras import analysis
from vitkeras.export import to_tflite


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["fp32", "int8_dynamic"])
def test_the_file_is_as_large_as_calculated(tmp_path, preset):
    """Two blocks of ViT-S. The graph isn't counted, and a file stores equal arrays, such as fresh biases, once."""
    model = vitkeras.ViTS16(weights=None, input_shape=(64, 96, 3), num_layers=2, classes=11)
    path = str(tmp_path / "model.tflite")
    to_tflite(model, path, preset=preset)
    calculated = analysis.exported_size(analysis.flops(model), preset)
    assert os.path.getsize(path) == pytest.approx(calculated, rel=0.01)
