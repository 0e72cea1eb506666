"""The picture of docs/results.md: learning curves on the left, accuracies with their spread on the right."""

import os

from .collect import summary
from .tables import PRETRAINING

CURVES = ("from scratch", "pre-trained, fine-tuned", "from scratch, as long as both")
BARS = ("masked_patch", "hybrid", "positions")


def draw(results, path):
    """Draws what there is of the CIFAR-10 experiments.

    Args:
        results: dict of experiment -> row -> dict, from `collect`.
        path: str, the PNG to write.

    Returns:
        bool, whether there was anything to draw.
    """
    rows = [
        (name, row["runs"])
        for experiment in BARS
        for name, row in results.get(experiment, {}).items()
        if name != PRETRAINING and (experiment, name) not in (("hybrid", "ViT"), ("positions", "1-D"))
    ]
    if not rows:
        return False
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    for name in CURVES:
        curve = results.get("masked_patch", {}).get(name, {}).get("curve", [])
        if curve:
            left.plot([step for step, _ in curve], [100 * value for _, value in curve], marker=".", label=name)
    left.set(xlabel="step", ylabel="test accuracy in %", title="CIFAR-10 subset, mean of the seeds")
    if left.lines:
        left.legend(frameon=False)
    left.grid(alpha=0.3)
    names = {"none": "positions: none", "2-D": "positions: 2-D", "relative": "positions: relative"}
    for place, (_, runs) in enumerate(reversed(rows)):
        mean, deviation = summary(runs)
        right.barh(place, mean, xerr=deviation or 0.0, color="#7aa6c2", ecolor="#30434f", capsize=3)
        right.plot([100 * run["accuracy"] for run in runs], [place] * len(runs), "k.", markersize=4)
    right.set_yticks(range(len(rows)), [names.get(name, name) for name, _ in reversed(rows)])
    lowest = min(run["accuracy"] for _, runs in rows for run in runs)
    right.set_xlim(left=max(0.0, 100 * lowest - 10))
    right.set(xlabel="test accuracy in %", title="bars: mean; lines: one standard deviation; dots: seeds")
    figure.savefig(path + ".part", format="png", dpi=110)
    os.replace(path + ".part", path)
    return True
