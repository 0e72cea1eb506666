"""Recipes on two replicas and as two workers on loopback: one process writes, the numbers are those of one device."""

import csv
import json
import os
import time

import keras
import numpy as np
import pytest
import tensorflow as tf
from processes import Started, finish_all, free_ports

import vitkeras
from vitkeras.recipes import fewshot, finetune, masked_patch, runner

SETS = ["model.num_layers=1", "model.hidden_dim=24", "model.mlp_dim=48", "data.image_size=(32, 48)"]
SETS += ["train.steps=6", "train.log_every=2", "train.batch_size=8", "train.save_every=3"]
FINETUNE = ["--config", "digits", *(part for text in SETS for part in ("--set", text))]
MASKED_PATCH = [*FINETUNE, "--config", "cifar_small", "--data", "digits"]


def played(recipe, cpus, arguments):
    """The recipe's exit code, on so many replicas; in a process of its own."""
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})  # as in tests/conftest.py
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * cpus)
    code = recipe(arguments)
    replicas = runner.make_strategy("cpu").num_replicas_in_sync if "TF_CONFIG" not in os.environ else 0
    print("replicas:", replicas)
    return code


def start(recipe, workdir, device, arguments, environment=None, cpus=1):
    command = ["--device", device, "--workdir", str(workdir), *arguments]
    return Started(played, recipe.main, cpus, command, environment=environment)


def on_cpus(recipe, workdir, arguments, cpus):
    """Runs a recipe in one process with so many replicas."""
    code, out, err = start(recipe, workdir, "cpu", arguments, cpus=cpus).finish()
    assert code == 0, err[-2000:]
    assert f"replicas: {cpus}" in out


def workers(recipe, workdir, arguments, late=0):
    """Runs a recipe as two workers, the first one `late` seconds after the second; returns their standard errors."""
    cluster = {"worker": [f"localhost:{port}" for port in free_ports(2)]}
    both = []
    for index in (1, 0):
        time.sleep(0 if index else late)
        task = {"cluster": cluster, "task": {"type": "worker", "index": index}}
        both.append(start(recipe, workdir, "multiworker", arguments, {"TF_CONFIG": json.dumps(task)}))
    return finish_all(both)


def losses(workdir):
    with open(workdir / "log.csv", newline="") as file:
        rows = [(row["step"], row["split"], float(row["loss"])) for row in csv.DictReader(file)]
    assert [row[:2] for row in rows] == [("2", "train"), ("4", "train"), ("6", "train"), ("6", "test")]
    return [row[2] for row in rows]


def arrays(path):
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


@pytest.mark.slow
def test_two_workers(tmp_path):
    on_cpus(finetune, tmp_path / "one", FINETUNE, 1)
    workers(finetune, tmp_path / "two", FINETUNE)
    assert losses(tmp_path / "two") == pytest.approx(losses(tmp_path / "one"), abs=1e-5)  # six digits in the file
    names = {"classes.txt", "config.json", "curve.png", "log.csv", "metrics.json", "model.keras", "tensorboard"}
    assert set(os.listdir(tmp_path / "two")) == names | {"checkpoints"}
    other = [*FINETUNE, "--set", "train.seed=5", "--overwrite"]
    assert not any("going on" in text for text in workers(finetune, tmp_path / "two", other, late=12))
    assert set(os.listdir(tmp_path / "two")) == names | {"checkpoints"}
    assert json.loads((tmp_path / "two" / "config.json").read_text())["config"]["train"]["seed"] == 5


@pytest.mark.slow
def test_masked_patches_on_two_replicas_and_two_workers(tmp_path):
    on_cpus(masked_patch, tmp_path / "one", MASKED_PATCH, 1)
    on_cpus(masked_patch, tmp_path / "two", MASKED_PATCH, 2)
    workers(masked_patch, tmp_path / "workers", MASKED_PATCH)
    names = {"backbone.npz", "config.json", "curve.png", "log.csv", "metrics.json", "model.keras", "tensorboard"}
    one = arrays(tmp_path / "one" / "backbone.npz")
    for folder in (tmp_path / "two", tmp_path / "workers"):
        assert losses(folder) == pytest.approx(losses(tmp_path / "one"), abs=1e-5)
        assert set(os.listdir(folder)) == names | {"checkpoints"}
        other = arrays(folder / "backbone.npz")
        assert set(other) == set(one)
        for name, array in one.items():
            # A key's bias has the gradient zero, and Adam makes steps of full length from its rounding errors.
            if not name.endswith("key/bias"):
                np.testing.assert_allclose(other[name], array, rtol=0, atol=1e-4, err_msg=name)


@pytest.mark.slow
def test_few_shot_accuracy_on_two_replicas_and_two_workers(tmp_path):
    model = tmp_path / "model.keras"
    keras.utils.set_random_seed(1)
    vitkeras.VisionTransformer((24, 32, 3), 8, 2, 26, 2, 37, classes=7).save(model)
    arguments = ["--config", "trained", "--model", str(model), "--data", "digits", "--set", "shots=(2,5)"]
    arguments += ["--set", "seeds=2", "--set", "batch_size=31"]
    assert fewshot.main(["--workdir", str(tmp_path / "one"), *arguments]) == 0
    on_cpus(fewshot, tmp_path / "two", arguments, 2)
    workers(fewshot, tmp_path / "workers", [*arguments, "--set", f"cache={tmp_path / 'cache'}"])
    one, two, of_workers = (
        json.loads((tmp_path / name / "fewshot.json").read_text()) for name in ("one", "two", "workers")
    )
    assert one["count"] == 360 and one["features"] == 26
    for other in (two, of_workers):
        assert (other["shots"], other["count"], other["features"]) == (one["shots"], 360, 26)
    assert os.listdir(tmp_path / "workers") == ["fewshot.json"] and len(os.listdir(tmp_path / "cache")) == 2
