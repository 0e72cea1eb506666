"""Runs the experiments of docs/results.md and writes its tables, docs/results.json and docs/results.png.

    make results                                                  (or: python -m benchmarks.results)
    python -m benchmarks.results --only masked_patch,hybrid --workdir results --processes 2

Every run is an ordinary call of a recipe in a folder of its own below `--workdir`; its command line and output are
there. The same command goes on where the last one stopped, and a finished run is not repeated. With two or more
processes each computes with one thread.

The data are looked for in the folder that VITKERAS_TEST_DATA names (default: ../shared). `--cifar tfds:cifar10` takes
the public set instead (8,000 of its training pictures); `--flowers` and `--weights` are for other photos and other
weights of a ViT-S/14.
"""

import argparse
import json
import os
import sys

from .collect import collect
from .figure import draw
from .plan import EXPERIMENTS, Sources, plan, unique
from .tables import write_tables
from .work import REPOSITORY, Failed, Interrupted, read_json, resolved, work, write_text

ORIGINS = {
    "cifar": "CIFAR-10 as a folder a class; the whole set is public: --cifar tfds:cifar10",
    "flowers": "photos of flowers as a folder a class; Oxford's are public: --flowers tfds:oxford_flowers102",
    "weights": "ViT-S/14 weights in the original layout; give others with --weights",
}
NEEDS = {
    "masked_patch": ("cifar",),
    "equal_compute": ("cifar",),
    "hybrid": ("cifar",),
    "positions": ("cifar",),
    "flowers": ("flowers", "weights"),
    "fewshot": ("flowers", "weights"),
}


def sources_of(arguments, experiments, environment=os.environ):
    """The `Sources` that the arguments name, or those of the data folder.

    Raises:
        ValueError: if something that an experiment needs is missing; its public origin is named.
    """
    root = environment.get("VITKERAS_TEST_DATA") or os.path.join(REPOSITORY, os.pardir, "shared")
    root = os.path.abspath(root)
    places = {
        "cifar": os.path.join(root, "data", "cifar10"),
        "flowers": os.path.join(root, "data", "flowers12"),
        "weights": os.path.join(root, "weights", "vit_s14_real_fp16.npz"),
    }
    found = {}
    for name, place in places.items():
        given = getattr(arguments, name)
        needed = any(name in NEEDS[experiment] for experiment in experiments)
        if given is None and needed and not os.path.exists(place):
            raise ValueError(f"{place} is missing: {ORIGINS[name]}, or set VITKERAS_TEST_DATA.")
        found[name] = given or (place if name == "weights" else f"folder:{place}")
    return Sources(**found)


def chosen(text):
    """The experiments of `--only`, in their own order.

    Raises:
        ValueError: for an unknown one.

    Example:
        >>> chosen("hybrid,masked_patch")
        ('masked_patch', 'hybrid')
    """
    names = [name.strip() for name in text.split(",")]
    if unknown := [name for name in names if name not in EXPERIMENTS]:
        raise ValueError(f"--only must hold some of {', '.join(EXPERIMENTS)}, received {unknown[0]!r}.")
    return tuple(name for name in EXPERIMENTS if name in names)


def epochs_of_configurations():
    """(epochs of classification, of pre-training) that the configurations `cifar_small` have."""
    from recipes.configs import FINETUNE, MASKED_PATCH

    return FINETUNE["cifar_small"]().train.epochs, MASKED_PATCH["cifar_small"]().train.epochs


def publish(results, out):
    """Adds results to those in a folder, and writes its tables and picture anew.

    Args:
        results: dict of experiment -> row -> dict, from `collect`.
        out: str, folder that holds `results.md` with its markers; gets `results.json` and `results.png`.
    """
    store, page = (os.path.join(out, f"results.{kind}") for kind in ("json", "md"))
    known = (read_json(store) if os.path.exists(store) else {}) | results
    known = {name: known[name] for name in EXPERIMENTS if name in known}
    with open(page, encoding="utf-8") as file:
        text = write_tables(file.read(), known)
    write_text(store, json.dumps(known, indent=1) + "\n")
    draw(known, os.path.join(out, "results.png"))
    write_text(page, text)


def _count(planned, found):
    """Adds the multiply-adds of the hybrid experiment's models to its rows."""
    from recipes.building import build_model
    from recipes.config import FinetuneConfig
    from recipes.loading import from_dict
    from vitkeras.analysis import flops

    for row, runs in planned.get("hybrid", {}).items():
        config = from_dict(FinetuneConfig, resolved(runs[0]))
        found["hybrid"][row]["multiply_adds"] = flops(build_model(config, classes=10)).macs


def run(argv):
    """Everything, from the arguments to the written tables."""
    parse = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parse.add_argument("--only", default=",".join(EXPERIMENTS), metavar="NAMES", help="of " + ", ".join(EXPERIMENTS))
    parse.add_argument("--workdir", default=os.path.join(REPOSITORY, "results"), metavar="DIR")
    parse.add_argument("--out", default=os.path.join(REPOSITORY, "docs"), metavar="DIR", help="where results.md lies")
    parse.add_argument("--processes", type=int, default=os.cpu_count(), help="runs at a time (default: the processors)")
    parse.add_argument("--cifar", metavar="SPEC", help="such as tfds:cifar10 or folder:PATH")
    parse.add_argument("--flowers", metavar="SPEC", help="such as folder:PATH")
    parse.add_argument("--weights", metavar="PATH", help="ViT-S/14 weights in the original layout")
    arguments = parse.parse_args(argv)
    if arguments.processes < 1:
        raise ValueError(f"--processes must be above 0, received {arguments.processes}.")
    experiments, workdir = chosen(arguments.only), os.path.abspath(arguments.workdir)
    planned = plan(experiments, sources_of(arguments, experiments), workdir, epochs_of_configurations())
    os.makedirs(workdir, exist_ok=True)
    work(unique(planned), workdir, arguments.processes, report=lambda line: print(line, flush=True))
    found = collect(planned, workdir)
    _count(planned, found)
    publish(found, arguments.out)
    print(f"results.md, results.json and results.png are in {arguments.out}")


def main(argv=None):
    """Runs it; returns the exit code: 0, 1 for a run that failed or was stopped, 2 for bad input."""
    try:
        run(sys.argv[1:] if argv is None else argv)
        return 0
    except (Failed, Interrupted) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
