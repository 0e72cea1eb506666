"""Which runs an experiment consists of, as command lines of the recipes."""

import os
from dataclasses import dataclass

SEEDS = (0, 1, 2)
SHOTS, DRAWS = (5, 10, 25), 5
EXPERIMENTS = ("masked_patch", "hybrid", "positions", "flowers", "fewshot", "equal_compute")
PRETRAINING = "masked-patch pre-training"
POSITIONS = {"none": "none", "1-D": "learned_1d", "2-D": "learned_2d", "relative": "relative"}
# The stem is a ResNet's root (stride 4) and one bottleneck unit at half width, on whose map of 8 x 8 the patches are
# single positions. With three blocks instead of four the multiply-adds are the ViT's, within half a percent.
HYBRID = (
    "model.variant=r_ti16",
    "model.patch_size=1",
    "model.stage_blocks=(1,)",
    "model.width_factor=0.5",
    "model.num_layers=3",
)


@dataclass(frozen=True)
class Run:
    """One call of a recipe.

    Attributes:
        name: str, its folder below the workdir.
        recipe: str, such as "finetune".
        config: str, the configuration's name.
        sets: tuple of str, as for `--set`.
        needs: tuple of str, the runs whose files it reads.
        result: str, the file that says that it is finished.
    """

    name: str
    recipe: str
    config: str
    sets: tuple = ()
    needs: tuple = ()
    result: str = "metrics.json"


@dataclass(frozen=True)
class Sources:
    """Where data and weights come from: specs for `--data`, and the path of the ViT-S/14 weights."""

    cifar: str
    flowers: str
    weights: str


def plan(experiments, sources, workdir, epochs):
    """Makes the runs of some experiments; what two of them share is there once.

    Args:
        experiments: iterable of str, of `EXPERIMENTS`.
        sources: `Sources`.
        workdir: str, the folder above all runs'.
        epochs: (of classification, of pre-training), as the configurations have them.

    Returns:
        dict of experiment -> dict of the row's name -> list of `Run`, one a seed.
    """
    makers = {
        "masked_patch": lambda: _masked_patch(sources, workdir),
        "equal_compute": lambda: _equal_compute(sources, workdir, epochs),
        "hybrid": lambda: {"ViT": _scratch(sources), "hybrid": _cifar(sources, "hybrid", *HYBRID)},
        "positions": lambda: _positions(sources),
        "flowers": lambda: {f"{size} px": [_flowers(sources, size)] for size in (224, 336)},
        "fewshot": lambda: {"ViT-S/14": [_fewshot(sources)]},
    }
    return {name: makers[name]() for name in experiments}


def unique(planned):
    """The runs of a plan, each once, those that others need first."""
    runs = {}
    for rows in planned.values():
        for row in rows.values():
            runs |= {run.name: run for run in row if run.name not in runs}
    return list(runs.values())


def _cifar(sources, name, *sets, recipe="finetune", needs=None):
    sets = (f"data.spec={sources.cifar}", *sets)
    if not sources.cifar.startswith("folder:"):  # the whole public set: as many pictures as the subset has
        sets += ("data.limit=8000",)
    runs = []
    for seed in SEEDS:
        own = tuple(text.format(seed=seed) for text in (*sets, "train.seed={seed}"))
        needed = () if needs is None else (f"{needs}/seed_{seed}",)
        runs.append(Run(f"{name}/seed_{seed}", recipe, "cifar_small", own, needed))
    return runs


def _scratch(sources):
    return _cifar(sources, "scratch")


def _masked_patch(sources, workdir):
    backbone = os.path.join(workdir, "masked", "seed_{seed}", "backbone.npz")
    return {
        PRETRAINING: _cifar(sources, "masked", recipe="masked_patch"),
        "from scratch": _scratch(sources),
        "pre-trained, fine-tuned": _cifar(sources, "tuned", f"model.weights={backbone}", needs="masked"),
    }


def _equal_compute(sources, workdir, epochs):
    rows = _masked_patch(sources, workdir)
    rows["from scratch"] = _cifar(sources, "long", f"train.epochs={sum(epochs)}")  # as long as both together
    return rows


def _positions(sources):
    rows = {}
    for row, kind in POSITIONS.items():
        other = f"model.position_embedding={kind}"
        rows[row] = _scratch(sources) if kind == "learned_1d" else _cifar(sources, f"positions_{kind}", other)
    return rows


def _flowers(sources, size):
    sets = (f"data.spec={sources.flowers}", f"model.weights={sources.weights}", f"data.image_size=({size},{size})")
    return Run(f"flowers_{size}", "finetune", "photos_s14", (*sets, "train.epochs=1", "train.batch_size=16"))


def _fewshot(sources):
    sets = (f"data.spec={sources.flowers}", f"model.weights={sources.weights}", f"shots={SHOTS}", f"seeds={DRAWS}")
    return Run("fewshot", "fewshot", "vit_s14", sets, result="fewshot.json")
