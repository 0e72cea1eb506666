import json

import keras
import numpy as np
import pytest

from vitkeras.models.variants import VARIANTS, Variant
from vitkeras.recipes import finetune, pretrain

SETS = ["data.image_size=(32, 48)", "train.steps=3", "train.batch_size=6", "train.log_every=1"]


@pytest.fixture
def tiny(monkeypatch):
    """A named variant of toy size, so that both recipes build the same net."""
    monkeypatch.setitem(VARIANTS, "vit_b16", Variant(16, 1, 24, 3, 48))


def run(recipe, config, workdir, *sets, arguments=()):
    sets = [part for text in (*SETS, *sets) for part in ("--set", text)]
    return recipe.main(["--config", config, "--workdir", str(workdir), "--data", "digits", *arguments, *sets])


@pytest.mark.slow
def test_a_pre_trained_model_is_fine_tuned(tiny, tmp_path, capsys):
    sets = ("model.representation_size=17", "optimizer.warmup_steps=1", "train.remat=true", "loss.label_smoothing=0.1")
    assert run(pretrain, "imagenet_vit_b16", tmp_path / "one", *sets) == 0
    first = keras.saving.load_model(tmp_path / "one" / "model.keras")
    assert first.get_layer("pre_logits").units == 17
    weights = ("--weights", str(tmp_path / "one" / "model.keras"))
    sets = ("optimizer.warmup_steps=0", "optimizer.learning_rate=1e-12", "train.evaluate_every=1")
    assert run(finetune, "pets", tmp_path / "two", *sets, arguments=weights) == 0, capsys.readouterr().err
    second = keras.saving.load_model(tmp_path / "two" / "model.keras")
    names = [layer.name for layer in second.layers]
    assert "pre_logits" not in names
    for layer in second.layers:
        if layer.name != "head":
            for old, new in zip(first.get_layer(layer.name).get_weights(), layer.get_weights()):
                np.testing.assert_allclose(new, old, rtol=0, atol=1e-8)
    assert np.abs(second.get_layer("head").get_weights()[0]).max() < 1e-8


def test_the_heads_bias_and_the_loss_are_the_configurations(tiny, tmp_path):
    sets = ("optimizer.warmup_steps=1", "data.augment=none")
    assert run(pretrain, "augreg_imagenet_none", tmp_path / "run", *sets) == 0
    rows = (tmp_path / "run" / "log.csv").read_text().splitlines()
    # All logits are the bias: 9 classes at softplus(-6.9), the label at softplus(6.9).
    expected = 9 * np.log1p(np.exp(-6.9)) + np.log1p(np.exp(6.9))
    assert float(rows[1].split(",")[2]) == pytest.approx(expected, abs=1e-3)
    assert json.loads((tmp_path / "run" / "config.json").read_text())["recipe"] == "pretrain"


@pytest.mark.parametrize(
    "sets, message",
    [
        (("data.augment=medum1",), "medum1"),
        (("loss.name=hinge",), "hinge"),
        (("loss.label_smoothing=1.5",), "label_smoothing must be in [0, 1), received 1.5"),
        (("train.ema_decay=2.0",), "ema_decay must be in (0, 1) or None, received 2.0"),
        (("data.train_part=without_dev",), "data.train_part=without_dev needs data.dev_fraction above 0"),
        (("data.train_part=dev",), "data.train_part must be 'all' or 'without_dev', received 'dev'"),
        (("train.seed=-1",), "train.seed must be >= 0 and below 2**31, received -1"),
        (("data.image_size=(32, 41)",), "image width must be a multiple of the patch width 16, received 41"),
        (("data.limit=5000",), "limit must be at most the 1437 training images, received 5000"),
        (("data.preprocessing=crop",), "crop"),
        (("model.stage_blocks=(1, 1)",), "model.stage_blocks is not for model.variant=vit_b16, received (1, 1)"),
        (("model.width_factor=0.5",), "model.width_factor is not for model.variant=vit_b16, received 0.5"),
    ],
)
def test_bad_input(tiny, tmp_path, capsys, sets, message):
    assert run(pretrain, "imagenet_vit_b16", tmp_path / "run", "optimizer.warmup_steps=1", *sets) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: ") and message in error
