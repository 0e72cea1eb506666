"""SIGTERM and SIGINT to a real recipe: saved, exit code 0, one line how to go on, and the same command does."""

import csv
import os
import signal

import keras
import numpy as np
import pytest
from processes import Started

from vitkeras.recipes import finetune

TINY = ["model.num_layers=1", "model.hidden_dim=24", "model.mlp_dim=48", "data.image_size=(32, 48)"]
SETS = [*TINY, "train.steps=40", "train.log_every=4", "train.batch_size=7", "model.dropout_rate=0.1"]


def command(workdir, *more):
    sets = [part for text in (*SETS, *more) for part in ("--set", text)]
    return ["--config", "digits", "--workdir", str(workdir), *sets]


def run(workdir, *more):
    """(exit code, standard error) of the recipe in a process of its own."""
    code, _, err = Started(finetune.main, command(workdir, *more)).finish()
    return code, err


def rows(workdir):
    with open(workdir / "log.csv", newline="") as file:
        return [(row["step"], row["split"], row["loss"], row["accuracy"]) for row in csv.DictReader(file)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The workdir of a run that nobody stopped."""
    workdir = tmp_path_factory.mktemp("whole") / "run"
    assert run(workdir)[0] == 0
    return workdir


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_the_same_command_goes_on(tmp_path, capsys, whole, number):
    workdir = tmp_path / "run"
    process = Started(finetune.main, command(workdir))
    for line in process.error_lines():
        if line.startswith("step 8/"):
            process.signal(number)
            break
    code, out, err = process.finish()
    assert code == 0, err[-2000:]
    last = out.splitlines()[-1]
    assert last.startswith(f"stopped by {number.name} after step ") and f"saved in {workdir}" in last
    assert "the same command goes on from there: python -m vitkeras.recipes.finetune --config digits" in last
    assert "Traceback" not in err and not (workdir / "metrics.json").exists()
    assert finetune.main(command(workdir, "train.steps=41")) == 2  # another configuration is not let in
    assert "train.steps" in capsys.readouterr().err
    code, err = run(workdir, "train.keep=2", "train.save_minutes=1")
    assert code == 0 and "going on from step " in err
    assert rows(workdir) == rows(whole)
    for one, other in zip(*(keras.saving.load_model(f / "model.keras").get_weights() for f in (workdir, whole))):
        np.testing.assert_array_equal(one, other)


def test_a_checkpoint_of_another_model_is_refused(tmp_path, capsys):
    workdir = tmp_path / "run"
    assert finetune.main(command(workdir, "train.steps=1")) == 0
    for name in ("metrics.json", "config.json"):
        os.remove(workdir / name)
    meta = workdir / "checkpoints" / "ckpt-1" / "meta.json"
    meta.write_text(meta.read_text().replace('"hidden_dim": 24', '"hidden_dim": 48'))
    assert finetune.main(command(workdir, "train.steps=1", "model.hidden_dim=48")) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: checkpoint ") and "ckpt-1 is of another model: " in error


def test_a_workdir_that_can_not_be_written(tmp_path, capsys):
    (tmp_path / "file").write_text("in the way")
    assert finetune.main(command(tmp_path / "file" / "run")) == 2
    assert "can't be written (Not a directory)." in capsys.readouterr().err.splitlines()[-1]


def test_a_disk_that_fills_up_is_one_sentence_and_code_1(tmp_path, capsys, monkeypatch):
    import errno

    from vitkeras.training import checkpoint_files

    write = checkpoint_files._write_arrays

    def full(file, state):
        if int(state["optimizer/" + next(k for k in state if "iteration" in k).partition("/")[2]]) > 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(file, state)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_files, "_write_arrays", full)
        assert finetune.main(command(tmp_path / "run", "train.steps=4", "train.save_every=2")) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert "ckpt-4 could not be written" in error and "(No space left on device); the last good one is ckpt-2." in error
    assert finetune.main(command(tmp_path / "run", "train.steps=4", "train.save_every=2")) == 0
    assert "going on from step 2" in capsys.readouterr().err


def test_another_recipes_workdir_is_refused(tmp_path, capsys):
    from vitkeras.recipes import pretrain

    assert finetune.main(command(tmp_path / "run", "train.steps=1")) == 0
    assert pretrain.main(["--config", "imagenet_vit_b16", "--workdir", str(tmp_path / "run"), "--smoke"]) == 2
    assert "holds another run: recipe ('finetune', now 'pretrain')" in capsys.readouterr().err


def test_an_error_of_tensorflow_is_one_sentence(capsys):
    import tensorflow as tf

    from vitkeras.recipes import cli

    def too_big(argv):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor\nmore")

    def bad_label(argv):
        raise tf.errors.InvalidArgumentError(None, None, "labels must be in 0...4\nmore")

    assert [cli.run(function, []) for function in (too_big, bad_label)] == [1, 1]
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("error: out of memory (OOM when allocating tensor); lower train.batch_size")
    assert second == "error: TensorFlow: labels must be in 0...4"
