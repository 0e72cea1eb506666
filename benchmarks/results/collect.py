"""From the folders of finished runs to numbers: each seed, mean and spread, learning curves."""

import csv
import os
import statistics

from .plan import SHOTS
from .work import TIMES, read_json

VERSIONS = ("python", "tensorflow", "keras", "numpy")


def collect(planned, workdir):
    """Reads what the finished runs of a plan left.

    Args:
        planned: dict of experiment -> row -> list of `Run`, all finished.
        workdir: str, the folder above theirs.

    Returns:
        dict of experiment -> row -> dict, for JSON: "runs" (a list, one dict a seed), "curve" (list of (step, mean test
        accuracy)) and "versions". The runs of "fewshot" are the draws: its rows are numbers of shots.
    """
    times = read_json(path) if os.path.exists(path := os.path.join(workdir, TIMES)) else {}
    found = {}
    for experiment, rows in planned.items():
        if experiment == "fewshot":
            (run,) = rows["ViT-S/14"]
            found[experiment] = _fewshot(os.path.join(workdir, run.name), times.get(run.name))
            continue
        found[experiment] = {}
        for row, runs in rows.items():
            folders = [os.path.join(workdir, run.name) for run in runs]
            found[experiment][row] = {
                "runs": [_run(folder, times.get(run.name)) for folder, run in zip(folders, runs)],
                "curve": mean_curve([_curve(folder) for folder in folders]),
                "versions": _versions(folders[0]),
            }
    return found


def _run(folder, seconds):
    metrics, config = (read_json(os.path.join(folder, name)) for name in ("metrics.json", "config.json"))
    train = config["config"]["train"]
    kept = ("accuracy", "loss", "count", "steps", "parameters")
    own = {"seed": train["seed"], "images": metrics["steps"] * train["batch_size"], "seconds": seconds}
    return own | {key: metrics[key] for key in kept}


def _fewshot(folder, seconds):
    found = read_json(os.path.join(folder, "fewshot.json"))
    rows = {}
    for shots in SHOTS:
        accuracies = found["shots"][str(shots)]["accuracies"]
        runs = [
            {"seed": i, "accuracy": a, "count": found["count"], "seconds": seconds} for i, a in enumerate(accuracies)
        ]
        rows[f"{shots} shots"] = {"runs": runs, "curve": [], "versions": {}}
    return rows


def _versions(folder):
    versions = read_json(os.path.join(folder, "config.json"))["versions"]
    return {name: versions[name] for name in VERSIONS if name in versions}


def _curve(folder):
    with open(os.path.join(folder, "log.csv"), newline="", encoding="utf-8") as file:
        return [(int(r["step"]), float(r["accuracy"])) for r in csv.DictReader(file) if r["split"] == "test"]


def mean_curve(curves):
    """The mean of curves of (step, value), at the steps that all of them have.

    Example:
        >>> mean_curve([[(5, 0.1), (7, 0.2)], [(5, 0.3)]])
        [(5, 0.2)]
    """
    values = [dict(curve) for curve in curves]
    steps = sorted(set.intersection(*map(set, values))) if values else []
    return [(step, statistics.fmean(curve[step] for curve in values)) for step in steps]


def summary(runs, key="accuracy", scale=100):
    """(mean, sample standard deviation or None for a single run) of a value of several runs, times `scale`.

    Example:
        >>> summary([{"accuracy": 0.5}, {"accuracy": 0.52}, {"accuracy": 0.54}])
        (52.0, 2.0)
    """
    values = [scale * run[key] for run in runs]
    return statistics.fmean(values), round(statistics.stdev(values), 10) if len(values) > 1 else None


def differences(runs, reference):
    """Accuracy of runs less that of the reference's runs of the same seeds, in percentage points: list of float.

    Raises:
        ValueError: if the seeds aren't the same.

    Example:
        >>> differences([{"seed": 5, "accuracy": 0.5}], [{"seed": 5, "accuracy": 0.375}])
        [12.5]
    """
    before = {run["seed"]: run["accuracy"] for run in reference}
    if [run["seed"] for run in runs] != list(before):
        raise ValueError(f"runs must have the reference's seeds {list(before)}, received {[r['seed'] for r in runs]}.")
    return [100 * (run["accuracy"] - before[run["seed"]]) for run in runs]
