"""The picture of throughput.py: against the image's side, images a second and the largest batch."""

import os


def draw(result, path):
    """Draws what `throughput.py --json` holds.

    Args:
        result: dict.
        path: str, the PNG to write.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    for number, (variant, rows) in enumerate(result["variants"].items()):
        color, sizes = f"C{number}", [row["image_size"] for row in rows]
        left.plot(sizes, [row["images_per_second"] for row in rows], "o-", color=color, label=variant)
        left.plot(sizes, [row["calculated"] for row in rows], "--", color=color, alpha=0.6)
        right.plot(sizes, [row["largest_batch"] or float("nan") for row in rows], "o-", color=color, label=variant)
    for number, (preset, rows) in enumerate(result["presets"].items()):
        speeds = [row["images_per_second"] for row in rows]
        name = f"{result['exported']}, {preset}"
        left.plot([row["image_size"] for row in rows], speeds, "s:", color=f"C{number + 5}", label=name)
    left.plot([], [], "--", color="0.5", label=f"calculated, from {result['scaled_at']} px")
    unit = {"wall": "second", "processor": "second of one processor"}[result["clock"]]
    left.set(ylabel=f"images a {unit}", title=result["device"])
    right.set(ylabel="images in a batch", title=f"largest batch in {result['memory_gib']:g} GiB")
    for axes in (left, right):
        axes.set(xscale="log", yscale="log", xlabel="image side in pixels")
        sizes = result["image_sizes"]
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize=8)
    figure.savefig(path + ".part", format="png", dpi=90)
    os.replace(path + ".part", path)
