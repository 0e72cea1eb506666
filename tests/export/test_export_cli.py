import json
import os
import subprocess
import sys

import pytest
from PIL import Image

from vitkeras.export import cli
from vitkeras.export.labels import read_labels


@pytest.fixture
def saved(make, tmp_path):
    path = tmp_path / "m.keras"
    make().save(path)
    return str(path)


def run(*arguments):
    return cli.main([str(argument) for argument in arguments])


def test_tflite(saved, tmp_path, capsys):
    (tmp_path / "classes.txt").write_text("a\nb\nc\nd\ne\nf\ng\n")
    out, report = tmp_path / "m.tflite", tmp_path / "r.json"
    command = ("--model", saved, "--preset", "fp32", "--out", out, "--labels", tmp_path / "classes.txt")
    assert run(*command, "--json", report) == 0
    text = capsys.readouterr().out
    assert "1 XNNPACK partition, fully accelerated" in text and "fp32, image 0...255 -> logits" in text
    assert json.loads(report.read_text())["partitions"] == 1
    assert read_labels(out) == list("abcdefg")


def test_saved_model(saved, tmp_path, capsys):
    assert run("--model", saved, "--out", tmp_path / "folder") == 0
    assert "SavedModel, max |difference| to Keras" in capsys.readouterr().out
    assert (tmp_path / "folder" / "saved_model.pb").exists()


def test_images_of_a_folder(saved, pixels, tmp_path, capsys):
    for i, picture in enumerate(pixels.astype("uint8")):
        folder = tmp_path / "photos" / ("test" if i % 3 else "train") / "xy"[i % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(folder / f"{i}.png")
    photos = f"folder:{tmp_path}/photos"
    assert run("--model", saved, "--preset", "fp32", "--out", tmp_path / "m.tflite", "--data", photos) == 0
    assert "against Keras, 8 images" in capsys.readouterr().out


@pytest.mark.parametrize(
    "change, message",
    [
        (("--model", "nothing.keras"), "--model 'nothing.keras' is not a file"),
        (("--preset", "int9"), "preset must be one of"),
        (("--out", "/no/such/folder/m.tflite"), "output folder '/no/such/folder' does not exist"),
        (("--labels", "/no/labels.txt"), "/no/labels.txt"),
        (("--data", "folder:/no/such"), "/no/such"),
        (("--threads", "0"), "--threads must be >= 1, received 0"),
    ],
)
def test_bad_input_is_one_sentence_and_code_2(saved, tmp_path, capsys, change, message):
    arguments = {"--model": saved, "--out": str(tmp_path / "m.tflite"), change[0]: change[1]}
    assert run(*[part for pair in arguments.items() for part in pair]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and message in error and len(error.splitlines()) == 1
    assert os.listdir(tmp_path) == ["m.keras"]


def test_files_that_are_no_models(tmp_path, capsys):
    (tmp_path / "text.keras").write_text("hello")
    assert run("--model", tmp_path / "text.keras", "--out", tmp_path / "m.tflite") == 2
    assert "is not a model saved by Keras" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["text.keras"]


def test_existing_output_and_debug(saved, tmp_path, capsys):
    (tmp_path / "m.tflite").write_text("mine")
    assert run("--model", saved, "--out", tmp_path / "m.tflite") == 2
    assert "exists; choose another name, or overwrite=True (--overwrite)" in capsys.readouterr().err
    assert run("--model", saved, "--out", tmp_path / "m.tflite", "--debug") == 2
    assert "Traceback" in capsys.readouterr().err
    assert (tmp_path / "m.tflite").read_text() == "mine"
    assert run("--model", saved, "--out", tmp_path / "m.tflite", "--overwrite") == 0


def test_the_module_runs(saved, tmp_path):
    command = [sys.executable, "-m", "vitkeras.export", "--model", saved, "--out", str(tmp_path / "m.tflite")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "int8_dynamic, image 0...255 -> logits" in done.stdout


def test_help_lists_the_data_sources(capsys):
    from vitkeras._data_sources import SOURCES

    with pytest.raises(SystemExit):
        run("--help")
    text = " ".join(capsys.readouterr().out.split())
    assert [spec for spec in SOURCES.values() if spec not in text] == []
