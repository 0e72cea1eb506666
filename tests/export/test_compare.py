import json

import numpy as np
import pytest
from PIL import Image

from vitkeras.export import Comparison, cli, compare_tflite, to_tflite
from vitkeras.export.compare_cli import output_labels

LABELS = ["d", "a", "b", "c", "e", "f", "g"]  # another order than the data set's


@pytest.fixture(scope="module")
def files(tmp_path_factory, make):
    """Two files of one net, one of another."""
    folder = tmp_path_factory.mktemp("files")
    paths = {name: str(folder / f"{name}.tflite") for name in ("float", "int8", "other")}
    to_tflite(make(), paths["float"], preset="fp32", labels=LABELS)
    to_tflite(make(), paths["int8"], input_dtype="uint8", labels=LABELS)
    to_tflite(make(seed=4), paths["other"], preset="fp32")
    return paths


def test_two_files_of_one_net(files, pixels):
    from vitkeras.export import run_tflite

    x, y = (run_tflite(files[name], pixels) for name in ("float", "int8"))
    labels = x.argmax(1)
    found = compare_tflite(files["float"], files["int8"], pixels, labels, seconds=0.05)
    assert isinstance(found, Comparison) and found.images == 13
    assert found.top1_agreement == found.accuracies[1] == np.mean(y.argmax(1) == labels) and found.accuracies[0] == 1.0
    assert 0.8 <= found.top5_agreement <= 1.0 and 20 < found.sqnr_db < 80 and found.cosine > 0.99
    assert found.size_bytes[1] < found.size_bytes[0] and found.latency_ratio > 0 and min(found.latency_ms) > 0
    same = compare_tflite(files["float"], files["float"], pixels, seconds=0.05)
    assert (same.top1_agreement, same.top5_agreement, same.sqnr_db, same.accuracies) == (1.0, 1.0, float("inf"), None)
    assert same.as_dict()["sqnr_db"] is None and "no labels for these outputs" in str(same)


def test_files_of_two_nets_differ(files, pixels):
    found = compare_tflite(files["float"], files["other"], pixels, np.zeros(13, int), seconds=0.05)
    assert found.top1_agreement < 1 and found.sqnr_db < 10 and found.top5_agreement < 1
    assert json.loads(json.dumps(found.as_dict()))["paths"] == [files["float"], files["other"]]


def test_refusals(files, pixels, make, tmp_path):
    with pytest.raises(ValueError, match=r"images must have shape \(N, 33, 55, 3\) for '.*float.tflite'"):
        compare_tflite(files["float"], files["int8"], pixels[:, :30])
    with pytest.raises(ValueError, match=r"labels must be 13 ints in 0...6, received shape \(13,\) with 0...7"):
        compare_tflite(files["float"], files["int8"], pixels, np.arange(13) % 8, seconds=0.01)
    five = str(tmp_path / "five.tflite")
    to_tflite(make(classes=5), five, preset="fp32")
    with pytest.raises(ValueError, match="must have as many outputs: '.*float.tflite' has 7, '.*five.tflite' 5."):
        compare_tflite(files["float"], five, pixels)
    top = str(tmp_path / "top.tflite")
    to_tflite(make(), top, output="top_k", preset="fp32")
    with pytest.raises(ValueError, match="must have one output, it has "):
        compare_tflite(files["float"], top, pixels)


def test_labels_are_matched_by_name():
    classes = np.array([0, 1, 1, 2])
    assert output_labels(classes, ("a", "b", "c"), LABELS, 7).tolist() == [1, 2, 2, 3]
    assert output_labels(classes, ("a", "b", "rose"), LABELS, 7) is None
    assert output_labels(classes, ("a", "b", "c"), None, 3).tolist() == [0, 1, 1, 2]
    assert output_labels(classes, ("a", "b", "c"), None, 7) is None


def test_the_command(files, pixels, tmp_path, capsys):
    for i, picture in enumerate(pixels.astype("uint8")):
        folder = tmp_path / "photos" / ("test" if i % 3 else "train") / "ab"[i % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(folder / f"{i}.png")
    photos = f"folder:{tmp_path}/photos"
    command = ["--compare", files["float"], files["int8"], "--data", photos]
    assert cli.main([*command, "--json", str(tmp_path / "r.json"), "--limit", "5"]) == 0
    text = capsys.readouterr().out
    assert "agreement, 5 images  top-1" in text and "accuracy" in text and "b takes" in text
    found = json.loads((tmp_path / "r.json").read_text())
    assert found["images"] == 5 and len(found["accuracies"]) == 2
    for arguments, message in (
        (command[:3], "--compare needs --data SPEC"),
        ([*command, "--out", str(tmp_path / "x")], "--out is for an export, received it with --compare"),
        ([*command, "--limit", "0"], "--limit must be >= 1, received 0"),
        (
            ["--compare", files["float"], "no.tflite", "--data", photos],
            "--compare must name two .tflite files, 'no.tflite' is none",
        ),
        ([], "--model M.keras and --out PATH are needed, or --compare A B and --data SPEC"),
    ):
        assert cli.main(arguments) == 2
        error = capsys.readouterr().err.splitlines()[-1]
        assert error.startswith("error: ") and message in error
