"""One evaluation: a model on all images of a part, measured.

Legend: n images, C classes that were evaluated, K outputs of the model.
"""

import sys
import time
from dataclasses import dataclass

import numpy as np

from vitkeras._optional import require
from vitkeras.evaluation import (
    calibration_error,
    class_table,
    confusion_matrix,
    most_confused,
    real_accuracy,
    reliability_bins,
)

from .class_map import class_map, imagenet_outputs
from .loading import own_size_or
from .measuring import TOP, Measures
from .predictors import open_predictor
from .real_file import read_real_labels, real_labels_of

MOST_IN_JSON = 100  # classes up to which the whole matrix is kept as text


@dataclass(frozen=True)
class Evaluation:
    """What was found.

    Attributes:
        metrics: dict of plain values, for JSON.
        matrix: int array (C, C), or (C, C + 1) where other answers were possible.
        class_names: tuple of C str.
        images: dict of arrays with a row for each image, from `Measures`; "scores" (n, K) where they were asked for.
        file_names: tuple of n str, or None where they are unknown or weren't asked for.
        answer_names: tuple of str that "top" of `images` points into.
        data_names: tuple of str that "label" and "predicted" point into, all classes of the data.
    """

    metrics: dict
    matrix: np.ndarray
    class_names: tuple
    images: dict
    file_names: tuple | None
    answer_names: tuple
    data_names: tuple


def run_evaluation(config, device="auto"):
    """Evaluates a model.

    Args:
        config: `EvaluateConfig`.
        device: as in `runner.make_strategy`, for Keras models.

    Returns:
        `Evaluation`.

    Raises:
        ValueError: if the model, the data or their classes do not fit.
    """
    from vitkeras import data

    from . import runner

    if not config.model:
        raise ValueError(
            "--model is needed: a model.keras, a run's workdir, a checkpoint folder, a weights file, a .tflite file "
            "or a SavedModel."
        )
    choice = config.data
    real = None if config.real_labels is None else read_real_labels(config.real_labels)
    splits = data.open_dataset(
        choice.spec, choice.on_bad_image, choice.test_fraction, dev_fraction=choice.dev_fraction, limit=choice.limit
    )
    parts = [splits.train, splits.test] if config.part == "all" else [getattr(splits, config.part)]
    if parts == [None]:
        raise ValueError("part=dev needs data.dev_fraction above 0, received 0.0.")
    predictor = open_predictor(
        config.model,
        config.ema,
        config.labels,
        config.head,
        config.input_values,
        config.num_threads,
        runner.make_strategy(device),
    )
    mapping = class_map(splits.class_names, predictor.class_names, predictor.outputs, config.label_map)
    measures = _measures(mapping, config.among, predictor)
    names = _file_names(parts) if real is not None or config.predictions else None
    if real is not None:
        outputs = imagenet_outputs(splits.class_names, predictor.class_names, mapping)
        real = [outputs[labels].tolist() for labels in real_labels_of(names, real)]
    size = own_size_or(predictor.size, choice)
    more = {} if choice.preprocessing == "resize" else {"preprocessing": choice.preprocessing}
    batches = [data.eval_batches(part, config.batch_size, size, **more) for part in parts]
    keeps = (config.predictions or "").endswith(".npz")
    start = time.perf_counter()
    images, left_out = _measured(predictor, measures, batches, sum(part.num_examples for part in parts), keeps, config)
    seconds = time.perf_counter() - start
    metrics = {
        "model": {"path": config.model, "kind": predictor.kind, "outputs": predictor.outputs, "head": predictor.head},
        "among": config.among,
        "images_per_second": (len(images["label"]) + left_out) / seconds,
        **_accuracies(images, measures, predictor.listed),
        "calibration": _calibration(images, config.bins),
        "left_out": {"classes": len(splits.class_names) - len(mapping.covered), "images": left_out},
        "unused_entries": list(mapping.unused),
    }
    if real is not None:
        accuracy, count = real_accuracy(images["best"], [real[k] for k in images["place"]])
        metrics["real"] = {"accuracy": accuracy, "count": count, "without_labels": len(images["best"]) - count}
    class_names = tuple(splits.class_names[k] for k in mapping.covered)
    matrix = _matrix(images, mapping, with_others=config.among == "model" and not mapping.is_whole)
    metrics |= _classes(matrix, class_names)
    if names is not None:
        names = tuple(names[k] for k in images["place"])
    answers = splits.class_names if config.among == "data" else _output_names(predictor, mapping, splits.class_names)
    return Evaluation(metrics, matrix, class_names, images, names, tuple(answers), splits.class_names)


