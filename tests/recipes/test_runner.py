"""What a problem may add to a run: another model as its result, and more files."""

import dataclasses
import json
import os
import sys
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from vitkeras.recipes import finetune, masked_patch, runner, workdir
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


@pytest.mark.parametrize(
    "module, message",
    [
        ("matplotlib.figure", "the learning curve needs Matplotlib"),
        ("tensorboard", "a training run's TensorBoard log needs TensorBoard"),
        ("tqdm", "a training run's progress bar needs tqdm"),
    ],
)
def test_a_package_is_missed_before_anything_is_written_or_removed(problem, tmp_path, monkeypatch, module, message):
    config, problem, _ = problem
    (tmp_path / workdir.ASIDE).mkdir()  # another run, which --overwrite removes once this one has begun
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf'{message}: pip install "vitkeras\[recipes\]"'):
        runner.run(config, problem, str(tmp_path))
    assert os.listdir(tmp_path) == [workdir.ASIDE]


def test_only_one_of_several_workers_writes(problem, tmp_path, monkeypatch):
    config, problem, written = problem
    monkeypatch.setattr("vitkeras.training.loop.is_chief", lambda strategy: False)
    metrics = runner.run(config, problem, str(tmp_path))
    assert metrics["steps"] == 2 and written == [] and os.listdir(tmp_path) == []


def test_a_worker_gets_its_replicas_batches_of_nested_inputs(monkeypatch):
    """Of a global batch of 12: two workers of two replicas each."""
    monkeypatch.setattr("vitkeras.training.loop.num_workers", lambda strategy: 2)
    sets = [text for text in SETS if not text.startswith("train.")]
    config = override(masked_patch.CONFIGS["cifar_small"](), [*sets, "train.batch_size=12"])
    problem = masked_patch.problem(config, runner.open_splits(config))
    own = runner._distributed(problem, 5, types.SimpleNamespace(num_replicas_in_sync=4))
    whole = next(iter(problem.batches(5)))
    for host in (0, 1):
        share = own(tf.distribute.InputContext(2, host, 4))
        assert share.element_spec[0]["image"].shape == (3, 24, 32, 3)
        got = list(share.take(2))
        for name in ("image", "sources", "positions"):
            expected = whole[0][name][6 * host : 6 * host + 6]
            np.testing.assert_array_equal(np.concatenate([inputs[name] for inputs, _ in got]), expected)
        np.testing.assert_array_equal(np.concatenate([y for _, y in got]), whole[1][6 * host : 6 * host + 6])
