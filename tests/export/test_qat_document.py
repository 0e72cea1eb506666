"""The example of docs/quantization-aware-training.md runs."""

import importlib.util
import re
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("tensorflow_model_optimization") is None, reason='needs pip install "vitkeras[qat]"'
)
def test_the_example_runs(tmp_path, monkeypatch, capsys):
    text = (Path(__file__).resolve().parents[2] / "docs" / "quantization-aware-training.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "docs/quantization-aware-training.md", "exec"), {})
    out = capsys.readouterr().out
    first, last = map(float, re.search(r"model: ([0-9.]+), then ([0-9.]+)", out).groups())
    assert 0 < first < 0.1 and 0 < last < 0.1 and "qat_int8, image 0...255 -> logits" in out
