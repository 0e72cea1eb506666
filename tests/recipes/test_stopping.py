"""SIGTERM and SIGINT to a real recipe: saved, exit code 0, one line how to go on, and the same command does."""

import csv
import os
import signal
import subprocess
import sys

import keras
import numpy as np
import pytest

TINY = ["model.num_layers=1", "model.hidden_dim=24", "model.mlp_dim=48", "data.image_size=(32, 48)"]
SETS = [*TINY, "train.steps=40", "train.log_every=4", "train.batch_size=7", "model.dropout_rate=0.1"]
CODE = "import sys; from vitkeras.recipes import finetune; sys.exit(finetune.main(sys.argv[1:]))"


def command(workdir, *more):
    sets = [part for text in (*SETS, *more) for part in ("--set", text)]
    return ["--config", "digits", "--workdir", str(workdir), *sets]


def run(workdir, *more):
    return subprocess.run([sys.executable, "-c", CODE, *command(workdir, *more)], capture_output=True, text=True)


def rows(workdir):
    with open(workdir / "log.csv", newline="") as file:
        return [(row["step"], row["split"], row["loss"], row["accuracy"]) for row in csv.DictReader(file)]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_the_same_command_goes_on(tmp_path, number):
    workdir = tmp_path / "run"
    arguments = [sys.executable, "-c", CODE, *command(workdir)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if line.startswith("step 8/"):
                process.send_signal(number)
                break
        out, err = process.communicate()
    assert process.returncode == 0, err[-2000:]
    last = out.splitlines()[-1]
    assert last.startswith(f"stopped by {number.name} after step ") and f"saved in {workdir}" in last
    assert "the same command goes on from there: python -m vitkeras.recipes.finetune --config digits" in last
    assert "Traceback" not in err and not (workdir / "metrics.json").exists()
    assert "train.steps" in run(workdir, "train.steps=41").stderr  # another configuration is not let in
    done = run(workdir, "train.keep=2", "train.save_minutes=1")
    assert done.returncode == 0 and "going on from step " in done.stderr
    whole = tmp_path / "whole"
    assert run(whole).returncode == 0
    assert rows(workdir) == rows(whole)
    for one, other in zip(*(keras.saving.load_model(f / "model.keras").get_weights() for f in (workdir, whole))):
        np.testing.assert_array_equal(one, other)


def test_a_checkpoint_of_another_model_is_refused(tmp_path, capsys):
    from vitkeras.recipes import finetune

    workdir = tmp_path / "run"
    assert finetune.main(command(workdir, "train.steps=1")) == 0
    for name in ("metrics.json", "config.json"):
        os.remove(workdir / name)
    meta = workdir / "checkpoints" / "ckpt-1" / "meta.json"
    meta.write_text(meta.read_text().replace('"hidden_dim": 24', '"hidden_dim": 48'))
    assert finetune.main(command(workdir, "train.steps=1", "model.hidden_dim=48")) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: checkpoint ") and "ckpt-1 is of another model: " in error
