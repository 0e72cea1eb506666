"""`benchmarks/throughput.py`: arguments, arithmetic, its picture, and a run on a small net."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("throughput")


@pytest.mark.parametrize(
    "argv, message",
    [
        (["--rounds", "0"], "--rounds must be above 0, received 0."),
        (["--memory", "-1"], "--memory must be above 0, received -1.0."),
        (["--image-sizes", "64,big"], "--image-sizes must be pixels, such as 64,224, received '64,big'."),
        (["--preset-sizes", "0"], "--preset-sizes must be pixels, such as 64,224, received '0'."),
        (["--scaled-at", "96"], "--scaled-at must be one of the image sizes [64, 128, 224, 320, 512], received 96."),
        (["--plot", "/no/such/out.png"], "--plot must lie in a folder that exists, received '/no/such/out.png'."),
        (["--folder", "/no/such"], "--folder must lie in a folder that exists, received '/no/such'."),
        (["--folder", __file__], f"--folder must be a folder, received the file {__file__!r}."),
    ],
)
def test_bad_arguments(benchmark, capsys, argv, message):
    with pytest.raises(SystemExit) as stop:
        benchmark.main(argv)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_the_line_through_two_batches(benchmark):
    assert benchmark.memory_line([2, 4, 6], [120, 140, 160]) == (100.0, 10.0, 0.0)
    start, slope, off = benchmark.memory_line([3, 6, 9], [130, 176, 190])
    assert (start, slope) == (100.0, 10.0) and off == pytest.approx(0.1)


def made_result(benchmark):
    arguments = SimpleNamespace(variants=["vit_s16"], image_sizes=[64, 224], scaled_at=64, memory=1.0)
    speeds = {("vit_s16", 64): [90.0, 110.0, 100.0], ("vit_s16", 224): [5.0, 7.0, 6.0]}
    mega = 2**20
    peaks = {("vit_s16", 64): [600 * mega, 700 * mega, 800 * mega], ("vit_s16", 224): [512 * mega] * 3}
    rows = benchmark.rows_of(arguments, {"macs": {"vit_s16": [4e8, 4e9]}}, speeds, peaks)
    return {
        **{
            "device": "a machine",
            "tensorflow": "2.20",
            "rounds": 3,
            "clock": "wall",
            "memory_gib": 1.0,
            "image_sizes": [64, 224],
        },
        **{"scaled_at": 64, "exported": "vit_s16", "variants": rows},
        "presets": {"fp32": [{"image_size": 64, "images_per_second": 33.25}]},
    }


def test_rows(benchmark):
    small, large = made_result(benchmark)["variants"]["vit_s16"]
    assert benchmark.batches_of(64) == [64, 128, 192] and benchmark.batches_of(2048) == [1, 2, 3]
    assert (small["images_per_second"], small["calculated"], large["calculated"]) == (100.0, 100.0, 10.0)
    # 500 MiB and 100/64 MiB an image leave 524 of 1024 MiB.
    assert small["largest_batch"] == int(524 * 64 / 100) and small["line_off"] == 0
    assert large["largest_batch"] is None  # no slope to go by
    assert small["megabytes_an_image"] == pytest.approx(100 * 2**20 / 64 / 1e6)


def test_table_and_picture(benchmark, tmp_path):
    result = made_result(benchmark)
    text = "\n".join(benchmark.table(result))
    assert "vit_s16          64        0.40    100.00      100.00" in text and "33.25" in text
    benchmark.draw(result, str(tmp_path / "out.png"))
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG") and os.listdir(tmp_path) == ["out.png"]


@pytest.mark.slow
def test_a_run(tmp_path):
    options = ["--variants", "r_ti16", "--image-sizes", "32", "--rounds", "1"]
    options += ["--presets", "fp32", "--preset-sizes", "32", "--json", tmp_path / "out.json", "--folder", tmp_path]
    command = [sys.executable, BENCHMARKS / "throughput.py", *options]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "out.json").read_text())
    assert list(result["variants"]) == ["r_ti16"] and result["presets"]["fp32"][0]["images_per_second"] > 0
    assert all(row["images_per_second"] > 0 for rows in result["variants"].values() for row in rows)
    assert "r_ti16_32_fp32.tflite" in os.listdir(tmp_path) and "r_ti16_32_memory.json" in os.listdir(tmp_path)
