import json

import pytest

from vitkeras.recipes import finetune

TINY = ["model.num_layers=1", "model.hidden_dim=24", "model.mlp_dim=48", "data.image_size=(32, 48)"]
SETS = [*TINY, "train.steps=6", "train.batch_size=7", "train.evaluate_every=3", "data.dev_fraction=0.1"]


def run(workdir, *more):
    sets = [part for text in (*SETS, *more) for part in ("--set", text)]
    return finetune.main(["--config", "digits", "--sweep", "--workdir", str(workdir), *sets])


def test_the_best_on_dev_trains_on_all_and_is_tested_once(tmp_path, capsys):
    rates = "sweep.learning_rates=(1e-7, 0.003)"
    assert run(tmp_path / "run", rates) == 0
    out, err = capsys.readouterr()
    result = json.loads((tmp_path / "run" / "sweep.json").read_text())
    assert [row["learning_rate"] for row in result["rows"]] == [1e-7, 0.003]
    best = max(result["rows"], key=lambda row: row["dev_accuracy"])
    assert [row["chosen"] for row in result["rows"]] == [row is best for row in result["rows"]]
    assert "digits: 1293 training and 144 dev images" in err and "digits: 1437 training and 360 test images" in err
    assert err.count("test accuracy") == 1
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert result["test"]["accuracy"] == metrics["accuracy"] and metrics["count"] == 360
    assert "learning rate  dev accuracy" in out and "chosen" in out
    folders = sorted(path.name for path in (tmp_path / "run" / "sweep").iterdir())
    assert folders == ["lr_0.003", "lr_1e-07"]
    best_one = json.loads((tmp_path / "run" / "sweep" / "lr_0.003" / "metrics.json").read_text())
    assert best_one["splits"].keys() == {"dev"}
    assert (tmp_path / "run" / "sweep" / "lr_0.003" / "checkpoints" / "BEST").exists()


@pytest.mark.parametrize(
    "sets, message",
    [
        (("sweep.learning_rates=()",), "--sweep needs sweep.learning_rates with at least one rate, received ()."),
        (("data.dev_fraction=0.0",), "--sweep needs data.dev_fraction above 0"),
        (
            ("sweep.learning_rates=0.1",),
            "--set sweep.learning_rates must be tuple[float, ...], such as (1, 2) or (1,), received '0.1'",
        ),
    ],
)
def test_bad_sweeps(tmp_path, capsys, sets, message):
    assert run(tmp_path / "run", *sets) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]
