"""`recipes.inspect`: photos of every kind in, one page and the same numbers out."""

import json
import re

import keras
import numpy as np
import pytest
from PIL import Image

import vitkeras
from vitkeras import analysis
from vitkeras.data.images import decode_with_pillow
from vitkeras.recipes import inspect
from vitkeras.recipes.predictors import read_names

RNG = np.random.default_rng(59)
NAMES = ("ash", "beech", "<elm>")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run's folder with a model, its classes, and photos of several modes."""
    folder = tmp_path_factory.mktemp("run")
    model = vitkeras.VisionTransformer((24, 40, 3), 8, 2, 24, 3, 17, classes=3, classifier_activation=None)
    for weight in model.weights:
        if any(name in weight.path for name in ("query", "key", "head")):
            weight.assign(RNG.normal(size=weight.shape))
    model.save(folder / "model.keras")
    (folder / "classes.txt").write_text("\n".join(NAMES) + "\n")
    colours = Image.fromarray(RNG.integers(0, 256, (31, 77, 3)).astype("uint8"))
    exif = Image.Exif()
    exif[274] = 6  # shown turned by a quarter
    colours.save(folder / "turned.jpg", exif=exif)
    colours.convert("L").save(folder / "grey.png")
    colours.convert("RGBA").save(folder / "clear.png")
    colours.quantize(8).save(folder / "palette.gif")
    colours.convert("CMYK").save(folder / "inks.jpg")
    return folder


PHOTOS = ("turned.jpg", "grey.png", "clear.png", "palette.gif", "inks.jpg")


@pytest.fixture(scope="module")
def report(folder):
    """(page, numbers) of all photos."""
    photos = [str(folder / name) for name in PHOTOS]
    out = folder / "report.html"
    for name in ("report.html", "report.json"):
        (folder / name).write_text("an older one")
    arguments = ["--model", str(folder / "model.keras"), "--image", *photos, "--out", str(out), "--overwrite"]
    assert inspect.main(arguments) == 0
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]
    return out.read_text(encoding="utf-8"), json.loads((folder / "report.json").read_text())


def as_evaluated(path):
    pixels = decode_with_pillow(path.read_bytes()).astype("float32")  # whole numbers would be rounded
    return vitkeras.preprocess_input(keras.ops.image.resize(pixels, (24, 40)))[None]


def test_the_numbers_are_those_of_the_library(folder, report):
    model = keras.saving.load_model(folder / "model.keras")
    _, values = report
    assert [image["size"] for image in values["images"]] == [[31, 77]] * 5
    for name, found in list(zip(PHOTOS, values["images"]))[::3]:
        image = as_evaluated(folder / name)
        maps = analysis.attention_maps(model, image)
        rollout = analysis.roll_out(maps)[0, 0, 1:].reshape(3, 5)
        np.testing.assert_allclose(found["rollout"]["mean"], rollout, rtol=1e-3)
        np.testing.assert_allclose(found["rollout_by_layer"][1], rollout, rtol=1e-3)
        first = analysis.roll_out(maps[:1])[0, 0, 1:].reshape(3, 5)
        np.testing.assert_allclose(found["rollout_by_layer"][0], first, rtol=1e-3)
        weakest = analysis.roll_out(maps, "min")[0, 0, 1:].reshape(3, 5)
        np.testing.assert_allclose(found["rollout"]["min"], weakest, rtol=1e-3)
        np.testing.assert_allclose(found["last_layer"], maps[1][0].mean(axis=0)[0, 1:].reshape(3, 5), rtol=1e-3)
        np.testing.assert_allclose(np.reshape(found["heads"], (2, 3, 15)), [w[0, :, 0, 1:] for w in maps], rtol=1e-3)
        probabilities = keras.ops.softmax(model(image))[0]
        best = int(np.argmax(probabilities))
        top = found["predictions"][0]
        assert (top["class"], top["name"]) == (best, NAMES[best])
        assert top["probability"] == pytest.approx(float(probabilities[best]), rel=1e-3)
        assert len(found["predictions"]) == 3
    mean = np.mean([image["distances"] for image in values["images"]], axis=0)
    np.testing.assert_allclose(values["distances"], mean, rtol=1e-5)
    cost = analysis.flops(model)
    assert (values["cost"]["flops"], values["cost"]["parameters"]) == (cost.flops, cost.parameters)
    facts = values["model"]
    assert (facts["grid"], facts["patch size"], facts["classes"], facts["layers"]) == ([3, 5], [8.0, 8.0], 3, 2)
    assert facts["position embedding"] == "learned, 1-d" and facts["class token"] is True


def test_the_page_holds_everything(report):
    page, _ = report
    sources = re.findall(r'(?:src|srcset|href)="([^"]*)"', page)
    assert len(sources) > 5 * (4 + 2 + 6) and all(source.startswith("data:") for source in sources)
    assert "<script" not in page and "url(" not in page and "@import" not in page and "default-src 'none'" in page
    images = re.findall(r"<img [^>]*>", page)
    assert all(re.search(r'alt="[^"]{5,}"', image) for image in images)
    assert page.count("<details name=") == 5 * 2 and page.count("<picture>") == 3
    assert "&lt;elm&gt;" in page and "<elm>" not in page
    for name in PHOTOS:
        assert f"<h2>{name}</h2>" in page
    assert page.count("asks to be shown turned") == 1
    assert f"{24 * 40 // 64 + 1} x 24" in page  # the tokens in the table of the cost


