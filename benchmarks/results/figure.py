"""The picture of docs/results.md: learning curves on the left, accuracies with their spread on the right."""

import os

from .collect import summary

# (experiment, row) -> what the picture calls it, from the top; a run that two experiments share is there once.
NAMES = {
    ("masked_patch", "from scratch"): "ViT from scratch",
    ("masked_patch", "pre-trained, fine-tuned"): "pre-trained, fine-tuned",
    ("equal_compute", "from scratch"): "from scratch, as long as both",
    ("hybrid", "hybrid"): "hybrid from scratch",
    ("positions", "none"): "positions: none",
    ("positions", "2-D"): "positions: 2-D",
    ("positions", "relative"): "positions: relative",
}
CURVES = tuple(NAMES)[:4]


def draw(results, path):
    """Draws what there is of the CIFAR-10 experiments.

    Args:
        results: dict of experiment -> row -> dict, from `collect`.
        path: str, the PNG to write.

    Returns:
        bool, whether there was anything to draw.
    """
    rows = {key: results[key[0]][key[1]] for key in NAMES if key[0] in results}
    if not rows:
        return False
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    for key in CURVES:
        if curve := rows.get(key, {}).get("curve"):
            left.plot([step for step, _ in curve], [100 * value for _, value in curve], marker=".", label=NAMES[key])
    left.set(xlabel="step", ylabel="test accuracy in %", title="CIFAR-10 subset, mean of the seeds")
    if left.lines:
        left.legend(frameon=False)
    left.grid(alpha=0.3)
    for place, key in enumerate(reversed(rows)):
        runs = rows[key]["runs"]
        mean, deviation = summary(runs)
        right.errorbar(mean, place, xerr=deviation or 0.0, fmt="o", color="#1f77b4", capsize=4)
        right.plot([100 * run["accuracy"] for run in runs], [place + 0.2] * len(runs), "k.", markersize=4)
    right.set_yticks(range(len(rows)), [NAMES[key] for key in reversed(rows)])
    right.set_ylim(-0.6, len(rows) - 0.4)
    right.grid(axis="x", alpha=0.3)
    right.set(xlabel="test accuracy in %", title="mean, standard deviation, and (black) each seed")
    figure.savefig(path + ".part", format="png", dpi=110)
    os.replace(path + ".part", path)
    return True
