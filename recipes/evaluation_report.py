"""An evaluation as text, tables and pictures."""

import io
import os

import numpy as np

from vitkeras.evaluation import confusion_figure, reliability_figure

from .text_file import csv_text
from .workdir import write_bytes, write_json, write_text

FILES = ("evaluation.json", "per_class.csv", "confusion.png", "reliability.png")
MOST_SHOWN = 100  # classes; of more, the worst ones are shown
_WORST = 20
_COLUMNS = ("count", "predicted", "accuracy", "precision", "recall", "f1")


def as_text(metrics):
    """The lines for people, without the last one: what was evaluated, classes, calibration, other scores."""
    model, left_out = metrics["model"], metrics["left_out"]
    lines = [f"{model['kind']} {model['path']}: {metrics['images_per_second']:.1f} images/s"]
    rows = [row for row in metrics["classes"] if row["count"]]
    if len(rows) > MOST_SHOWN:
        rows = sorted(rows, key=lambda row: row["accuracy"])[:_WORST]
        lines.append(f"  the {_WORST} classes of the lowest accuracy:")
    width = min(max(len(row["name"]) for row in rows), 40)
    lines.append(f"  {'class':{width}s}  images  accuracy  precision        F1")
    for row in rows:
        numbers = f"{_percent(row['accuracy'])}   {_percent(row['precision'])}  {_percent(row['f1'])}"
        lines.append(f"  {row['name']:{width}s}  {row['count']:6d}  {numbers}")
    if left_out["classes"]:
        lines.append(f"left out: {left_out['images']} images of classes without an output ({left_out['classes']})")
    if unused := metrics["unused_entries"]:
        some = ", ".join(unused[:5]) + (", ..." if len(unused) > 5 else "")
        lines.append(f"label map: entries that name no class of the data ({len(unused)}): {some}")
    if (found := metrics["calibration"]) is None:
        lines.append("calibration: no class has a probability of its own")
    else:
        lines.append(
            f"calibration: ECE {100 * found['ece']:.2f} % ({len(found['bins'])} bins; adaptive "
            f"{100 * found['ece_adaptive']:.2f} %), NLL {found['nll']:.4f}, Brier {found['brier']:.4f}"
        )
    if (other := metrics.get("other_choice")) is not None:
        among = "all the model's outputs" if other["among"] == "model" else "the data's classes only"
        lines.append(f"among {among} ({other['choices']}): {_accuracy(other)}")
    if (real := metrics.get("real")) is not None:
        lines.append(
            f"ImageNet-ReaL: {100 * real['accuracy']:.2f} % of {real['count']} images, "
            f"{real['without_labels']} have no label"
        )
    return "\n".join(lines)


def last_line(metrics, written):
    """Top-1 and top-5, and where everything is; `written` are the files."""
    line = f"{_accuracy(metrics)} of {metrics['count']} images"
    if not written:
        return line
    folder = os.path.dirname(written[0])
    same = all(os.path.dirname(path) == folder for path in written)
    where = f"in {folder or os.curdir}: {', '.join(map(os.path.basename, written))}" if same else ", ".join(written)
    return f"{line}; everything is {where}"


def write_report(folder, config, evaluation, bins):
    """Writes the tables and pictures, `evaluation.json` last; returns the paths, that first.

    Args:
        folder: str, it exists.
        config: dict, the configuration, which the JSON begins with.
        evaluation: `Evaluation`.
        bins: int, of the reliability diagram.
    """
    paths = {name: os.path.join(folder, name) for name in FILES[:3]}
    write_text(paths["per_class.csv"], csv_text(["class", *_COLUMNS], _class_rows(evaluation.metrics)))
    write_bytes(paths["confusion.png"], _png(confusion_figure(evaluation.matrix, evaluation.class_names)))
    picture = os.path.join(folder, FILES[3])
    if "confidence" in evaluation.images:
        hits = evaluation.images["rank"] == 0
        write_bytes(picture, _png(reliability_figure(evaluation.images["confidence"], hits, bins)))
        paths[FILES[3]] = picture
    elif os.path.exists(picture):
        os.remove(picture)  # of an evaluation before this one
    write_json(paths["evaluation.json"], {"config": config, **evaluation.metrics})
    return list(paths.values())


def write_predictions(path, evaluation):
    """Writes every image's answers: a CSV with the best ones by name, or an `.npz` with all scores.

    The arrays of the `.npz`: "place" (number in the data), "label", "predicted" (numbers of the data's classes, -1 for
    another), "rank", "top", "top_scores", "confidence" where classes have probabilities, "scores" (n, K), "file_name"
    where the data have file names, "class_names" (the data's) and "answer_names", which "top" points into.
    """
    images, names = evaluation.images, evaluation.file_names
    if path.endswith(".npz"):
        hidden = ("other_rank", "best", "nll", "brier")
        arrays = {name: values for name, values in images.items() if name not in hidden}
        if names is not None:
            arrays["file_name"] = np.array(names)
        buffer = io.BytesIO()
        np.savez_compressed(
            buffer,
            **arrays,
            class_names=np.array(evaluation.data_names),
            answer_names=np.array(evaluation.answer_names),
        )
        write_bytes(path, buffer.getvalue())
        return
    answers = range(1, images["top"].shape[1] + 1)
    head = ["image", "file_name", "label", "rank", "confidence"]
    head += [f"{kind}_{k}" for k in answers for kind in ("class", "score")]
    rows = []
    for k, label in enumerate(images["label"]):
        confidence = f"{images['confidence'][k]:.6g}" if "confidence" in images else ""
        row = [images["place"][k], "" if names is None else names[k], evaluation.data_names[label]]
        row += [images["rank"][k], confidence]
        for answer, score in zip(images["top"][k], images["top_scores"][k]):
            row += [evaluation.answer_names[answer], f"{score:.6g}"]
        rows.append(row)
    write_text(path, csv_text(head, rows))


def _class_rows(metrics):
    return [[row["name"], *("" if row[key] is None else row[key] for key in _COLUMNS)] for row in metrics["classes"]]


def _png(figure):
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=120)
    return buffer.getvalue()


def _accuracy(found):
    five = "" if found["top5"] is None else f", top-5 {100 * found['top5']:.2f} %"
    return f"top-1 {100 * found['top1']:.2f} %{five}"


def _percent(value):
    return "       -" if value is None else f"{100 * value:6.2f} %"
