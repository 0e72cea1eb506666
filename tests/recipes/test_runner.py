"""What a problem may add to a run: another model as its result, and more files."""

import dataclasses
import json
import os

import keras
import pytest

from vitkeras.recipes import finetune, runner
from vitkeras.recipes.config import override

SETS = ["model.num_layers=1", "model.hidden_dim=24", "model.num_heads=3", "model.mlp_dim=48", "train.steps=2"]
SETS += ["data.spec=mock:24x32x5", "data.image_size=(24, 32)", "train.batch_size=7", "train.ema_decay=0.5"]


def without_head(model):
    return keras.Model(model.input, model.get_layer("encoder_norm").output, name="headless")


@pytest.fixture
def problem():
    """(configuration, its problem with a result and more files, the list of what was written)."""
    config, written = override(finetune.CONFIGS["digits"](), SETS), []

    def write(result, workdir):
        assert not os.path.exists(os.path.join(workdir, "metrics.json"))  # which says that all is there
        written.append(result)

    plain = runner.classification(config, runner.open_splits(config))
    return config, dataclasses.replace(plain, result=without_head, write=write), written


def test_the_result_is_what_is_saved(problem, tmp_path):
    config, problem, written = problem
    metrics = runner.run(config, problem, str(tmp_path))
    (result,) = written
    saved = keras.saving.load_model(tmp_path / "model.keras")
    assert saved.name == result.name == "headless" and saved.output_shape == (None, 1 + 3 * 4, 24)
    assert (
        metrics["parameters"]
        == saved.count_params()
        == json.loads((tmp_path / "metrics.json").read_text())["parameters"]
    )
    for one, other in zip(result.get_weights(), saved.get_weights(), strict=True):
        assert (one == other).all()


def test_only_one_of_several_workers_writes(problem, tmp_path, monkeypatch):
    config, problem, written = problem
    monkeypatch.setattr("vitkeras.training.loop.is_chief", lambda strategy: False)
    metrics = runner.run(config, problem, str(tmp_path))
    assert metrics["steps"] == 2 and written == [] and os.listdir(tmp_path) == []
