"""`make results`: plan, going on, aggregation, tables and picture, on made-up metrics. No run is started."""

import csv
import doctest
import json
import os
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.results import __main__ as command
from benchmarks.results import collect, figure, tables, work
from benchmarks.results.plan import EXPERIMENTS, POSITIONS, Run, Sources, plan, unique

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = Sources("folder:/data/cifar10", "folder:/data/flowers12", "/data/vit_s14.npz")
ACCURACIES = {"scratch": (0.401, 0.431, 0.419), "tuned": (0.503, 0.499, 0.511), "long": (0.457, 0.449, 0.463)}


def planned(*experiments, sources=SOURCES, workdir="/w"):
    return plan(experiments or EXPERIMENTS, sources, workdir, (7, 13))


def write_run(workdir, run, accuracy, batch_size=64, steps=101):
    """What a finished run of a recipe leaves, as far as it is read."""
    folder = Path(workdir, run.name)
    folder.mkdir(parents=True, exist_ok=True)
    config = work.resolved(run)
    config["train"]["batch_size"] = batch_size
    versions = {"python": "3.11.2", "keras": "3.15.0", "vitkeras": "0.1.0"}
    (folder / "config.json").write_text(json.dumps({"config": config, "versions": versions}))
    with open(folder / "log.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["step", "split", "accuracy"])
        writer.writerows([[53, "train", 0.9], [53, "test", accuracy / 2], [101, "test", accuracy]])
    metrics = {"accuracy": accuracy, "loss": 1 - accuracy, "count": 1000, "steps": steps, "parameters": 1234}
    (folder / "metrics.json").write_text(json.dumps(metrics))


@pytest.fixture
def finished(tmp_path):
    found = planned("masked_patch", "equal_compute", "hybrid", "positions", workdir=str(tmp_path))
    for run in unique(found):
        name, _, seed = run.name.partition("/seed_")
        write_run(tmp_path, run, ACCURACIES.get(name, (0.391, 0.433, 0.412))[int(seed)])
    (tmp_path / work.TIMES).write_text(json.dumps({f"scratch/seed_{seed}": 60.0 * seed for seed in range(3)}))
    return found, tmp_path


@pytest.mark.parametrize("module", [collect, command], ids=lambda module: module.__name__)
def test_examples(module):
    done = doctest.testmod(module)
    assert done.attempted and not done.failed


def test_shared_runs_are_there_once_and_every_need_comes_first():
    runs = unique(planned())
    names = [run.name for run in runs]
    assert len(set(names)) == len(names) == 3 * (4 + 1 + 3) + 2 + 1
    for place, run in enumerate(runs):
        assert set(run.needs) <= set(names[:place])


def test_scratch_and_fine_tuning_differ_in_the_weights_alone():
    found = planned("masked_patch", "equal_compute")
    rows, long = found["masked_patch"], found["equal_compute"]["from scratch"]
    for runs, key in ((rows["pre-trained, fine-tuned"], "model.weights"), (long, "train.epochs")):
        for run, scratch in zip(runs, rows["from scratch"]):
            one, other = work.resolved(run), work.resolved(scratch)
            section, _, field = key.partition(".")
            assert one[section].pop(field) != other[section].pop(field) and one == other
    assert [run.needs for run in rows["pre-trained, fine-tuned"]] == [(f"masked/seed_{seed}",) for seed in range(3)]
    assert [work.resolved(run)["train"]["epochs"] for run in long] == [20, 20, 20]


def test_position_rows_are_the_four_kinds():
    rows = planned("positions")["positions"]
    kinds = [work.resolved(runs[0])["model"]["position_embedding"] for runs in rows.values()]
    assert kinds == list(POSITIONS.values()) == ["none", "learned_1d", "learned_2d", "relative"]


def test_a_public_set_gives_as_many_pictures():
    sources = Sources("tfds:cifar10", SOURCES.flowers, SOURCES.weights)
    assert {work.resolved(run)["data"]["limit"] for run in unique(planned("hybrid", sources=sources))} == {8000}
    assert {work.resolved(run)["data"]["limit"] for run in unique(planned("hybrid"))} == {None}


def test_every_planned_run_is_a_valid_command(monkeypatch, capsys):
    import importlib

    for run in unique(planned()):
        arguments = work.command(run, "/w/" + run.name)
        assert arguments[:2] == ["-m", f"recipes.{run.recipe}"]
        module = importlib.import_module(f"recipes.{run.recipe}")
        assert module.main([*arguments[2:], "--dump-config"]) == 0
        assert json.loads(capsys.readouterr().out) == work.resolved(run)


def test_the_hybrid_has_the_multiply_adds_of_the_vit():
    from recipes.building import build_model
    from recipes.config import FinetuneConfig
    from recipes.loading import from_dict
    from vitkeras.analysis import flops

    rows = planned("hybrid")["hybrid"]
    models = [build_model(from_dict(FinetuneConfig, work.resolved(runs[0])), 10) for runs in rows.values()]
    vit, hybrid = (flops(model).macs for model in models)
    d, mlp, tokens = 64, 128, 65
    block = 4 * tokens * d * d + 2 * tokens * tokens * d + 2 * tokens * d * mlp
    assert vit == 64 * 48 * d + 4 * block + 10 * d
    root, unit = 256 * 147 * 32, 64 * (32 * 32 + 9 * 32 * 32 + 2 * 32 * 128)
    assert hybrid == root + unit + 64 * 128 * d + 3 * block + 10 * d
    assert abs(hybrid / vit - 1) < 0.05


def test_collecting(finished):
    found, workdir = finished
    results = collect.collect(found, workdir)
    row = results["masked_patch"]["from scratch"]
    assert row == results["hybrid"]["ViT"] == results["positions"]["1-D"]
    assert [run["accuracy"] for run in row["runs"]] == list(ACCURACIES["scratch"])
    assert [run["seconds"] for run in row["runs"]] == [0.0, 60.0, 120.0]
    assert row["runs"][2] == {
        "seed": 2,
        "images": 101 * 64,
        "seconds": 120.0,
        "accuracy": 0.419,
        "loss": 1 - 0.419,
        "count": 1000,
        "steps": 101,
        "parameters": 1234,
    }
    assert row["curve"] == [(53, pytest.approx(1.251 / 6)), (101, pytest.approx(1.251 / 3))]
    assert row["versions"] == {"python": "3.11.2", "keras": "3.15.0"}
    assert results["hybrid"]["hybrid"]["runs"][0]["seconds"] is None


def test_few_shot_draws_are_rows(tmp_path):
    found = planned("fewshot", workdir=str(tmp_path))
    shots = {str(n): {"accuracies": [0.5, 0.25 + n / 100]} for n in (5, 10, 25)}
    (tmp_path / "fewshot").mkdir()
    (tmp_path / "fewshot" / "fewshot.json").write_text(json.dumps({"count": 240, "shots": shots}))
    results = collect.collect(found, tmp_path)["fewshot"]
    assert list(results) == ["5 shots", "10 shots", "25 shots"]
    text = tables.table("fewshot", results)
    assert "| 10 shots | 42.5 ± 10.6 | 50.0, 35.0 |" in text


def test_the_table_has_mean_spread_and_paired_differences(finished):
    results = collect.collect(*finished)
    lines = tables.table("masked_patch", results["masked_patch"]).splitlines()
    assert lines[0] == (
        "|  | training images shown | test accuracy % | test loss | each seed % | points above *from scratch* | "
        "processor minutes a run |"
    )
    assert lines[2] == "| from scratch | 6,464 | 41.7 ± 1.5 | 0.583 ± 0.015 | 40.1, 43.1, 41.9 |  | 1.0 |"
    assert lines[3] == (
        "| pre-trained, fine-tuned | 6,464 | 50.4 ± 0.6 | 0.496 ± 0.006 | 50.3, 49.9, 51.1 | "
        "+8.7 (+10.2, +6.8, +9.2) | not known |"
    )
    assert len(lines) == 6 and lines[5].startswith("The pre-training before it: 6,464 images shown without labels")
    assert all(line.count("|") == 8 for line in lines[:4])


def test_one_run_has_no_spread_and_the_hybrid_its_multiply_adds(finished, tmp_path):
    results = collect.collect(*finished)
    for row in results["hybrid"].values():
        row["multiply_adds"] = 10_880_128
    assert "| ViT | 10.880 | 6,464 | 41.7 ± 1.5 |" in tables.table("hybrid", results["hybrid"])
    found = planned("flowers", workdir=str(tmp_path))
    for run in unique(found):
        write_run(tmp_path, run, 0.975)
    text = tables.table("flowers", collect.collect(found, tmp_path)["flowers"])
    assert "| 336 px | 6,464 | 97.5 | 0.025 | not known |" in text and "±" not in text


def test_seeds_must_pair():
    with pytest.raises(ValueError, match=re.escape("must have the reference's seeds [5], received [3].")):
        collect.differences([{"seed": 3, "accuracy": 0.5}], [{"seed": 5, "accuracy": 0.5}])


def test_only_what_stands_between_the_markers_changes(finished):
    results = {"positions": collect.collect(*finished)["positions"]}
    before = "Before.\n\n<!-- results: positions -->\nold\n<!-- end -->\n\nAfter <!-- end -->\n"
    after = tables.write_tables(before, results)
    assert after.startswith("Before.\n\n<!-- results: positions -->\n\n|  |") and after.endswith("After <!-- end -->\n")
    assert "old" not in after and tables.write_tables(after, results) == after
    for text, count in (("nothing", 0), (before + before, 2)):
        with pytest.raises(ValueError, match=f"must hold <!-- results: positions --> .* once, received {count} of"):
            tables.write_tables(text, results)


def test_publishing_keeps_the_other_experiments(finished):
    found, workdir = finished
    results = collect.collect(found, workdir)
    pages = "".join(f"<!-- results: {name} -->\n<!-- end -->\n" for name in EXPERIMENTS)
    (workdir / "results.md").write_text(pages)
    for name in ("positions", "masked_patch"):
        command.publish({name: results[name]}, str(workdir))
    stored = json.loads((workdir / "results.json").read_text())
    assert list(stored) == ["masked_patch", "positions"]
    assert figure.draw(results, str(workdir / "whole.png")) is True
    text = (workdir / "results.md").read_text()
    assert "pre-trained, fine-tuned" in text and "| relative |" in text
    assert (workdir / "results.png").read_bytes().startswith(b"\x89PNG") and not list(workdir.glob("*.part"))
    assert figure.draw({}, str(workdir / "none.png")) is False and not (workdir / "none.png").exists()


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


def test_the_document_is_what_the_stored_numbers_give():
    page, store = (REPOSITORY / "docs" / f"results.{kind}" for kind in ("md", "json"))
    text, results = page.read_text(encoding="utf-8"), json.loads(store.read_text())
    assert tables.write_tables(text, results) == text
    assert (REPOSITORY / "docs" / "results.png").exists() and "(results.png)" in text
    assert "docs/results.md" in (REPOSITORY / "README.md").read_text(encoding="utf-8")
