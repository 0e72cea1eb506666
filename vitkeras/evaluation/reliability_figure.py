"""The reliability diagram: accuracy against confidence."""

from vitkeras._optional import require
from vitkeras.evaluation.calibration import calibration_error, reliability_bins


def reliability_figure(confidences, hits, bins=15):
    """Draws accuracy against confidence, and below it how many images have which confidence.

    A calibrated model's bars end on the diagonal; bars below it mean that the model is too sure of itself.

    Args:
        confidences: real array (n,), 0...1.
        hits: bool array (n,).
        bins: int >= 1, of equal width. Default 15.

    Returns:
        `matplotlib.figure.Figure`.

    Raises:
        ImportError: if Matplotlib is missing; the extra is named.
        ValueError: as `reliability_bins`.

    Example:
        >>> figure = reliability_figure([0.2, 0.7, 0.9], [False, True, True])
        >>> len(figure.axes)
        2
    """
    table = reliability_bins(confidences, hits, bins)
    error = calibration_error(confidences, hits, bins)
    figures = require("matplotlib.figure", "Matplotlib", "the reliability diagram")
    figure = figures.Figure(figsize=(5, 5.6), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    width, filled = 1 / bins, table["count"] > 0
    middle = (table["lower"] + table["upper"]) / 2
    upper.bar(middle[filled], table["accuracy"][filled], 0.94 * width, color="#1f77b4", label="accuracy")
    upper.plot(
        table["confidence"][filled],
        table["confidence"][filled],
        "_",
        color="#d62728",
        markersize=12,
        markeredgewidth=2,
        label="mean confidence",
    )
    upper.plot((0, 1), (0, 1), "--", color="grey", linewidth=1, label="calibrated")
    upper.set(ylabel="accuracy", xlim=(0, 1), ylim=(0, 1.02), title=f"calibration error (ECE) {100 * error:.2f} %")
    figure.legend(frameon=False, fontsize=8, loc="outside lower center", ncols=3)
    lower.bar(middle, table["count"], 0.94 * width, color="#7f7f7f")
    lower.set(xlabel="confidence", ylabel="images")
    for axis in (upper, lower):
        axis.spines[["top", "right"]].set_visible(False)
    return figure
