import json
import os
import subprocess
import sys

import keras
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
    printed = capsys.readouterr()
    assert "against Keras, 8 images" in printed.out and "accuracy" not in printed.out
    assert printed.err.splitlines().count("warning: no accuracy is given: --data has 2 classes, the model 7.") == 1


@pytest.mark.parametrize("labels, accuracy", [("abcdefg", "100.00"), ("gabcdef", "0.00"), ("hijklmn", None)])
def test_labels_are_matched_with_the_datas_classes(make, pixels, expected, tmp_path, capsys, labels, accuracy):
    model = make()
    model.get_layer("head").bias.assign_sub(expected(model).mean(axis=0))  # else it says "g" of all
    model.save(tmp_path / "m.keras")
    for i, (picture, answer) in enumerate(zip(pixels.astype("uint8"), expected(model).argmax(1))):
        for part in ("train", "test"):  # every picture in the folder of what the model says of it
            folder = tmp_path / "photos" / part / "abcdefg"[answer]
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(picture).save(folder / f"{i}.png")
    (tmp_path / "labels.txt").write_text("\n".join(labels))
    command = ("--model", tmp_path / "m.keras", "--out", tmp_path / "m.tflite", "--preset", "fp32")
    assert run(*command, "--labels", tmp_path / "labels.txt", "--data", f"folder:{tmp_path}/photos") == 0
    printed = capsys.readouterr()
    if accuracy is None:
        assert "accuracy" not in printed.out
        assert "warning: no accuracy is given: the classes of --data are not all among --labels." in printed.err
    else:
        assert f"Keras {accuracy} %, file {accuracy} %" in printed.out and "warning" not in printed.err


def test_an_interrupted_export_leaves_nothing(saved, tmp_path, capsys, monkeypatch):
    from vitkeras.export import tflite

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(tflite, "add_metadata", interrupt)
    (tmp_path / "m.tflite").write_text("mine")
    assert run("--model", saved, "--preset", "fp32", "--out", tmp_path / "m.tflite", "--overwrite") == 130
    assert capsys.readouterr().err.splitlines()[-1] == "error: interrupted; unfinished output was removed."
    assert sorted(os.listdir(tmp_path)) == ["m.keras", "m.tflite"] and (tmp_path / "m.tflite").read_text() == "mine"


@pytest.mark.parametrize(
    "change, message",
    [
        (
            ("--model", "nothing.keras"),
            "--model 'nothing.keras' must be a file saved by Keras or a folder with model.keras",
        ),
        (("--preset", "int9"), "preset must be one of"),
        (("--out", "/no/such/folder/m.tflite"), "output folder '/no/such/folder' does not exist"),
        (
            ("--labels", "/no/labels.txt"),
            "--labels '/no/labels.txt' must be a text file in UTF-8: No such file or directory.",
        ),
        (("--data", "folder:/no/such"), "/no/such"),
        (("--threads", "0"), "--threads must be in 1...256, received 0"),
        (("--threads", "100000"), "--threads must be in 1...256, received 100000"),
        (("--preset", "int8_static"), "--calibration SPEC is needed for --preset int8_static"),
        (("--preset", "qat_int8"), "--ranges JSON is needed for --preset qat_int8"),
        (("--limit", "5"), "--limit is for --data, received --limit 5 without it."),
        (("--out", "m.ONNX"), "--out must be NAME.tflite or a folder for a SavedModel, received 'm.ONNX'."),
        (("--out", "/proc/m.tflite"), "output folder '/proc' cannot be written (No such file or directory)."),
        (("--k", "3"), "--k is for --output top_k, received --k 3"),
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


@pytest.mark.parametrize("first, second", [("out", "html"), ("json", "html"), ("json", "model"), ("html", "labels")])
def test_no_file_is_written_over_another(saved, tmp_path, capsys, first, second):
    (tmp_path / "labels.txt").write_text("a\nb\nc\nd\ne\nf\ng\n")
    paths = {"model": saved, "out": tmp_path / "m.tflite", "labels": tmp_path / "labels.txt"}
    paths[first] = paths.get(second) or paths.setdefault(second, paths.get(first, tmp_path / "x"))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert run(*(part for name, path in paths.items() for part in (f"--{name}", path)), "--overwrite") == 2
    error = capsys.readouterr().err
    assert f"--{first} and --{second} must be different files, received " in error
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_runs_folder_and_a_name_in_capitals(make, tmp_path, capsys):
    (tmp_path / "run").mkdir()
    make().save(tmp_path / "run" / "model.keras")
    assert run("--model", tmp_path / "run", "--out", tmp_path / "M.TFLITE", "--preset", "fp32") == 0
    assert (tmp_path / "M.TFLITE").is_file()


def test_a_class_of_another_program_is_named(tmp_path, capsys):
    class Own(keras.layers.Layer):
        def call(self, x):
            return x

    image = keras.Input((8, 8, 3))
    keras.Model(image, Own()(image)).save(tmp_path / "own.keras")
    assert run("--model", tmp_path / "own.keras", "--out", tmp_path / "m.tflite") == 2
    assert (
        "has a layer of the class 'Own', which this command doesn't know: load it in Python" in capsys.readouterr().err
    )


def test_a_lambda_layer_is_named(tmp_path, capsys):
    image = keras.Input((8, 8, 3))
    keras.Model(image, keras.layers.Lambda(lambda x: 2 * x)(image)).save(tmp_path / "own.keras")
    assert run("--model", tmp_path / "own.keras", "--out", tmp_path / "m.tflite") == 2
    assert "has a Lambda layer, whose Python code this command doesn't run: load it" in capsys.readouterr().err


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
