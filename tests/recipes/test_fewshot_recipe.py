import json

import keras
import numpy as np
import pytest

import vitkeras
from vitkeras import data
from vitkeras.evaluation import feature_model, fewshot_accuracy, select_shots
from vitkeras.recipes import fewshot


@pytest.fixture(scope="module")
def model_path(tmp_path_factory):
    keras.utils.set_random_seed(1)
    model = vitkeras.VisionTransformer((24, 32, 3), 8, 2, 26, 2, 37, classes=7)
    path = tmp_path_factory.mktemp("model") / "model.keras"
    model.save(path)
    return path


def run(model_path, *arguments):
    return fewshot.main(["--config", "trained", "--model", str(model_path), "--data", "digits", *arguments])


def by_hand(model, shots, seed, splits):
    images, labels = zip(*[(x, y) for x, y, _ in data.eval_batches(splits.train, 479, (24, 32))])
    x, y = model.predict(np.concatenate(images), verbose=0), np.concatenate(labels)
    chosen = select_shots(y, shots, seed)
    test_x, test_y = next((x, y) for x, y, _ in data.eval_batches(splits.test, 360, (24, 32)))
    return fewshot_accuracy(x[chosen], y[chosen], model.predict(test_x, verbose=0), test_y.numpy())


@pytest.mark.parametrize("layer", ["head", "0"])
def test_equals_the_calculation_by_hand(model_path, layer, tmp_path, capsys):
    cache = tmp_path / "cache"
    arguments = ["--set", "shots=(2,5)", "--set", "seeds=2", "--set", f"layer={layer}", "--set", f"cache={cache}"]
    assert run(model_path, "--workdir", str(tmp_path), *arguments, "--debug") == 0
    out = capsys.readouterr().out
    result = json.loads((tmp_path / "fewshot.json").read_text())
    assert result["count"] == 360 and result["features"] == 26 and list(result["shots"]) == ["2", "5"]
    model = feature_model(keras.saving.load_model(model_path), None if layer == "head" else 0)
    expected = [by_hand(model, 5, seed, data.open_dataset("digits")) for seed in range(2)]
    row = result["shots"]["5"]
    # Batches of other sizes round features differently; one image of 360 may change sides.
    np.testing.assert_allclose(row["accuracies"], expected, rtol=0, atol=1.01 / 360)
    assert row["mean"] == pytest.approx(np.mean(row["accuracies"])) and row["mean"] > 0.2
    assert row["std"] == pytest.approx(np.std(row["accuracies"]))
    assert f"{100 * row['mean']:.2f}" in out and "2 seeds, 360 test images, 26 features" in out
    kept = sorted(path.name for path in cache.iterdir())
    assert len(kept) == 2 and run(model_path, "--workdir", str(tmp_path), *arguments) == 0
    assert sorted(path.name for path in cache.iterdir()) == kept
    assert json.loads((tmp_path / "fewshot.json").read_text()) == result


def test_sets_without_known_labels_give_the_same(model_path, monkeypatch):
    config = fewshot.CONFIGS["trained"]()
    sets = ["data.spec=digits", f"checkpoint={model_path}", "shots=(3,)", "seeds=2"]
    config = fewshot.cli.override(config, sets)
    known = fewshot.fewshot(config)
    monkeypatch.setattr(fewshot, "_support", lambda images, config, classes: (images, None))
    unknown = fewshot.fewshot(config)
    np.testing.assert_allclose(unknown["shots"][3]["accuracies"], known["shots"][3]["accuracies"], atol=1.01 / 360)


def test_smoke(capsys):
    assert fewshot.main(["--config", "vit_s14", "--smoke", "--debug"]) == 0
    assert "3 seeds, 16 test images, 24 features" in capsys.readouterr().out


@pytest.mark.parametrize("name", fewshot.CONFIGS)
def test_configurations_are_the_papers(name, capsys):
    assert fewshot.main(["--config", name, "--dump-config"]) == 0
    config = json.loads(capsys.readouterr().out)
    assert config["shots"] == [1, 5, 10, 25] and config["l2_reg"] == 1024.0
    assert "4.1" in fewshot.CONFIGS[name].__doc__


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--set", "shots=(1,200)"], " training images of class '0', received 200."),
        (["--set", "shots=(0,)"], "shots must hold numbers above 0, received (0,)"),
        (["--set", "seeds=0"], "seeds must be above 0, received 0"),
        (["--set", "layer=5"], "number of one of 2 blocks, received 5"),
        (["--set", "layer=block"], "layer must be one of the model's"),
        (["--set", "shot=3"], "nearest: 'shots'"),
        (["--data", "digit"], "digit"),
        (["--model", "nowhere.keras"], "--model must be a file or folder that exists, received 'nowhere.keras'"),
    ],
)
def test_bad_input_is_one_sentence(model_path, arguments, message, capsys):
    assert run(model_path, *arguments) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("error: ") and message in error


def test_a_model_is_needed(capsys):
    assert fewshot.main(["--config", "trained", "--data", "digits"]) == 2
    assert "--model is needed" in capsys.readouterr().err


@pytest.mark.parametrize(
    "scaling, message",
    [
        (
            True,
            "wrapped.keras must take -1...1, received one that scales its input by the layer 'from_pixels'; save the",
        ),
        (False, "model must hold its layers itself, 'outer' holds the model 'inner'; take that one, or name a layer."),
    ],
)
def test_a_model_inside_another(scaling, message, tmp_path, capsys):
    inner = vitkeras.VisionTransformer((24, 32, 3), 8, 1, 26, 2, 37, classes=7, name="inner")
    before = [keras.layers.Rescaling(1 / 127.5, -1, name="from_pixels")] if scaling else []
    keras.Sequential([keras.Input((24, 32, 3)), *before, inner], name="outer").save(tmp_path / "wrapped.keras")
    assert run(tmp_path / "wrapped.keras", "--set", "shots=(1,)") == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("error: ") and message in error


def test_nan_features_are_named(tmp_path, capsys):
    model = vitkeras.VisionTransformer((24, 32, 3), 8, 1, 26, 2, 37, classes=7)
    model.get_layer("encoder_norm").bias.assign(np.full(26, np.nan))
    model.save(tmp_path / "nan.keras")
    assert run(tmp_path / "nan.keras", "--set", "shots=(1,)") == 2
    assert "train_x must be finite, received 10 of 10 examples with nan or inf" in capsys.readouterr().err
