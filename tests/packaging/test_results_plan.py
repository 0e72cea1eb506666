"""`make results`: what is planned. No run is started."""

import json

from results_runs import SOURCES, planned

from benchmarks.results import work
from benchmarks.results.plan import POSITIONS, Sources, unique


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
