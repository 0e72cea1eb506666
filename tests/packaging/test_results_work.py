"""`make results`: the queue of runs, going on, and the command line. No recipe is started."""

import json
import os
from types import SimpleNamespace

import pytest
from results_runs import write_run

from benchmarks.results import __main__ as command
from benchmarks.results import work
from benchmarks.results.plan import Run


def test_a_finished_run_is_one_of_this_very_configuration(tmp_path):
    run = Run("scratch/seed_0", "finetune", "cifar_small", ("train.seed=0",))
    assert not work.is_finished(run, tmp_path)
    write_run(tmp_path, run, 0.5, batch_size=work.resolved(run)["train"]["batch_size"])
    assert work.is_finished(run, tmp_path)
    assert not work.is_finished(Run(run.name, run.recipe, run.config, ("train.seed=1",)), tmp_path)
    (tmp_path / run.name / "metrics.json").unlink()
    assert not work.is_finished(run, tmp_path)


SCRIPT = """
import json, os, signal, sys, time
folder, config, kind = sys.argv[1:4]
if kind == "fails":
    sys.exit("error: as it was told")
if kind == "waits":
    def stop(number, frame):
        open(os.path.join(folder, "saved"), "w").close()
        sys.exit(0)
    signal.signal(signal.SIGTERM, stop)
    open(os.path.join(folder, "started"), "w").close()
    time.sleep(60)
for name, value in (("config.json", {"config": json.loads(config)}), ("metrics.json", {})):
    with open(os.path.join(folder, name), "w") as file:
        json.dump(value, file)
"""


@pytest.fixture
def pretend(monkeypatch):
    """Runs that write their result, fail, or wait for a signal, without any recipe."""
    kinds = {}

    def command_line(run, folder):
        return ["-c", SCRIPT, folder, json.dumps(work.resolved(run)), kinds.get(run.name, "ends")]

    monkeypatch.setattr(work, "command", command_line)
    monkeypatch.setattr(work, "PAUSE", 0.01)
    return kinds


def toy(name, *needs):
    return Run(name, "finetune", "cifar_small", (), needs)


def test_the_queue_waits_for_what_a_run_needs_and_repeats_nothing(pretend, tmp_path):
    lines = []
    runs = [toy("tuned", "masked"), toy("masked"), toy("other")]
    work.work(runs, str(tmp_path), 2, lines.append)
    assert lines[0] == "3 runs, 0 finished before"
    order = [line.split(",")[0] for line in lines]
    assert order.index("finished masked") < order.index("started tuned")
    assert set(json.loads((tmp_path / work.TIMES).read_text())) == {"tuned", "masked", "other"}
    lines.clear()
    work.work(runs, str(tmp_path), 2, lines.append)
    assert lines == ["3 runs, 3 finished before"]


def test_a_failing_run_is_named_and_the_others_save(pretend, tmp_path):
    pretend |= {"long": "waits"}
    started = tmp_path / "long" / "started"

    def report(line):
        if line == "started long":
            while not started.exists():
                work.time.sleep(0.01)

    with pytest.raises(work.Failed, match="bad ended with code 1: error: as it was told"):
        pretend["bad"] = "fails"
        work.work([toy("long"), toy("bad")], str(tmp_path), 2, report)
    assert (tmp_path / "long" / "saved").exists()


def test_a_signal_lets_the_runs_save(pretend, tmp_path):
    pretend["long"] = "waits"

    def report(line):
        if line.startswith("started"):
            while not (tmp_path / "long" / "started").exists():
                work.time.sleep(0.01)
            os.kill(os.getpid(), work.signal.SIGTERM)

    with pytest.raises(work.Interrupted, match="stopped by SIGTERM; the same command goes on"):
        work.work([toy("long")], str(tmp_path), 1, report)
    assert (tmp_path / "long" / "saved").exists()
    assert work.signal.getsignal(work.signal.SIGTERM) is work.signal.SIG_DFL


def test_missing_data_is_one_sentence_with_its_origin(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("VITKERAS_TEST_DATA", str(tmp_path))
    for only, origin in (("hybrid", "tfds:cifar10"), ("fewshot", "tfds:oxford_flowers102")):
        assert command.main(["--only", only]) == 2
        error = capsys.readouterr().err
        assert error.startswith(f"error: {tmp_path}") and " is missing: " in error and origin in error
    arguments = SimpleNamespace(cifar=None, flowers="folder:mine", weights="mine.npz")
    environment = {"VITKERAS_TEST_DATA": str(tmp_path)}
    assert command.sources_of(arguments, ("flowers",), environment).weights == "mine.npz"


@pytest.mark.parametrize(
    "arguments, message",
    [
        (
            ["--only", "hybrids"],
            "--only must hold some of masked_patch, hybrid, positions, flowers, fewshot, equal_compute",
        ),
        (["--processes", "0"], "--processes must be above 0, received 0."),
    ],
)
def test_bad_arguments_are_one_sentence(arguments, message, capsys):
    assert command.main(arguments) == 2
    assert message in capsys.readouterr().err
