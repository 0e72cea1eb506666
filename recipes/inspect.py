"""Looks inside a model: what it attends to in your photos, what it has learned, and what it costs, as one HTML page.

    python -m recipes.inspect --model runs/photos --image rose.jpg tulip.jpg --out report.html
    python -m recipes.inspect --model vit_s14.npz --activation gelu --weights-input imagenet --image rose.jpg \\
        --out report.html

`--model` takes a `model.keras`, a run, a checkpoint or a weights file. The page holds its pictures and needs no
network; the same numbers are written beside it as `report.json`. Photos of any size and mode
are resized as for evaluation.
"""

import argparse
import json
import os
import shlex
import sys
from dataclasses import dataclass

from . import cli

DESCRIPTION = "Look inside a model: attention, position embeddings, filters and cost, as one HTML page."
DIGITS = 6  # of the numbers in report.json
IMAGE_SIZE = (224, 224)  # for models of any size


@dataclass(frozen=True)
class Report:
    """What the page and `report.json` are made of.

    Attributes:
        facts: dict, what the model is.
        looks: list of `inspect_numbers.Look`, one a photo.
        filters: array (count, P, P, C), principal components of the first kernel.
        similarities: dict of title -> what `position_similarity` gives: none, one, or the first and the last.
        distances: array (L, H), the mean of the photos.
        cost: `vitkeras.analysis.Cost`, or None with `cost_fault`, a sentence.
        cost_fault: str or None.
        command: str.
        versions: dict of package -> version.
    """

    facts: dict
    looks: list
    filters: object
    similarities: dict
    distances: object
    cost: object
    cost_fault: str | None
    command: str
    versions: dict


def inspect(model, path, photos, names=(), command="recipes.inspect", input_values="scaled"):
    """Computes what a report shows.

    Args:
        model: a `keras.Model` of known input size.
        path: str, where it was loaded from.
        photos: list of `inspect_numbers.Photo`.
        names: the model's classes, or () where they are unknown.
        command: str, what the report says it was made by.
        input_values: "scaled" (default), the model takes -1...1, or "pixels", 0...255.

    Returns:
        `Report`.

    Raises:
        ValueError: if the model has no attention over a patch grid.
    """
    import keras

    import vitkeras
    from vitkeras.analysis import embedding_filters, flops

    from .inspect_numbers import facts, look

    looks = [look(model, photo, names, input_values) for photo in photos]
    cost, fault = None, None
    try:
        cost = flops(model)
    except ValueError as error:  # a model of other layers than ours: the page says why there is no table
        fault = str(error)
    found, grid = facts(model, path), looks[0].last.shape
    height, width = found["image size"]
    found |= {"grid": list(grid), "patch size": [height / grid[0], width / grid[1]]}
    versions = {"vitkeras": vitkeras.__version__, "keras": keras.__version__}
    distances = sum(look.distances for look in looks) / len(looks)
    filters, similarities = embedding_filters(model), _similarities(model)
    return Report(found, looks, filters, similarities, distances, cost, fault, command, versions)


def _similarities(model):
    from vitkeras.analysis import position_similarity
    from vitkeras.analysis.embeddings import position_layers

    count, title = len(position_layers(model)), "position embedding similarity"
    if count < 2:
        return {title: position_similarity(model)} if count else {}
    return {f"{title}, {n} of {count}": position_similarity(model, n - 1) for n in (1, count)}


def as_json(report):
    """Returns the numbers of a `Report` as values for `json`."""
    cost = report.cost
    return {
        "model": report.facts,
        "distances": _numbers(report.distances),
        "images": [
            {
                "path": look.photo.path,
                "size": list(look.photo.pixels.shape[:2]),
                "predictions": [dict(zip(("class", "name", "probability"), row)) for row in look.predictions],
                "rollout": {kind: _numbers(heat) for kind, heat in look.rollouts.items()},
                "rollout_by_layer": [_numbers(heat) for heat in look.steps],
                "last_layer": _numbers(look.last),
                "heads": _numbers(look.heads),
                "distances": _numbers(look.distances),
            }
            for look in report.looks
        ],
        "cost": {"parameters": cost.parameters, "macs": cost.macs, "macs_by_kind": cost.by_kind, "flops": cost.flops}
        if cost
        else {"fault": report.cost_fault},
        "command": report.command,
        "versions": report.versions,
    }


def _numbers(array):
    if array.ndim:
        return [_numbers(row) for row in array]
    return float(f"{array:.{DIGITS}g}")


