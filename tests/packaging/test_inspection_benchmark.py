"""`benchmarks/inspection.py`: its arithmetic, and what it times on a tiny net."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("inspection")


def test_ratios(benchmark):
    seconds = {"forward": [1.0, 2.0, 1.5], "maps": [2.0, 6.0, 3.0], "features": [1.25, 2.0, 2.0]}
    processor = {"forward": [2.0, 4.0], "maps": [7.0, 6.0], "features": [2.0, 8.0]}
    found = benchmark.compared(seconds, processor, {"bytes": 100}, {"bytes": 430, "result": 300})
    assert found["maps"] == (2.0, {"fastest": 2.0, "processor": 3.0}, True) and found["memory"] == (1.3, {}, True)
    assert found["features"] == (0.8, {"fastest": 0.8, "processor": 1.0}, False)
    seconds["maps"] = [2.5, 5.0, 4.0]
    worse = benchmark.compared(seconds, processor, {"bytes": 100}, {"bytes": 431, "result": 300})
    assert not worse["maps"][2] and not worse["memory"][2]


@pytest.mark.slow
def test_tasks(benchmark, monkeypatch):
    import vitkeras

    def tiny(variant, side):
        return vitkeras.VisionTransformer((side, side, 3), 8, 2, 26, 2, 37, classes=7)

    monkeypatch.setattr(benchmark, "vitkeras_model", tiny)
    todo = benchmark.tasks("tiny", batch=5, image_size=24)
    assert todo["forward"](5).shape == (5, 7)
    assert [x.shape for x in todo["maps"](3)] == [(3, 2, 10, 10)] * 2
    assert todo["features"](5)[0].shape == (5, 26)


@pytest.mark.parametrize("option", ["--batch", "--image-size", "--rounds"])
def test_bad_arguments(benchmark, monkeypatch, capsys, option):
    monkeypatch.setattr(sys, "argv", ["inspection.py", option, "0"])
    with pytest.raises(SystemExit) as stop:
        benchmark.main()
    assert stop.value.code == 2 and f"{option} must be 1 or more, received 0." in capsys.readouterr().err


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads Linux' /proc")
def test_resident_memory_grows(benchmark):
    before = benchmark.resident()
    kept = np.ones(2**22)
    assert benchmark.resident() - before > 0.9 * kept.nbytes