def test_nothing_is_replaced_unasked(folder, report, tmp_path, capsys):
    arguments = ["--model", str(folder / "model.keras"), "--image", str(folder / "grey.png"), "--out"]
    assert inspect.main([*arguments, str(folder / "report.html")]) == 2
    assert "report.html' exists; choose another name" in capsys.readouterr().err
    (tmp_path / "numbers.json").write_text("mine")
    assert inspect.main([*arguments, str(tmp_path / "numbers.html")]) == 2
    assert "numbers.json' exists" in capsys.readouterr().err
    assert (tmp_path / "numbers.json").read_text() == "mine" and len(list(tmp_path.iterdir())) == 1


@pytest.fixture(scope="module")
def others(tmp_path_factory):
    """Files that are no photos, and models without attention over patches."""
    folder = tmp_path_factory.mktemp("others")
    (folder / "notes.jpg").write_text("no picture")
    (folder / "bytes.txt").write_bytes(b"\xff\xfe\xfa")
    (folder / "two.txt").write_text("ash\nbeech\n")
    (folder / "empty.txt").write_text("\n")
    (folder / "three.txt").write_text("\ufeffash\nbeech\nelm\n\n", encoding="utf-8")
    damaged = vitkeras.VisionTransformer((24, 40, 3), 8, 1, 12, 3, 17, classes=3)
    damaged.set_weights([np.nan * weight for weight in damaged.get_weights()])
    damaged.save(folder / "damaged.keras")
    vitkeras.VisionTransformer((24, 40, 3), 8, 1, 12, 3, 17, include_top=False).save(folder / "headless.keras")
    (folder / "folder.html").mkdir()
    vitkeras.models.ResNet((64, 96, 3), (1,), 0.5, classes=3).save(folder / "resnet.keras")
    vitkeras.models.AxialViT((24, 40, 3), 8, 1, 12, 3, 17, classes=3).save(folder / "axial.keras")
    wrapped(vitkeras.VisionTransformer((24, 40, 3), 8, 1, 12, 3, 17, classes=3)).save(folder / "wrapped.keras")
    return folder


def wrapped(model):
    """The model behind a layer of Keras that takes pixels."""
    rescaling = keras.layers.Rescaling(1 / 127.5, -1, name="from_pixels")
    return keras.Sequential([keras.Input(model.input_shape[1:]), rescaling, model])


