"""A net that sees colours, on plain pictures: every number is known beforehand."""

import csv
import json

import keras
import numpy as np
import pytest

from vitkeras.recipes import evaluate

COLOURS = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255)}
OUTPUT = {"red": 5, "green": 17, "blue": 999}
PICTURES = [("blue", "blue"), ("blue", "blue"), ("blue", "red"), ("green", "green"), ("red", "red"), ("red", "red")]
# Of six pictures the third is called red.


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    image = pytest.importorskip("PIL.Image")
    folder = tmp_path_factory.mktemp("colours")
    for part in ("train", "test"):
        for number, (label, colour) in enumerate(PICTURES, 1):
            path = folder / part / label / f"ILSVRC2012_val_{number:08d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            image.new("RGB", (11, 7), COLOURS[colour]).save(path)
    return folder


def net(path, outputs, places, activation=None):
    """A net whose outputs at `places` are the red, green and blue of the mean colour, in -1...1, times four."""
    head = keras.layers.Dense(outputs, activation=activation, name="head")
    model = keras.Sequential([keras.Input((7, 11, 3)), keras.layers.GlobalAveragePooling2D(), head])
    kernel, bias = np.zeros((3, outputs)), np.full(outputs, -9.0)
    kernel[range(3), places], bias[places] = 4, 0
    head.set_weights([kernel, bias])
    model.save(path)
    return str(path)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return net(tmp_path_factory.mktemp("net") / "net.keras", 1000, list(OUTPUT.values()))


@pytest.fixture
def run(photos, tmp_path):
    def run(model, *arguments, values=OUTPUT):
        (tmp_path / "map.json").write_text(json.dumps(values))
        arguments = ["--label-map", str(tmp_path / "map.json"), *arguments] if values else arguments
        return evaluate.main(["--model", model, "--data", f"folder:{photos}", "--workdir", str(tmp_path), *arguments])

    run.read = lambda: json.loads((tmp_path / "evaluation.json").read_text())
    return run


def test_all_numbers(run, model, tmp_path, capsys):
    (tmp_path / "real.json").write_text(json.dumps([[999], [5, 17], [5], [], [5, 6], [17]]))
    files = ["--real-labels", str(tmp_path / "real.json"), "--predictions", str(tmp_path / "answers.csv")]
    assert run(model, *files) == 0
    found = run.read()
    assert found["top1"] == pytest.approx(5 / 6) and found["top5"] == 1.0 and found["count"] == 6
    assert found["confusion"] == [[2, 0, 1, 0], [0, 1, 0, 0], [0, 0, 2, 0]]
    assert found["most_confused"] == [{"label": "blue", "predicted": "red", "count": 1, "share": pytest.approx(1 / 3)}]
    assert found["real"] == {"accuracy": pytest.approx(3 / 5), "count": 5, "without_labels": 1}
    assert found["mean_class_accuracy"] == pytest.approx(8 / 9)
    assert found["other_choice"]["choices"] == 3 and found["other_choice"]["top1"] == pytest.approx(5 / 6)
    chance = np.exp(4) / (np.exp(4) + 2 * np.exp(-4) + 997 * np.exp(-9))
    wrong = np.exp(-4) / (np.exp(4) + 2 * np.exp(-4) + 997 * np.exp(-9))
    calibration = found["calibration"]
    assert calibration["ece"] == pytest.approx(chance - 5 / 6, abs=1e-6)
    assert calibration["nll"] == pytest.approx(-(5 * np.log(chance) + np.log(wrong)) / 6, abs=1e-6)
    with open(tmp_path / "per_class.csv", newline="") as file:
        rows = {row["class"]: row for row in csv.DictReader(file)}
    assert rows["red"]["precision"] == str(2 / 3) and rows["blue"]["recall"] == str(2 / 3)
    with open(tmp_path / "answers.csv", newline="") as file:
        answers = list(csv.DictReader(file))
    assert [row["class_1"] for row in answers] == [colour for _, colour in PICTURES]
    assert [row["rank"] for row in answers] == ["0", "0", "2", "0", "0", "0"]  # green is as unlikely, and before it
    assert answers[2]["file_name"] == "ILSVRC2012_val_00000003.png" and answers[2]["label"] == "blue"
    for name in ("confusion.png", "reliability.png"):
        assert (tmp_path / name).read_bytes()[:4] == b"\x89PNG"
    *_, real, last = capsys.readouterr().out.splitlines()
    assert real == "ImageNet-ReaL: 60.00 % of 5 images, 1 have no label"
    assert last.startswith(f"top-1 83.33 %, top-5 100.00 % of 6 images; everything is in {tmp_path}: evaluation.json,")
    assert last.endswith("confusion.png, reliability.png, answers.csv")


