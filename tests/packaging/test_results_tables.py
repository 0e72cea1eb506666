"""`make results`: aggregation, tables and picture, on made-up metrics."""

import doctest
import json
import re
from pathlib import Path

import pytest
from results_runs import ACCURACIES, planned, write_run

from benchmarks.results import __main__ as command
from benchmarks.results import collect, figure, tables, work
from benchmarks.results.plan import EXPERIMENTS, unique

REPOSITORY = Path(__file__).resolve().parents[2]


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


def test_the_document_is_what_the_stored_numbers_give():
    page, store = (REPOSITORY / "docs" / f"results.{kind}" for kind in ("md", "json"))
    text, results = page.read_text(encoding="utf-8"), json.loads(store.read_text())
    assert tables.write_tables(text, results) == text
    assert (REPOSITORY / "docs" / "results.png").exists() and "(results.png)" in text
    assert "docs/results.md" in (REPOSITORY / "README.md").read_text(encoding="utf-8")