def _measures(mapping, among, predictor):
    if among == "data" and predictor.head == "top_k":
        raise ValueError("among=data needs the scores of all classes, received a file that gives only the best.")
    if among == "data" and len(mapping.covered) < 2:
        raise ValueError("among=data needs at least 2 classes that the label map covers, received 1.")
    return Measures(mapping, among, predictor.head)


def _file_names(parts):
    names = [part.file_names() for part in parts]
    return None if None in names else sum(names, ())


def _measured(predictor, measures, batches, total, keeps_scores, config):
    """(arrays of all images, with "place", their number in the data; how many were left out)."""
    tqdm = require("tqdm", "tqdm", "an evaluation's progress bar").tqdm
    covered = np.isin(np.arange(len(measures.mapping.targets)), measures.mapping.covered)
    other, rows, seen = measures.other if predictor.head != "top_k" else None, [], 0
    bar = tqdm(total=total, desc="evaluating", unit=" images", leave=False, disable=not sys.stderr.isatty())
    with bar:
        for pixels, label, weight in (batch for part in batches for batch in part):
            kept = weight.numpy() > 0
            labels, place = label.numpy()[kept], seen + np.arange(kept.sum())
            seen += len(place)
            if covered[labels].any():  # a batch without any answers nothing
                scores = predictor.scores(pixels)[kept]
                bad = ~np.isfinite(scores).all(axis=1)
                if bad.any():
                    raise ValueError(
                        f"--model {config.model} must give finite scores, received nan or inf for {bad.sum()} of "
                        f"{len(bad)} images, the first is image {place[bad][0]} of the data."
                    )
                chosen = covered[labels]
                scores, labels = scores[chosen], labels[chosen]
                row = measures(scores, labels) | {"place": place[chosen]}
                if other is not None:
                    row["other_rank"] = other.ranks(scores, labels)
                if keeps_scores:
                    row["scores"] = scores
                rows.append(row)
            bar.update(len(place))
    if not rows:
        raise ValueError("the label map must cover a class that has images, received none.")
    arrays = {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}
    return arrays, seen - len(arrays["label"])


def _accuracies(images, measures, listed):
    def top(ranks, choices):
        most = choices if listed is None else listed + 1  # of a file that lists five, the fifth is known
        return {
            "top1": float((ranks == 0).mean()),
            "top5": float((ranks < TOP).mean()) if choices > TOP and most > TOP else None,
        }

    found = top(images["rank"], measures.choices) | {"count": len(images["label"]), "choices": measures.choices}
    if "other_rank" in images:
        other = measures.other
        among = {"among": other.among, "choices": other.choices}
        found["other_choice"] = among | top(images["other_rank"], other.choices)
    return found


def _calibration(images, bins):
    """None where the classes have no probabilities."""
    if "confidence" not in images:
        return None
    confidences, hits = images["confidence"], images["rank"] == 0
    table = reliability_bins(confidences, hits, bins)
    return {
        "ece": calibration_error(confidences, hits, bins),
        "ece_adaptive": calibration_error(confidences, hits, bins, adaptive=True),
        "nll": float(images["nll"].mean()),
        "brier": float(images["brier"].mean()),
        "mean_confidence": float(confidences.mean()),
        "bins": [dict(zip(table, map(plain, values))) for values in zip(*table.values())],
    }


def _matrix(images, mapping, with_others):
    labels = np.searchsorted(mapping.covered, images["label"])
    predicted = images["predicted"]
    predicted = np.where(predicted < 0, -1, np.searchsorted(mapping.covered, predicted))
    return confusion_matrix(labels, predicted, len(mapping.covered), with_others)


def _classes(matrix, names):
    table = class_table(matrix)
    rows = [{"name": name} | {key: plain(table[key][k]) for key in table} for k, name in enumerate(names)]
    columns = [*names, None]  # None: another class of the model
    pairs = [
        {"label": names[i], "predicted": columns[j], "count": count, "share": share}
        for i, j, count, share in most_confused(matrix, 50)
    ]
    found = {
        "mean_class_accuracy": float(np.nanmean(table["accuracy"])),
        "classes": rows,
        "most_confused": pairs,
    }
    return found | ({"confusion": matrix.tolist()} if len(names) <= MOST_IN_JSON else {})


def _output_names(predictor, mapping, data_names):
    if predictor.class_names:
        return predictor.class_names
    return [data_names[owner] if owner >= 0 else str(k) for k, owner in enumerate(mapping.owners)]


def plain(value):
    """int, float, or None for NaN."""
    value = value.item()
    return None if value != value else value
