import json
import zipfile

import keras
import numpy as np
import pytest

import vitkeras
from vitkeras import data
from vitkeras.recipes import class_map, evaluate, fewshot, finetune
from vitkeras.recipes.loading import load_model

SETS = ["model.num_layers=1", "model.hidden_dim=24", "model.mlp_dim=48", "data.image_size=(32, 48)", "train.steps=9"]
SETS += ["train.save_every=4", "train.ema_decay=0.5", "optimizer.warmup_steps=0"]


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "digits"
    sets = [part for text in SETS for part in ("--set", text)]
    assert finetune.main(["--config", "digits", "--workdir", str(folder), *sets]) == 0
    return folder


def run(model, *arguments):
    return evaluate.main(["--config", "original", "--model", str(model), "--data", "digits", *arguments])


def test_top_1_top_5_and_classes(workdir, tmp_path, capsys):
    assert run(workdir / "model.keras", "--workdir", str(tmp_path)) == 0
    result = json.loads((tmp_path / "evaluation.json").read_text())
    _, labels = data.raw_images(data.open_dataset("digits").test, (32, 48))
    batches = data.eval_batches(data.open_dataset("digits").test, 90, (32, 48))
    model = keras.saving.load_model(workdir / "model.keras")
    scores = np.concatenate([model(pixels).numpy() for pixels, _, _ in batches])
    order = np.argsort(-scores, axis=1)
    assert result["count"] == 360 and result["top1"] == pytest.approx((order[:, 0] == labels).mean(), abs=1e-9)
    assert result["top5"] == pytest.approx((order[:, :5] == labels[:, None]).any(axis=1).mean(), abs=1e-9)
    for k, row in enumerate(result["classes"]):
        assert row["name"] == str(k) and row["count"] == (labels == k).sum()
        assert row["accuracy"] == pytest.approx((order[labels == k, 0] == k).mean(), abs=1e-9)
    accuracy = json.loads((workdir / "metrics.json").read_text())["accuracy"]
    assert result["top1"] == pytest.approx(accuracy, abs=1e-6)
    out = capsys.readouterr().out
    assert "top-1 " in out and "top-5 " in out
    assert out.endswith("evaluation.json, per_class.csv, confusion.png, reliability.png\n")


def test_a_checkpoint_is_rebuilt_from_its_own_configuration(workdir):
    averaged, names = load_model(str(workdir / "checkpoints" / "ckpt-9"), ema=True)
    saved, same_names = load_model(str(workdir))
    assert names == same_names == tuple("0123456789")
    for one, other in zip(averaged.get_weights(), saved.get_weights()):
        np.testing.assert_array_equal(one, other)
    plain, _ = load_model(str(workdir / "checkpoints" / "ckpt-8"))
    assert any((a != b).any() for a, b in zip(plain.get_weights(), saved.get_weights()))
    assert run(workdir / "checkpoints" / "ckpt-8", "--set", "ema=true") == 0


def test_classes_meet_by_name():
    assert list(class_map.label_map(("elm", "ash"), ("ash", "beech", "elm"), 3)) == [2, 0]
    assert list(class_map.label_map(("elm", "ash"), (), 2)) == [0, 1]
    with pytest.raises(ValueError, match="must be among the model's 2, received also oak"):
        class_map.label_map(("elm", "oak"), ("ash", "elm"), 2)
    with pytest.raises(ValueError, match="must have the model's 3 classes, received 2"):
        class_map.label_map(("elm", "oak"), (), 3)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--model", "/no/such"], "--model must be a file or folder that exists, received '/no/such'"),
        (["--set", "part=dev"], "part=dev needs data.dev_fraction above 0"),
        (["--set", "part=val"], "part must be 'test', 'dev', 'train' or 'all', received 'val'"),
        (["--data", "mock:9x9x3"], "must be among the model's 10, received also class 0"),
        (["--config", "orignal"], "nearest: 'original'"),
        (["--set", "ema=true", "--model", "KERAS"], "ema=true is for checkpoints"),
    ],
)
def test_bad_input(workdir, capsys, arguments, message):
    arguments = [str(workdir / "model.keras") if text == "KERAS" else text for text in arguments]
    assert run(workdir, *arguments) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


