"""Planned runs of `make results`, and what a finished one leaves, made up."""

import csv
import json
from pathlib import Path

from benchmarks.results import work
from benchmarks.results.plan import EXPERIMENTS, Sources, plan

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
