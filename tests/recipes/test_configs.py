"""The named configurations against the paper's tables, and what every one of them has."""

import json

import pytest

from vitkeras.models import VARIANTS
from vitkeras.recipes import configs, evaluate, finetune, pretrain, vtab
from vitkeras.recipes.config import as_dict
from vitkeras.recipes.vtab_tasks import GROUPS, TASKS

ALL = {
    (recipe.__name__.rpartition(".")[2], name): function
    for recipe in (evaluate, finetune, pretrain, vtab)
    for name, function in recipe.CONFIGS.items()
}
# Table 3: models, set, epochs, base LR, LR decay, weight decay, dropout
TABLE_3 = """
vit_b16 jft 7 8e-4 linear 0.1 0.0
vit_b32 jft 7 8e-4 linear 0.1 0.0
vit_l32 jft 7 6e-4 linear 0.1 0.0
vit_l16 jft 7 4e-4 linear 0.1 0.0
vit_l16 jft 14 4e-4 linear 0.1 0.0
vit_h14 jft 14 3e-4 linear 0.1 0.0
bit_r50x1 jft 7 1e-3 linear 0.1 0.0
bit_r50x2 jft 7 1e-3 linear 0.1 0.0
bit_r101x1 jft 7 8e-4 linear 0.1 0.0
bit_r152x1 jft 7 6e-4 linear 0.1 0.0
bit_r152x2 jft 7 6e-4 linear 0.1 0.0
r50_b16 jft 7 8e-4 linear 0.1 0.0
r50_b32 jft 7 8e-4 linear 0.1 0.0
r50_l32 jft 7 2e-4 linear 0.1 0.0
r50_l16 jft 7 4e-4 linear 0.1 0.0
r50_l16 jft 14 4e-4 linear 0.1 0.0
vit_b16 imagenet21k 90 1e-3 linear 0.03 0.1
vit_b32 imagenet21k 90 1e-3 linear 0.03 0.1
vit_l16 imagenet21k 30 1e-3 linear 0.03 0.1
vit_l16 imagenet21k 90 1e-3 linear 0.03 0.1
vit_l32 imagenet21k 30 1e-3 linear 0.03 0.1
vit_l32 imagenet21k 90 1e-3 linear 0.03 0.1
vit_b16 imagenet 300 3e-3 cosine 0.3 0.1
vit_b32 imagenet 300 3e-3 cosine 0.3 0.1
vit_l16 imagenet 300 3e-3 cosine 0.3 0.1
vit_l32 imagenet 300 3e-3 cosine 0.3 0.1
"""


def test_table_3():
    rows = []
    for name, function in configs.table3.CONFIGS.items():
        config = function()
        model, optimizer = config.model, config.optimizer
        numbers = (config.train.epochs, optimizer.learning_rate, optimizer.decay, optimizer.weight_decay)
        rows.append((model.variant, name.partition("_")[0], *numbers, model.dropout_rate))
        assert config.train.batch_size == 4096 and optimizer.warmup_steps == 10_000
        assert config.data.image_size == (224, 224) and optimizer.name == "adamw"
        assert optimizer.clip_norm == (1.0 if "imagenet_" in name else None)
        width = getattr(VARIANTS[model.variant], "hidden_dim", None)
        assert model.representation_size == width  # the hidden layer of section 3.1
    expected = [line.split() for line in TABLE_3.strip().splitlines()]
    expected = [(v, d, float(e), float(r), c, float(w), float(p)) for v, d, e, r, c, w, p in expected]
    assert sorted(rows) == sorted(expected)


@pytest.mark.parametrize(
    "name, steps, dev, rates",
    [
        ("imagenet", 20_000, 0.01, (0.003, 0.01, 0.03, 0.06)),
        ("cifar10", 10_000, 0.02, (0.001, 0.003, 0.01, 0.03)),
        ("cifar100", 10_000, 0.02, (0.001, 0.003, 0.01, 0.03)),
        ("pets", 500, 0.1, (0.001, 0.003, 0.01, 0.03)),
        ("flowers", 500, 0.1, (0.001, 0.003, 0.01, 0.03)),
    ],
)
@pytest.mark.parametrize("suffix, variant", [("", "vit_b16"), ("_hybrid", "r50_b16")])
def test_table_4(name, suffix, variant, steps, dev, rates):
    config = finetune.CONFIGS[name + suffix]()
    assert (config.train.steps, config.data.dev_fraction, config.sweep.learning_rates) == (steps, dev, rates)
    assert config.model.variant == variant and config.train.batch_size == 512
    optimizer = config.optimizer
    assert (optimizer.name, optimizer.momentum, optimizer.decay, optimizer.clip_norm) == ("sgd", 0.9, "cosine", 1.0)
    assert optimizer.weight_decay == 0 and config.data.image_size == (384, 384)


def test_table_2():
    for name, variant, side in (("imagenet_512", "vit_l16", 512), ("imagenet_518", "vit_h14", 518)):
        config = finetune.CONFIGS[name]()
        assert (config.model.variant, config.data.image_size) == (variant, (side, side))
        assert config.train.ema_decay == 0.9999 and config.train.steps == 20_000
        assert side % VARIANTS[variant].stride == 0


def test_augreg():
    levels = {"none", "light1", "light2", "medium1", "medium2", "strong1", "strong2"}
    for data, bias in (("imagenet21k", -10.0), ("imagenet", -6.9)):
        found = {name: pretrain.CONFIGS[name]() for name in pretrain.CONFIGS if name.startswith(f"augreg_{data}_")}
        assert {config.data.augment for config in found.values()} == levels
        for config in found.values():
            assert config.loss.name == "sigmoid" and config.model.head_bias == bias
            assert config.train.epochs == 300 and config.optimizer.learning_rate == 1e-3
            assert config.optimizer.decay == "cosine" and config.optimizer.clip_norm == 1.0


def test_vtab():
    config = vtab.CONFIGS["vtab"]()
    assert config.train.steps == 2500 and config.optimizer.learning_rate == 0.01
    assert config.data.limit == 1000 and config.data.dev_fraction == 0.2
    assert vtab.CONFIGS["vtab_dev"]().suite.part == "train"
    assert [sum(task.group == group for task in TASKS.values()) for group in GROUPS] == [7, 4, 8]


def test_appendix_d1_differs_in_the_optimizer_alone():
    for variant in ("bit_r50x1", "bit_r152x2"):
        adam, sgd = (as_dict(pretrain.CONFIGS[f"d1_{name}_{variant}"]()) for name in ("adam", "sgd"))
        assert [key for key in adam if adam[key] != sgd[key]] == ["optimizer"]
        assert (adam["optimizer"]["name"], sgd["optimizer"]["name"]) == ("adamw", "sgd")


@pytest.mark.parametrize("recipe, name", ALL)
def test_each_is_plain_named_and_described(recipe, name):
    function = ALL[recipe, name]
    assert function.__name__ == name
    assert len(function.__doc__.splitlines()[0]) + len(name) < 140
    assert json.loads(json.dumps(as_dict(function())))
    if recipe == "pretrain":
        assert function.__doc__.startswith(("Table 3:", "AugReg:", "Appendix D.1:"))


@pytest.mark.parametrize("recipe", [evaluate, finetune, pretrain, vtab])
def test_help_lists_them(recipe, capsys):
    with pytest.raises(SystemExit) as done:
        recipe.main(["--help"])
    assert done.value.code == 0
    out = capsys.readouterr().out
    for name, function in recipe.CONFIGS.items():
        assert f"  {name} " in out and function.__doc__.splitlines()[0] in out