def damaged(tmp_path, kind):
    """A path that no model can be loaded from."""
    path = tmp_path / ("folder" if kind == "folder" else f"{kind}.keras")
    if kind == "folder":
        path.mkdir()
    elif kind == "dense":
        keras.Sequential([keras.Input((5,)), keras.layers.Dense(2)]).save(path)
    elif kind == "cut":
        path.write_bytes(b"PK\x03\x04 and no more")
    else:
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("notes.txt", "no model")
    return path


@pytest.mark.parametrize("recipe", [evaluate, fewshot])
@pytest.mark.parametrize(
    "kind, message",
    [
        ("cut", "must be a model that Keras saved, received a file that is no whole archive."),
        ("other", "must be a model that Keras saved and can load ("),
        ("dense", "must take images (height, width, 3), received one of input shape (None, 5)."),
        ("folder", "must hold model.keras, checkpoints/, meta.json of a checkpoint or model.safetensors, received a"),
    ],
)
def test_what_is_no_model_is_named(tmp_path, capsys, recipe, kind, message):
    path = damaged(tmp_path, kind)
    config = "original" if recipe is evaluate else "trained"
    assert recipe.main(["--config", config, "--model", str(path), "--data", "mock:9x9x3"]) == 2
    assert f"error: --model {path} {message}" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("recipe", [evaluate, fewshot])
def test_a_folder_that_cannot_take_the_results_is_refused_before_the_work(tmp_path, capsys, recipe):
    (tmp_path / "file").write_text("x")
    config = "original" if recipe is evaluate else "trained"
    arguments = ["--config", config, "--model", "nowhere", "--data", "nothing", "--workdir", str(tmp_path / "file")]
    assert recipe.main(arguments) == 2
    assert "can't be written (File exists)" in capsys.readouterr().err.splitlines()[-1]
    assert (tmp_path / "file").read_text() == "x"


@pytest.mark.parametrize("recipe", [evaluate, fewshot])
def test_a_model_of_any_size_is_evaluated_at_the_datas(tmp_path, capsys, recipe):
    model = vitkeras.VisionTransformer((None, None, 3), 8, 1, 12, 2, 24, classes=3)
    model.save(tmp_path / "any.keras")
    arguments = ["--model", str(tmp_path / "any.keras"), "--data", "mock:16x24x3", "--set", "data.image_size=(16, 40)"]
    arguments += ["--set", "shots=(2,)"] if recipe is fewshot else []
    assert recipe.main(arguments) == 0
    assert "16 " in capsys.readouterr().out.splitlines()[-1]


@pytest.mark.parametrize("recipe", [evaluate, fewshot])
def test_a_sequential_model_is_evaluated_too(tmp_path, capsys, recipe):
    layers = [keras.Input((16, 24, 3)), keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(3, name="head")]
    keras.Sequential(layers).save(tmp_path / "other.keras")
    arguments = ["--model", str(tmp_path / "other.keras"), "--data", "mock:16x24x3"]
    arguments += ["--set", "shots=(2,)"] if recipe is fewshot else []
    assert recipe.main(arguments) == 0
    assert "16 " in capsys.readouterr().out.splitlines()[-1]


def test_smoke(capsys):
    assert evaluate.main(["--smoke"]) == 0
    assert "top-5 " in (out := capsys.readouterr().out) and out.endswith(" of 16 images\n")


def test_a_model_or_data_is_needed(capsys):
    assert evaluate.main(["--data", "digits"]) == 2
    assert "--model is needed" in capsys.readouterr().err
    assert evaluate.main(["--config", "original", "--model", "x"]) == 2
    assert "--data is needed" in capsys.readouterr().err