@pytest.mark.parametrize(
    "change, message",
    [
        ({"--image": "OTHERS/missing.jpg"}, "--image must be a file that exists, received "),
        ({"--image": "OTHERS/notes.jpg"}, "notes.jpg must be a readable image (not a readable file of the formats "),
        ({"--image": "OTHERS"}, "--image must be a file that exists, received "),
        ({"--model": "OTHERS/none.keras"}, "--model must be a file or folder that exists, received "),
        ({"--model": "OTHERS/resnet.keras"}, "must hold a MultiHeadSelfAttention layer, 'resnet' holds none."),
        ({"--model": "OTHERS/axial.keras"}, "axial attention has no rollout."),
        ({"--out": "OTHERS/report.txt"}, "--out must be a name that ends in .html, received "),
        ({"--out": "OTHERS/folder.html"}, "--out must be a file, "),
        ({"--out": "OTHERS/none/report.html"}, "does not exist."),
        ({"--labels": "OTHERS/none.txt"}, "--labels must be a file that exists, received "),
        ({"--labels": "OTHERS/bytes.txt"}, "bytes.txt must be a text file in UTF-8, received other bytes."),
        ({"--labels": "OTHERS/empty.txt"}, "empty.txt must hold names, one a line, received an empty file."),
        (
            {"--model": "OTHERS/damaged.keras"},
            "--model must attend with finite weights, received nan or inf in layer 1",
        ),
        ({"--model": "OTHERS/notes.jpg"}, "--model: checkpoint must be a file that ends in one of "),
        (
            {"--model": "OTHERS/headless.keras", "--labels": "OTHERS/three.txt"},
            "--labels are for models with a head, received ",
        ),
        ({"--labels": "OTHERS/two.txt"}, "--labels must hold the model's 3 classes, received 2."),
        (
            {"--model": "OTHERS/wrapped.keras"},
            "scales its input by the layer 'from_pixels'; add --input-values pixels (0...255) or scaled (-1...1).",
        ),
        ({"--activation": "gelu"}, "activation must not be given for "),
        (
            {"--image-size": "big"},
            "--image-size must be pixels or HEIGHTxWIDTH, such as 224 or 224x320, received 'big'.",
        ),
    ],
)
def test_bad_input_is_one_sentence(folder, others, tmp_path, capsys, change, message):
    arguments = {"--model": str(folder / "model.keras"), "--image": str(folder / "grey.png")}
    arguments |= {"--out": str(tmp_path / "report.html")}
    arguments |= {option: text.replace("OTHERS", str(others)) for option, text in change.items()}
    assert inspect.main([part for pair in arguments.items() for part in pair]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("error: ") and message in said.err and len(said.err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_takes_pixels(folder, tmp_path):
    paths = [tmp_path / name for name in ("plain.keras", "wrapped.keras")]
    model = vitkeras.VisionTransformer((24, 40, 3), 8, 1, 12, 3, 17, classes=3)
    model.get_layer("patch_embedding").projection.kernel.assign(np.random.default_rng(3).normal(size=(8, 8, 3, 12)) / 8)
    model.save(paths[0])
    wrapped(model).save(paths[1])
    found = []
    for path, more in zip(paths, ([], ["--input-values", "pixels"])):
        arguments = ["--model", str(path), "--image", str(folder / "turned.jpg")]
        assert inspect.main([*arguments, "--out", str(path.with_suffix(".html")), *more]) == 0
        values = json.loads(path.with_suffix(".json").read_text())
        found.append(values["images"][0]["rollout"]["mean"])
    np.testing.assert_allclose(*found, rtol=1e-4)
    assert np.ptp(found[0]) > 1e-3


def test_names_of_a_file_from_elsewhere(others):
    assert read_names(str(others / "three.txt")) == ("ash", "beech", "elm")


def test_no_photo_makes_the_page_endless(report):
    rules = dict(re.findall(r"(\.\w+ img) \{ ([^}]*) \}", report[0]))
    for name in (".wide img", ".strip img", ".heads img"):
        assert "max-height: " in rules[name]


@pytest.mark.slow
@pytest.mark.parametrize(
    "model, arguments",
    [
        (dict(input_shape=(None, None, 3), position_embedding_at="every_layer"), ["--image-size", "32x56"]),
        (dict(position_embedding="relative", classifier="gap", include_top=False), []),
        (dict(position_embedding="none", classes=2), []),
        (dict(input_shape=(64, 96, 3), patch_size=2, stem_blocks=(), stem_width_factor=0.5), []),
    ],
)
def test_other_models(folder, tmp_path, model, arguments):
    sizes = dict(input_shape=(24, 40, 3), patch_size=8, num_layers=2, hidden_dim=24, num_heads=3, mlp_dim=17)
    made = vitkeras.VisionTransformer(**{**sizes, "classes": 3, **model})
    made.save(tmp_path / "other.keras")
    out = tmp_path / "report.html"
    photo = str(folder / "turned.jpg")
    assert (
        inspect.main(["--model", str(tmp_path / "other.keras"), "--image", photo, "--out", str(out), *arguments]) == 0
    )
    page, values = out.read_text(), json.loads((tmp_path / "report.json").read_text())
    grid = values["model"]["grid"]
    assert np.shape(values["images"][0]["heads"]) == (2, 3, *grid)
    if arguments:
        assert grid == [4, 7] and page.count("<picture>") == 4
        assert values["model"]["position embedding"] == "learned, 1-d, in 2 layers"
    if model.get("position_embedding") == "none":
        assert "no learned position embedding: there is nothing to compare" in page
    if "include_top" in model:
        assert values["images"][0]["predictions"] == [] and "Predicted classes" not in page
    if "stem_blocks" in model:
        assert values["model"]["patch size"] == [8, 8]


@pytest.mark.slow
def test_the_rollout_of_a_real_net_falls_on_the_flower(test_data, tmp_path):
    """The petals of ten photos, found by their yellow, weigh more than the rest, in median and in mean."""
    photos = [
        path
        for species in ("sunflower", "dandelion")
        for path in sorted((test_data / "data" / "flowers12" / "test" / species).iterdir())[:5]
    ]
    weights = str(test_data / "weights" / "vit_s14_real_fp16.npz")
    arguments = ["--model", weights, "--activation", "gelu", "--weights-input", "imagenet"]
    out = tmp_path / "report.html"
    assert inspect.main([*arguments, "--image", *map(str, photos), "--out", str(out)]) == 0
    values = json.loads((tmp_path / "report.json").read_text())
    assert values["model"]["position embedding"] == "learned, 1-d" and values["model"]["classes"] is None
    for path, image in zip(photos, values["images"]):
        red, green, blue = np.moveaxis(np.asarray(Image.open(path).convert("RGB")).astype(float), -1, 0)
        yellow = (red > 150) & (green > 90) & (blue < 0.55 * red) & (red > 0.95 * green)
        petals = yellow.reshape(16, 14, 16, 14).mean(axis=(1, 3)) > 0.5
        assert 80 < petals.sum() < 180
        for heat in map(np.asarray, image["rollout"].values()):
            assert np.median(heat[petals]) > 1.25 * np.median(heat[~petals])
            assert heat[petals].mean() > 1.25 * heat[~petals].mean()