@pytest.mark.slow
def test_classes_without_an_output_are_left_out(run, tmp_path, model, capsys):
    (tmp_path / "reliability.png").write_text("of before")
    values = {"Blue": [999, 3], "red": 5, "grey": 7}
    arguments = ["--set", "among=data", "--set", "part=all", "--predictions", str(tmp_path / "answers.npz")]
    assert run(model, *arguments, values=values) == 0
    found = run.read()
    assert found["left_out"] == {"classes": 1, "images": 2} and found["count"] == 10
    assert [row["name"] for row in found["classes"]] == ["blue", "red"] and found["choices"] == 2
    assert found["top1"] == pytest.approx(8 / 10) and found["top5"] is None and found["calibration"] is None
    assert not (tmp_path / "reliability.png").exists()  # it would be of another evaluation
    saved = np.load(tmp_path / "answers.npz")
    assert saved["scores"].shape == (10, 1000) and saved["place"].tolist() == [0, 1, 2, 4, 5, 6, 7, 8, 10, 11]
    assert saved["label"].tolist() == [0, 0, 0, 2, 2] * 2 and saved["class_names"].tolist() == ["blue", "green", "red"]
    out = capsys.readouterr().out
    assert "left out: 2 images of classes without an output (1)" in out
    assert "label map: entries that name no class of the data (1): grey" in out
    assert "among all the model's outputs (1000): top-1 80.00 %" in out
    assert "calibration: no class has a probability of its own" in out


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["softmax", "sigmoid"])
def test_the_head_is_known_by_its_activation(run, tmp_path, activation):
    path = net(tmp_path / "net.keras", 3, [2, 1, 0], activation)
    (tmp_path / "classes.txt").write_text("blue\ngreen\nred\n")
    assert run(path, values=None) == 0
    found = run.read()
    assert found["model"]["head"] == activation and found["top1"] == pytest.approx(5 / 6)
    if activation == "sigmoid":
        right, others = 1 / (1 + np.exp(-4)), 1 / (1 + np.exp(4))
        wrong = -np.log(others) - np.log(1 - right) - np.log(1 - others)  # the label low, another high
        fine = -np.log(right) - 2 * np.log(1 - others)
        assert found["calibration"]["nll"] == pytest.approx((5 * fine + wrong) / 6, rel=1e-5)
    else:
        right = np.exp(4) / (np.exp(4) + 2 * np.exp(-4))
        assert found["calibration"]["mean_confidence"] == pytest.approx(right, rel=1e-5)


@pytest.mark.parametrize(
    "change, message",
    [
        (["--labels", "NAMES"], "must be one name for each of the model's 1000 outputs, received 2"),
        (["--real-labels", "NAMES"], "must be a JSON file, received other text"),
        (["--predictions", "answers.txt"], "predictions must be a .csv or .npz file, received 'answers.txt'"),
        (["--label-map", "/no/such"], "label map must be a file that exists, received '/no/such'."),
        (["--set", "among=some"], "among must be 'model' or 'data', received 'some'"),
        (["--set", "bins=0"], "bins must be above 0, received 0"),
        (["--set", "head=softmax"], "scores of a softmax head must be in 0...1, received -9...4: they are logits"),
        (["--model", "net.tflite"], "--model must be a file or folder that exists, received 'net.tflite'"),
        (["--model", "NAN"], "must give finite scores, received nan or inf for 6 of 6 images, the first is image 0"),
    ],
)
def test_bad_input(run, model, tmp_path, capsys, change, message):
    (tmp_path / "names.txt").write_text("red\nblue\n\n")
    if change[1] == "NAN":
        damaged = keras.saving.load_model(model)
        damaged.get_layer("head").bias.assign(np.full(1000, np.nan))
        damaged.save(tmp_path / "nan.keras")
        change = ["--model", str(tmp_path / "nan.keras")]
    change = [str(tmp_path / "names.txt") if part == "NAMES" else part for part in change]
    assert run(model, *change) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "evaluation.json").exists() and not (tmp_path / "confusion.png").exists()
