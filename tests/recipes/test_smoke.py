"""`--smoke` of every configuration: the real code path on made-up images with a toy model."""

import dataclasses
import json
import os

import pytest

from vitkeras.models import VARIANTS
from vitkeras.recipes import finetune, pretrain, vtab
from vitkeras.recipes.smoke import smoke

RECIPES = {"finetune": finetune, "pretrain": pretrain, "vtab": vtab}
# One of each kind; the others differ from these in numbers only.
QUICK = {
    "imagenet_518",
    "cifar10_hybrid",
    "imagenet_vit_l32",
    "augreg_imagenet_strong1",
}
CASES = [
    pytest.param(recipe, name, marks=() if name in QUICK else pytest.mark.slow, id=f"{recipe}-{name}")
    for recipe, module in RECIPES.items()
    for name in module.CONFIGS
]


@pytest.mark.parametrize("recipe, name", CASES)
def test_two_steps(tmp_path, capsys, recipe, name):
    import keras

    keras.utils.clear_session()
    assert RECIPES[recipe].main(["--config", name, "--smoke", "--workdir", str(tmp_path), "--debug"]) == 0
    out, err = capsys.readouterr()
    assert "smoke: " in err and "data.spec=mock:" in err and "step 2/2" in err
    assert os.path.exists(tmp_path / "metrics.json") and str(tmp_path) in out
    written = json.loads((tmp_path / "config.json").read_text())["config"]
    original = RECIPES[recipe].CONFIGS[name]()
    assert written["optimizer"]["name"] == original.optimizer.name and written["loss"]["name"] == original.loss.name
    assert written["train"]["steps"] == 2 and written["train"]["ema_decay"] == original.train.ema_decay


@pytest.mark.parametrize("recipe, name", [case.values for case in CASES])
def test_stand_ins_keep_what_matters(recipe, name):
    config = RECIPES[recipe].CONFIGS[name]()
    small, replaced = smoke(config)
    for section in ("optimizer", "loss"):
        before, after = (dataclasses.asdict(getattr(c, section)) for c in (config, small))
        assert {key for key in before if before[key] != after[key]} <= {"warmup_steps"}
    assert small.data.augment == config.data.augment and small.data.dev_fraction == config.data.dev_fraction
    assert small.model.variant == config.model.variant and small.model.weights is None
    assert small.data.image_size[0] % (config.model.patch_size or VARIANTS[config.model.variant].stride) == 0
    assert all("=" in part and " for " in part for part in replaced)
    assert f"train.steps=2 for {config.train.steps or 'none'}".replace("none", "None") in replaced


def test_without_a_workdir_nothing_stays(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert finetune.main(["--config", "digits", "--smoke"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("smoke: passed")
    assert os.listdir(tmp_path) == []


def test_smoke_shows_its_configuration(capsys):
    assert pretrain.main(["--config", "imagenet_vit_b16", "--smoke", "--dump-config"]) == 0
    assert json.loads(capsys.readouterr().out)["model"]["hidden_dim"] == 24
