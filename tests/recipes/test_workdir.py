"""A run's folder: nothing of it is lost by a command that can't run, and a command that is put right runs."""

import json
import os
import signal

import pytest

from vitkeras.recipes import cli, finetune, workdir
from vitkeras.recipes.config import override
from vitkeras.recipes.workdir import FINISHED, NEW, begun_or_undone, open_workdir

CONFIG = finetune.CONFIGS["digits"]()
OTHER = override(CONFIG, ["train.seed=3"])


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def finished(tmp_path):
    """A folder with a finished run and a file of its owner."""
    folder = tmp_path / "run"
    assert open_workdir(str(folder), "finetune", CONFIG) == NEW
    for name in ("log.csv", "metrics.json", "model.keras", "notes.txt", "checkpoints/LAST"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f'"{name}"')
    return folder


def fail(folder, overwrite=False, config=OTHER, begin=False, error=ValueError):
    state = open_workdir(str(folder), "finetune", config, overwrite)
    with pytest.raises(error), begun_or_undone(str(folder), state):
        if begin:
            (folder / "log.csv").write_text("new")
        raise error


def test_a_run_that_cannot_begin_leaves_no_folder(tmp_path):
    fail(tmp_path / "run")
    assert not (tmp_path / "run").exists()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine").write_text("x")
    fail(tmp_path / "run", error=KeyboardInterrupt)
    assert os.listdir(tmp_path / "run") == ["mine"]


def test_a_run_that_has_begun_keeps_what_it_has(tmp_path):
    fail(tmp_path / "run", begin=True, error=RuntimeError)
    assert set(os.listdir(tmp_path / "run")) == {"config.json", "log.csv"}


def test_runs_of_a_sweep_that_cannot_begin_are_undone_too(tmp_path):
    state = open_workdir(str(tmp_path / "run"), "finetune", CONFIG)
    with pytest.raises(ValueError), begun_or_undone(str(tmp_path / "run"), state):
        open_workdir(str(tmp_path / "run" / "sweep" / "lr_0.1"), "finetune", OTHER)
        raise ValueError
    assert not (tmp_path / "run").exists()


def test_overwrite_costs_nothing_if_the_new_run_cannot_begin(finished):
    before = contents(finished)
    fail(finished, overwrite=True)
    assert contents(finished) == before


def test_overwrite_removes_the_other_run_once_the_new_one_begins(finished):
    fail(finished, overwrite=True, begin=True)
    assert set(contents(finished)) == {"config.json", "log.csv", "notes.txt"}
    assert (finished / "log.csv").read_text() == "new"


def test_a_process_that_died_before_its_first_step_loses_nothing(finished):
    before = contents(finished)
    assert open_workdir(str(finished), "finetune", OTHER, overwrite=True) == NEW  # and the process is gone
    fail(finished, overwrite=True)
    assert contents(finished) == before


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("text", ['["x"]', '{"model_type": "vit"}', "3", '{"recipe": "finetune", "config": 3}'])
def test_somebody_elses_configuration_stays(tmp_path, text, overwrite):
    (tmp_path / "config.json").write_text(text)
    (tmp_path / "model.keras").write_text("mine")
    before = contents(tmp_path)
    with pytest.raises(ValueError, match="holds a config.json that is not a recipe's; choose another folder"):
        open_workdir(str(tmp_path), "finetune", CONFIG, overwrite)
    assert contents(tmp_path) == before


def test_a_damaged_configuration_is_named_and_may_be_overwritten(tmp_path):
    (tmp_path / "config.json").write_text('{"recipe": "fine')
    with pytest.raises(ValueError, match=r"config.json is damaged .*; choose another folder, or add --overwrite"):
        open_workdir(str(tmp_path), "finetune", CONFIG)
    assert open_workdir(str(tmp_path), "finetune", CONFIG, overwrite=True) == NEW


def test_many_differences_are_counted(finished):
    config = override(CONFIG, [f"model.{key}=7" for key in ("num_layers", "hidden_dim", "num_heads", "mlp_dim")])
    config = override(config, ["train.seed=3", "train.batch_size=5", "train.epochs=1"])
    with pytest.raises(ValueError, match=r"holds another run: .* and 2 more; choose another folder"):
        open_workdir(str(finished), "finetune", config)


def test_a_key_that_an_older_run_lacks_counts_as_its_default(finished):
    path = finished / "config.json"
    written = json.loads(path.read_text())
    del written["config"]["train"]["jit_compile"], written["config"]["sweep"]
    path.write_text(json.dumps(written))
    assert open_workdir(str(finished), "finetune", CONFIG) == FINISHED
    with pytest.raises(ValueError, match=r"holds another run: train.jit_compile \(False, now True\); choose"):
        open_workdir(str(finished), "finetune", override(CONFIG, ["train.jit_compile=true"]))


def test_the_first_worker_alone_puts_another_run_aside(finished, monkeypatch):
    """The second one comes to the folder before, while or after the first one does."""
    parse = cli.parser("A recipe.", finetune.CONFIGS)
    argv = ["--config", "digits", "--set", "train.seed=3", "--workdir", str(finished), "--overwrite"]
    seen, before = [], contents(finished)

    def execute(config, folder, arguments):
        seen.append(contents(finished))
        return {"accuracy": 0.5, "count": 2}

    for index in (1, 0):
        task = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": index}}
        monkeypatch.setenv("TF_CONFIG", json.dumps(task))
        cli.launch("finetune", parse, finetune.CONFIGS, {}, execute, argv)
    assert seen[0] == before and "config.json" in seen[1] and "model.keras" not in seen[1]


def test_sigterm_before_the_first_step_undoes_what_was_begun(finished, capsys):
    before = contents(finished)

    def begin(_):
        with begun_or_undone(str(finished), open_workdir(str(finished), "finetune", OTHER, overwrite=True)):
            signal.raise_signal(signal.SIGTERM)

    assert cli.run(begin, []) == 143
    assert capsys.readouterr().err == "stopped by SIGTERM.\n" and contents(finished) == before
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_another_recipe_is_named(finished):
    with pytest.raises(ValueError, match=r"recipe \('finetune', now 'pretrain'\)"):
        open_workdir(str(finished), "pretrain", CONFIG)


@pytest.mark.parametrize("path", ["file", "file/run", "/proc/nothing/run"])
def test_a_folder_that_cannot_be_written(tmp_path, path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match="--workdir .* can't be written"):
        open_workdir(str(tmp_path / path), "finetune", CONFIG)
    with pytest.raises(ValueError, match="--workdir .* can't be written"):
        workdir.make_folder(str(tmp_path / path))


def test_a_failed_write_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    workdir.write_json(str(path), {"a": 1})
    with pytest.raises(TypeError):
        workdir.write_json(str(path), {"a": object()})

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(workdir.os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        workdir.write_json(str(path), {"a": 2})
    assert json.loads(path.read_text()) == {"a": 1} and os.listdir(tmp_path) == ["a.json"]


def test_a_command_that_is_put_right_runs_in_the_same_folder(tmp_path, capsys):
    """By the command line: the data set of the first command doesn't exist."""
    folder = tmp_path / "run"

    def command(*more):
        return finetune.main(["--config", "digits", "--workdir", str(folder), *more])

    assert command("--data", "folder:/no/such") == 2
    assert "data folder must exist" in capsys.readouterr().err and not folder.exists()
    assert cli.run(lambda _: open_workdir(str(folder), "finetune", CONFIG), []) == 0
    (folder / "log.csv").write_text("x")
    before = contents(folder)
    assert command("--data", "folder:/no/such", "--overwrite") == 2
    assert contents(folder) == before
