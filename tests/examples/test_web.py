"""examples/web in Chromium: its answers are Python's, and bad files get one sentence."""

import os
import shutil
import zipfile

import numpy as np
import pytest
from PIL import Image
from web_answers import TOLERANCE, assert_same_answers, clear_answers

import vitkeras
from vitkeras import data
from vitkeras.data.images import decode_with_pillow
from vitkeras.data.resizing import resize
from vitkeras.export import to_tflite
from vitkeras.export.labels import read_labels

pytestmark = [pytest.mark.slow, pytest.mark.web]

NAMES = ["null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun"]


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """Folder with a small ViT, trained on digits for a moment: fp32.tflite and int8_dynamic.tflite."""
    import keras

    from vitkeras.recipes import finetune

    folder = tmp_path_factory.mktemp("digits")
    run = str(folder / "run")
    assert finetune.main(["--config", "digits", "--workdir", run, "--set", "train.epochs=6"]) == 0
    model = keras.saving.load_model(os.path.join(run, "model.keras"))
    for preset in TOLERANCE:
        to_tflite(model, str(folder / f"{preset}.tflite"), preset=preset, labels=NAMES)
    return folder


@pytest.mark.parametrize("preset", TOLERANCE)
def test_digits_get_pythons_answers(digits, site, visit, tmp_path, preset):
    model = str(digits / f"{preset}.tflite")
    shutil.copy(model, site[0] / "model.tflite")
    pixels, _ = data.raw_images(data.open_dataset("digits").test, 8, limit=30)
    paths = []
    for i, picture in enumerate(pixels):  # most are not the net's 32 x 32, some not square
        size = [(8, 8), (31, 47), (32, 32), (53, 37)][i % 4]
        paths.append(str(tmp_path / f"{i}.png"))
        Image.fromarray(picture).resize(size).save(paths[-1])
    paths, probabilities = clear_answers(model, paths, (32, 32), TOLERANCE[preset])
    ways = [{"do": "choose", "input": "picture-file"}, {"do": "drop"}, {"do": "paste"}]
    steps = [{"do": "open", "url": site[1]}, *({**ways[i % 3], "path": path} for i, path in enumerate(paths))]
    steps += [{"do": "select", "value": "webgpu"}, {"do": "drop", "path": paths[3]}]
    opened, *results, selected, on_webgpu = visit(steps)
    assert opened["model"] == "model.tflite: 10 classes, 32 × 32 pixels, CPU" and opened["error"] is None
    assert_same_answers(results, probabilities, NAMES, TOLERANCE[preset])
    if preset == "fp32":  # measured: below 1e-5
        assert selected["model"] == "model.tflite: 10 classes, 32 × 32 pixels, WebGPU"
        assert_same_answers([on_webgpu], probabilities[3:4], NAMES, 1e-4)
    else:
        assert selected["error"] == (
            "model.tflite does not run with WebGPU; choose CPU, or a file exported with the preset fp32."
        )
        assert on_webgpu["scores"] == results[3]["scores"] and on_webgpu["model"] == opened["model"]


def test_the_pixels_are_pythons(site, visit, tmp_path, rng):
    """Noise shows every neighbour and every weight: smaller, larger, one pixel wide, turned by EXIF, greyscale."""
    noise = rng.integers(0, 256, (37, 53, 3), dtype="uint8")
    tag = Image.Exif()
    tag[0x0112] = 6  # turned by a quarter
    Image.fromarray(noise).save(tmp_path / "noise.png")
    Image.fromarray(noise).save(tmp_path / "turned.jpg", exif=tag)
    Image.fromarray(noise[:, :, 0]).save(tmp_path / "grey.png")
    Image.fromarray(noise[:1, :, :]).save(tmp_path / "line.png")
    cases = [("noise.png", 11, 97), ("noise.png", 37, 53), ("turned.jpg", 37, 53), ("grey.png", 83, 13)]
    cases += [("line.png", 5, 7)]
    steps = [{"do": "pixels", "path": str(tmp_path / n), "height": h, "width": w} for n, h, w in cases]
    _, *received = visit([{"do": "open", "url": site[1]}, *steps])
    for (name, height, width), values in zip(cases, received, strict=True):
        expected = np.asarray(resize(decode_with_pillow((tmp_path / name).read_bytes()), (height, width)))
        difference = np.abs(np.array(values).reshape(height, width, 3) - expected).max()
        # The decoders of JPEG are two builds of one library.
        assert difference < (1.001 if name.endswith("jpg") else 1e-3), (name, height, width, difference)


