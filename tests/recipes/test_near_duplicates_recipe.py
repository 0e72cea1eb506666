import csv
import json
import os

import keras
import numpy as np
import pytest
from PIL import Image

import vitkeras
from vitkeras import data
from vitkeras.recipes import near_duplicates


def blobs(seed, size=(61, 43)):
    """A made-up picture whose hash is its own."""
    small = np.random.default_rng(seed).uniform(0, 255, (7, 7, 3)).astype("uint8")
    return Image.fromarray(small).resize(size, Image.BICUBIC)


@pytest.fixture
def photos(tmp_path):
    """`train` with 2 x 5 pictures; `test` with a mirrored elm/1, an enlarged elm/2 that is called ash, and 2 others."""
    for part, name in (("train", "ash"), ("train", "elm"), ("test", "ash"), ("test", "elm")):
        (tmp_path / "photos" / part / name).mkdir(parents=True)
    for i in range(10):
        blobs(i).save(tmp_path / "photos" / "train" / ("ash" if i < 5 else "elm") / f"{i % 5}.png")
    test = tmp_path / "photos" / "test"
    blobs(6).transpose(Image.FLIP_LEFT_RIGHT).save(test / "elm" / "a.png")
    blobs(7).resize((122, 90)).save(test / "ash" / "b, c.jpg", quality=70)
    blobs(20).save(test / "ash" / "d.png")
    blobs(21).save(test / "elm" / "e.png")
    return tmp_path / "photos"


def run(*arguments):
    return near_duplicates.main([*map(str, arguments), "--debug"])


def test_the_report_and_what_is_left_to_train_on(photos, tmp_path, capsys):
    out = tmp_path / "out"
    assert run("--data", f"folder:{photos}", "--workdir", out) == 0
    said = capsys.readouterr().out
    assert "2 pairs: 2 of 10 training images and 2 of 4 test images, 1 pairs with different labels" in said
    report = json.loads((out / "near_duplicates.json").read_text())
    mirrored, enlarged = sorted(report["pairs"], key=lambda pair: not pair["mirrored"])
    train, test = str(photos / "train" / "elm"), str(photos / "test")
    assert (mirrored["train"], mirrored["test"]) == (f"{train}/1.png", f"{test}/elm/a.png")
    assert (enlarged["train"], enlarged["test"]) == (f"{train}/2.png", f"{test}/ash/b, c.jpg")
    assert [pair["same_label"] for pair in (mirrored, enlarged)] == [True, False] and mirrored["distance"] == 0
    assert mirrored["cosine"] is None and not enlarged["mirrored"]
    with open(out / "near_duplicates.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["train"] for row in rows] == [pair["train"] for pair in report["pairs"]]
    page = (out / "near_duplicates.html").read_text()
    assert page.count("data:image/jpeg;base64,") == 4 and page.count('<span class="differ">') == 1
    assert "http" not in page and "<script" not in page
    assert (out / "leave_out.txt").read_text().split() == [f"{train}/1.png", f"{train}/2.png"] == report["leave_out"]
    kept = data.open_dataset(f"csv:{out / 'kept.csv'}")
    assert sorted(kept.train.paths) == sorted(
        str(path) for path in photos.glob("train/*/*") if path.stem not in "12" or path.parent.name == "ash"
    )
    assert kept.test.num_examples == 4 and kept.class_names == ("ash", "elm")
    assert not [name for name in os.listdir(out) if name.endswith(".part")]


@pytest.mark.slow
def test_two_folders_and_features(photos, tmp_path, capsys):
    model = tmp_path / "model.keras"
    keras.utils.set_random_seed(2)
    vitkeras.VisionTransformer((24, 32, 3), 8, 1, 26, 2, 37, classes=7).save(model)
    specs = ["--data", f"folder:{photos / 'train'}", "--against", f"folder:{photos / 'test'}"]
    sets = ["--set", "min_cosine=0.05", "--set", "pictures=3", "--set", f"cache={tmp_path / 'cache'}"]
    assert run(*specs, "--model", model, *sets, "--workdir", tmp_path) == 0
    report = json.loads((tmp_path / "near_duplicates.json").read_text())
    assert (report["train_images"], report["test_images"]) == (10, 4)  # nothing is held out of either folder
    assert 20 < len(report["pairs"]) <= 40 and f"and {len(report['pairs']) - 20} more" in capsys.readouterr().out
    keys = [(pair["distance"], -pair["cosine"]) for pair in report["pairs"]]
    assert keys == sorted(keys) and all(pair["cosine"] >= 0.05 for pair in report["pairs"])
    assert (tmp_path / "near_duplicates.html").read_text().count("<section>") == 3


@pytest.mark.slow
def test_sets_without_files(tmp_path, capsys):
    assert run("--data", "digits", "--set", "max_distance=0", "--workdir", tmp_path) == 0
    assert "of 1437 training images" in capsys.readouterr().out
    lines = (tmp_path / "leave_out.txt").read_text().split()
    assert all(line.isdecimal() for line in lines) and not (tmp_path / "kept.csv").exists()


def test_smoke(capsys):
    assert run("--smoke") == 0
    assert "of 64 training images" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "--data is needed: folder:PATH"),
        (["--data", "digits", "--config", "vit_s14"], "--weights (or --model) is needed for --config vit_s14"),
        (["--data", "digits", "--set", "max_distance=32"], "max_distance must be in 0...31, received 32."),
        (["--data", "digits", "--set", "min_cosine=0.0"], "min_cosine must be above 0 and at most 1, received 0.0."),
        (["--data", "digits", "--set", "pictures=0"], "pictures must be above 0, received 0."),
        (["--data", "digits", "--against", "folder:none"], "data folder must exist, received 'none'."),
    ],
)
def test_bad_input_is_one_sentence(arguments, message, capsys):
    assert near_duplicates.main(arguments) == 2
    said = capsys.readouterr()
    assert said.err.startswith(f"error: {message}") and len(said.err.splitlines()) == 1


@pytest.mark.slow
def test_copies_of_real_photos(test_data, tmp_path):
    """Resized, recompressed and mirrored photos are all found; of crops of up to 5 % a side nine in ten."""
    paths = sorted((test_data / "data" / "flowers12" / "test").glob("*/*.jpg"))
    found = {}
    rng = np.random.default_rng(0)
    for kind in ("resized", "recompressed", "mirrored", "cropped"):
        folder = tmp_path / kind
        for path in paths:
            image = Image.open(path)
            if kind == "resized":
                image = image.resize((97, 131))
            elif kind == "mirrored":
                image = image.transpose(Image.FLIP_LEFT_RIGHT)
            elif kind == "cropped":
                left, top, right, bottom = rng.uniform(0, 0.05, 4) * 224
                image = image.crop((left, top, 224 - right, 224 - bottom))
            (folder / path.parent.name).mkdir(parents=True, exist_ok=True)
            image.save(folder / path.parent.name / path.name, quality=30 if kind == "recompressed" else 80)
        config = near_duplicates.CONFIGS["look_alikes"]()
        sets = [f"data.spec=folder:{paths[0].parents[1]}", f"against=folder:{folder}"]
        pairs, _, _ = near_duplicates.find(near_duplicates.cli.override(config, sets))
        own = {os.path.basename(pair["test"]) for pair in pairs if pair["train"].endswith(pair["test"][-20:])}
        found[kind] = len(own) / len(paths)
    assert found["resized"] == found["recompressed"] == found["mirrored"] == 1.0
    assert found["cropped"] > 0.9
