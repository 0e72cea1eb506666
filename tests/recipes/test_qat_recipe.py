import importlib.util
import json

import keras
import pytest

from vitkeras.export import activation_ranges, prepare_qat
from vitkeras.recipes import finetune, qat
from vitkeras.recipes.config import override
from vitkeras.recipes.configs.qat import QatConfig

if importlib.util.find_spec("tensorflow_model_optimization") is None:
    pytest.skip('tensorflow-model-optimization is absent: pip install "vitkeras[qat]"', allow_module_level=True)

TINY = ["model.num_layers=1", "model.hidden_dim=24", "model.mlp_dim=48"]


def command(workdir, *arguments, sets=()):
    return ["--config", "digits", "--workdir", str(workdir), *arguments, *(p for s in sets for p in ("--set", s))]


def test_smoke_writes_model_and_ranges(tmp_path):
    sets = ("model.num_layers=1",)
    assert qat.main(command(tmp_path, "--smoke", "--debug", sets=sets)) == 0
    ranges = json.loads((tmp_path / "ranges.json").read_text())
    again = prepare_qat(keras.saving.load_model(tmp_path / "model.keras"), ranges=ranges)
    assert {name: list(pair) for name, pair in activation_ranges(again).items()} == {
        name: pair for name, pair in ranges.items() if name != "weights_sha256"
    }
    assert len(ranges["weights_sha256"]) == 64
    assert json.loads((tmp_path / "metrics.json").read_text())["steps"] == 2


@pytest.mark.slow
def test_the_rounded_model_comes_closer_to_the_float_model(tmp_path):
    """A net that learnt the digits; the mean squared distance to it, on all test images, falls (measured: by 23 %)."""
    run, sets = tmp_path / "float", [*TINY, "train.steps=300", "optimizer.learning_rate=0.003"]
    assert finetune.main(command(run, sets=sets)) == 0
    losses = []
    for steps in (1, 300):
        sets = [f"train.steps={steps}", "optimizer.learning_rate=0.0001", "optimizer.warmup_steps=0"]
        sets += ["optimizer.learning_rate=1e-9"] * (steps == 1)
        assert qat.main(command(tmp_path / str(steps), "--model", str(run), sets=sets)) == 0
        losses.append(json.loads((tmp_path / str(steps) / "metrics.json").read_text())["loss"])
    assert 0 < losses[1] < 0.85 * losses[0]


def test_errors(tmp_path, capsys, rng):
    import vitkeras

    model = vitkeras.VisionTransformer((32, 48, 3), 16, 1, 16, 2, 24, classes=10, classifier_activation=None)
    model.save(tmp_path / "model.keras")
    for arguments, message in (
        ((), "--model is needed: a run's workdir or model.keras"),
        (("--model", str(tmp_path / "none")), "must be a file or folder that exists"),
        (("--model", str(tmp_path / "model.keras")), r"data.image_size must be (32, 48), that of --model"),
        (("--model", str(tmp_path / "model.keras"), "--data", "mock:32x48x3"), "must have the 10 classes of --model"),
    ):
        assert qat.main(command(tmp_path / "run", *arguments)) == 2
        assert message in capsys.readouterr().err
        assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "text, message",
    [
        ("qat.alpha=2.0", r"qat.alpha must be in \[0, 1\], received 2.0"),
        ("qat.distance=l1", "qat.distance must be 'mse' or 'kl', received 'l1'"),
        ("qat.calibration_images=0", "qat.calibration_images must be above 0"),
        ("train.ema_decay=0.9", "train.ema_decay is not for quantization-aware training"),
        ("train.sparsity=0.5", "train.sparsity is not for quantization-aware training"),
    ],
)
def test_settings(text, message):
    with pytest.raises(ValueError, match=message):
        override(QatConfig(), [text])
    assert qat.CONFIGS["photos"]().optimizer.name == "sgd"