def test_labels_packed_or_plain_or_none(digits, site, visit, tmp_path):
    plain = str(digits / "fp32.tflite")
    bare, packed, few = (str(tmp_path / f"{name}.tflite") for name in ("bare", "packed", "few"))
    with zipfile.ZipFile(plain) as archive:
        start = archive.infolist()[0].header_offset
    with open(plain, "rb") as file:
        flatbuffer = file.read()[:start]
    for path, names in ((bare, None), (packed, NAMES), (few, NAMES[:9])):
        with open(path, "wb") as file:
            file.write(flatbuffer)
        if names:
            with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("card.json", "{}" * 99)
                archive.writestr("labels.txt", "\n".join(names) + "\n")
    assert read_labels(packed) == NAMES
    Image.fromarray(np.zeros((9, 9, 3), "uint8")).save(tmp_path / "black.png")
    paths = (plain, str(tmp_path / "black.png"), packed, bare, few)  # a new model answers the last picture again
    steps = [{"do": "open", "url": site[1]}, *({"do": "drop", "path": path} for path in paths)]
    *_, plain_result, packed_result, bare_result, few_result = visit(steps)
    assert [s["label"] for s in plain_result["scores"]] == [s["label"] for s in packed_result["scores"]]
    assert len(packed_result["scores"]) == 5 and {s["label"] for s in packed_result["scores"]} < set(NAMES)
    assert bare_result["scores"][0]["label"] == f"class {bare_result['scores'][0]['index']}"
    assert few_result["error"] == "few.tflite must hold one name a class, it holds 9 names for 10 classes."


def test_bad_files_get_one_sentence_and_the_page_goes_on(digits, site, visit, tmp_path):
    good = str(digits / "int8_dynamic.tflite")
    shutil.copy(good, site[0] / "model.tflite")
    (tmp_path / "text.png").write_text("no picture")
    (tmp_path / "text.tflite").write_text("no model, but long enough")
    with open(good, "rb") as file:
        (tmp_path / "cut.tflite").write_bytes(file.read()[:50000])
    features = vitkeras.VisionTransformer((32, 32, 3), 16, 1, 16, 2, 16, include_top=False, pooling="token")
    to_tflite(features, str(tmp_path / "features.tflite"))
    grey = vitkeras.VisionTransformer((32, 32, 1), 16, 1, 16, 2, 16, classes=3)
    to_tflite(grey, str(tmp_path / "grey.tflite"))
    Image.fromarray(np.zeros((9, 9, 3), "uint8")).save(tmp_path / "black.png")

    def drop(name):
        return {"do": "drop", "path": str(tmp_path / name)}

    unnamed, missing, _, before, *failed, after, reached = visit(
        [
            {"do": "open", "url": f"{site[1]}?model=nowhere.tflite"},
            drop("black.png"),
            {"do": "open", "url": site[1], "width": 360, "height": 740, "scheme": "dark"},
            drop("black.png"),
            *map(drop, ("text.png", "text.tflite", "cut.tflite", "features.tflite", "grey.tflite")),
            drop("black.png"),
            {"do": "tab", "times": 3},
        ]
    )
    assert unnamed["error"] == "nowhere.tflite is not on this server."
    assert missing["error"] == "A picture needs a model first; choose a .tflite file."
    messages = [result["error"] for result in failed]
    assert messages[:2] == ["text.png is not a picture that this browser reads.", "text.tflite is not a TFLite file."]
    assert messages[2].startswith("cut.tflite does not run in LiteRT.js (")
    assert messages[3] == "features.tflite must give logits or probabilities (1, classes), it gives features (1, 16)."
    assert messages[4] == (
        "grey.tflite must take one float32 picture (1, height, width, 3), it takes image: float32 (1, 32, 32, 1)."
    )
    assert after["error"] is None and after["scores"] == before["scores"] and after["model"] == before["model"]
    assert reached == ["model-file", "accelerator", "picture-file"]
    assert not any(result["wider"] for result in (before, *failed, after))  # fits a phone
