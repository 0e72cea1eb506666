"""`benchmarks/export_latency.py`: arguments, arithmetic, and a run on a small net."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("export_latency")


@pytest.mark.parametrize(
    "argv, message",
    [
        (["--rounds", "0"], "--rounds must be 1 or more, received 0."),
        (["--image-size", "-7"], "--image-size must be 1 or more, received -7."),
        (["--folder", "/no/such/made"], "--folder must lie in a folder that exists, received '/no/such/made'."),
        (["--folder", __file__], f"--folder must be a folder, received the file {__file__!r}."),
        (["--json", "/no/such/out.json"], "--json must lie in a folder that exists, received '/no/such/out.json'."),
        (["--kerashub-python", "/no/such"], "--kerashub-python must be a Python interpreter, received '/no/such'."),
    ],
)
def test_bad_arguments(benchmark, capsys, argv, message):
    with pytest.raises(SystemExit) as stop:
        benchmark.main(argv)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_ratios_are_those_of_each_round_and_of_the_fastest(benchmark):
    found = benchmark.ratios({"fp32": [3.0, 8.0, 5.0], "int8_dynamic": [1.5, 2.0, 2.0], "floor": [1.0, 1.0, 0.5]})
    assert found == {
        "int8_dynamic / fp32": (0.4, 0.5, 0.34),
        "int8_dynamic / floor": (2.0, 3.0, 1.25),
    }


def test_the_table_leaves_out_what_was_not_made(benchmark):
    files = {"int8_dynamic": {"bytes": 26_000_000, "seconds": 71.0, "peak_bytes": 3e9, "partitions": 1}}
    text = "\n".join(benchmark.table(files, {"int8_dynamic": [0.05, 0.07, 0.051], "floor": [0.041, 0.04, 0.043]}))
    assert "51.00       50.00      26.0           1       71.0     3.00" in text
    assert "int8_dynamic / floor" in text
    assert "kerashub" not in text and "int8_dynamic / fp32" not in text


def test_files_that_are_there_are_taken(benchmark, tmp_path, monkeypatch):
    asked = []

    def write(python, role, path, **arguments):
        asked.append(arguments)
        Path(path).write_bytes(bytes(13))
        return {"seconds": 7.5, "peak_bytes": 11}

    monkeypatch.setattr(benchmark, "ask", write)
    for _ in range(2):
        facts = benchmark.made(str(tmp_path), "a.tflite", sys.executable, "vitkeras", preset="fp32")
        assert facts == {"seconds": 7.5, "peak_bytes": 11, "bytes": 13, "path": str(tmp_path / "a.tflite")}
    assert asked == [{"preset": "fp32"}]
    assert sorted(os.listdir(tmp_path)) == ["a.tflite", "a.tflite.json"]


def test_nothing_is_left_of_a_file_that_failed(benchmark, tmp_path, monkeypatch):
    def fail(python, role, path, **arguments):
        Path(path).write_bytes(b"half")
        raise RuntimeError("stopped")

    monkeypatch.setattr(benchmark, "ask", fail)
    with pytest.raises(RuntimeError, match="stopped"):
        benchmark.made(str(tmp_path), "a.tflite", sys.executable, "vitkeras")
    assert os.listdir(tmp_path) == []


def run(*options):
    command = [sys.executable, str(BENCHMARKS / "export_latency.py"), "--image-size", "32", "--rounds", "2", *options]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.slow
def test_a_run_on_a_small_net(tmp_path):
    out = tmp_path / "out.json"
    done = run("--variant", "vit_ti16", "--presets", "fp32,int8_dynamic", "--json", str(out))
    assert done.returncode == 0, done.stderr
    result = json.loads(out.read_text())
    assert {"fp32", "int8_dynamic", "sgemm", "floor"} <= set(result["seconds"]) & set(done.stdout.split())
    assert all(len(values) == 2 and min(values) > 0 for values in result["seconds"].values())
    assert 5.5e6 * 4 < result["files"]["fp32"]["bytes"] < 5.8e6 * 4.2  # 5.5 M parameters, fewer positions
    assert result["files"]["int8_dynamic"]["partitions"] == 1
    # 4 patches and the token; 12 blocks of 192 and 768; 1000 classes
    assert result["macs"] == 4 * 768 * 192 + 12 * (5 * 192 * (4 * 192 + 2 * 768) + 2 * 25 * 192) + 192_000


@pytest.mark.parametrize(
    "variant, preset, message",
    [
        ("vit_b17", "fp32", "variant must be one of vit_ti16, "),
        ("vit_b16", "int9", "nearest: 'int"),
        ("vit_b16", "qat_int8", "presets must be for models as they are built, received qat_int8."),
    ],
)
def test_names_that_there_are_not(benchmark, variant, preset, message):
    workers = importlib.import_module("latency_workers")
    assert message in workers.describe(variant, 32, [preset])["error"]


@pytest.mark.slow
def test_a_fault_of_a_process_is_one_sentence_here():
    done = run("--variant", "vit_b17")
    assert done.returncode == 2
    assert "variant must be one of" in done.stderr and "Traceback" not in done.stderr