def main(argv=None):
    """Entry point of `vitkeras-inspect`; returns the exit code."""
    return cli.run(_main, argv, "lower --image-size")


def _main(argv):
    parse = argparse.ArgumentParser(prog=cli.called(sys.argv[0]), description=DESCRIPTION)
    parse.add_argument(
        "--model", required=True, metavar="PATH", help="model.keras, workdir, checkpoint folder or weights file"
    )
    parse.add_argument("--image", required=True, nargs="+", metavar="FILE", help="photos of any size")
    parse.add_argument("--out", required=True, metavar="FILE.html", help="the page; FILE.json gets the numbers")
    parse.add_argument("--overwrite", action="store_true", help="replace both files if they are there")
    parse.add_argument("--labels", metavar="FILE", help="names of the classes, one a line (default: the run's)")
    parse.add_argument("--image-size", metavar="SIDE", help="pixels, or HEIGHTxWIDTH (default: the model's own)")
    parse.add_argument("--ema", action="store_true", help="take a checkpoint's averaged weights")
    parse.add_argument("--activation", choices=("gelu", "gelu_tanh"), help="of a weights file that doesn't tell it")
    parse.add_argument(
        "--weights-input",
        choices=("original", "imagenet"),
        help="of a weights file: -1...1 (default), or ImageNet's mean and standard deviation",
    )
    parse.add_argument(
        "--input-values",
        choices=("pixels", "scaled"),
        help="of a model that scales its input itself: 0...255 or -1...1 (default for all others)",
    )
    parse.add_argument("--debug", action="store_true", help="show the traceback of an error")
    arguments = parse.parse_args(argv)
    from vitkeras.export.files import written_aside

    from .inspect_numbers import read_photo
    from .inspect_page import page

    beside = _outputs(arguments)
    photos = [read_photo(path) for path in arguments.image]
    model, names = _load(arguments)
    command = shlex.join(["python", "-m", "recipes.inspect", *argv])
    report = inspect(model, arguments.model, photos, names, command, arguments.input_values or "scaled")
    html = page(report)
    with written_aside(arguments.out) as html_path, written_aside(beside) as json_path:
        with open(html_path, "w", encoding="utf-8") as file:
            file.write(html)
        with open(json_path, "w", encoding="utf-8") as file:
            json.dump(as_json(report), file)
    for look in report.looks:
        best = "".join(f", {name} {100 * p:.1f} %" for _, name, p in look.predictions[:1])
        print(f"  {look.photo.path}{best}")
    print(f"{arguments.out}: {len(html) / 1e6:.1f} MB, opens in any browser; {beside} has the numbers")


def _outputs(arguments):
    """Path of the numbers' file; both paths are checked."""
    from vitkeras.export.files import check_output

    stem, suffix = os.path.splitext(arguments.out)
    if suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"--out must be a name that ends in .html, received {arguments.out!r}.")
    for path in (arguments.out, f"{stem}.json"):
        if os.path.isdir(path):
            raise ValueError(f"--out must be a file, {path!r} is a folder.")
        check_output(path, arguments.overwrite)
    return f"{stem}.json"


def _load(arguments):
    """(model of known input size, names of its classes)."""
    import vitkeras
    from vitkeras.models.own_scaling import scaling_operation

    from .building import IMAGENET_MEAN, IMAGENET_STD
    from .cost import sides_of
    from .inspect_numbers import head_layer
    from .loading import load_model
    from .predictors import read_names

    reading = {} if arguments.activation is None else {"activation": arguments.activation}
    if arguments.weights_input == "imagenet":
        reading |= {"input_mean": IMAGENET_MEAN, "input_std": IMAGENET_STD}
    size = None if arguments.image_size is None else sides_of(arguments.image_size, "--image-size")
    labels = None if arguments.labels is None else read_names(arguments.labels)
    model, names = load_model(arguments.model, arguments.ema, **reading)
    if labels is not None and head_layer(model) is None:
        raise ValueError(f"--labels are for models with a head, received {arguments.model!r}, which gives features.")
    scaling = scaling_operation(model)
    if scaling is not None and arguments.input_values is None:
        raise ValueError(
            f"--model {arguments.model} scales its input by the layer {scaling!r}; add --input-values pixels (0...255) "
            "or scaled (-1...1)."
        )
    names = names if labels is None else labels
    if size is None and None in model.input_shape[1:3]:
        size = IMAGE_SIZE
    if size is not None and size != model.input_shape[1:3]:
        model = vitkeras.at_resolution(model, size)
    return model, names


if __name__ == "__main__":
    sys.exit(main())
