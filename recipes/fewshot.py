"""Few-shot accuracy of a model's frozen features, by least squares (paper section 4.1).

    python -m recipes.fewshot --model runs/masked --data folder:my_photos
    python -m recipes.fewshot --model runs/photos --data digits --set layer=5 --set "shots=(1,5)"

For every number of shots, so many images of each class are drawn from the training part, once for each seed, and the
whole test part is classified. With `--workdir` the result is written to `fewshot.json` there.
"""

import dataclasses
import hashlib
import json
import os
import sys

import numpy as np

from . import cli, runner
from .config import ModelConfig
from .configs import FEWSHOT as CONFIGS
from .loading import frozen_model, image_size_of
from .override import as_dict
from .results_folder import results_folder
from .workdir import write_json

SHORTCUTS = {"data": "data.spec", "model": "checkpoint", "weights": "model.weights"}


def fewshot(config, device="auto"):
    """Runs one few-shot evaluation.

    Args:
        config: `FewshotConfig`.
        device: "auto" (default), "cpu", "gpu", "tpu" or "multiworker".

    Returns:
        dict: "features" (D), "count" (test images), "classes" and "shots": dict of number of shots -> dict with
        "mean", "std" (of the seeds) and "accuracies" (one a seed).

    Raises:
        ValueError: if no model is given, or a class has too few images.
    """
    from vitkeras import data, evaluation

    if config.checkpoint is None and config.model.weights is None:
        raise ValueError("--model is needed (a model.keras, workdir, checkpoint or weights file), or --weights.")
    choice = config.data
    splits = data.open_dataset(choice.spec, choice.on_bad_image, choice.test_fraction, limit=choice.limit)
    with runner.make_strategy(device).scope():
        model = frozen_model(config)
    model = evaluation.feature_model(model, None if config.layer == "head" else config.layer)
    classes = len(splits.class_names)
    support, chosen = _support(splits.train, config, splits.class_names)

    def features(images, part):
        more = {} if choice.preprocessing == "resize" else {"preprocessing": choice.preprocessing}
        size = image_size_of(model, choice)
        batches = data.eval_batches(images, config.batch_size, size, **more)
        key = [splits.name, part, images.num_examples, size, choice.preprocessing, choice.limit, choice.test_fraction]
        return evaluation.fewshot_features(model, batches, config.cache, json.dumps(key))

    digest = "all" if chosen is None else hashlib.sha256(chosen.tobytes()).hexdigest()
    train_x, train_y = features(support, f"train {digest}")
    test_x, test_y = features(splits.test, "test")
    shots = {}
    for count in config.shots:
        accuracies = []
        for seed in range(config.seeds):
            # The draw is made among all training images: with a part of them looked up, by their places there.
            labels = train_y if chosen is None else splits.train.labels
            drawn = evaluation.select_shots(labels, count, seed, classes)
            rows = drawn if chosen is None else np.searchsorted(chosen, drawn)
            accuracies.append(
                evaluation.fewshot_accuracy(train_x[rows], train_y[rows], test_x, test_y, config.l2_reg, classes)
            )
        shots[count] = {"mean": float(np.mean(accuracies)), "std": float(np.std(accuracies)), "accuracies": accuracies}
    return {"features": train_x.shape[1], "count": len(test_y), "classes": classes, "shots": shots}


def _support(images, config, names):
    """(the images that any draw takes, their sorted indices), or (all images, None) where labels aren't known yet."""
    from vitkeras import evaluation

    if images.labels is None:
        return images, None
    most = max(config.shots)
    for name, count in zip(names, np.bincount(images.labels, minlength=len(names)), strict=True):
        if count < most:
            raise ValueError(f"shots must be at most the {count} training images of class {name!r}, received {most}.")
    draws = [evaluation.select_shots(images.labels, most, seed, len(names)) for seed in range(config.seeds)]
    chosen = np.unique(np.concatenate(draws))
    return images.select(chosen, f"{len(chosen)} drawn"), chosen


def _smoke(config, folder):
    """The same evaluation of a random toy model on made-up images."""
    import vitkeras

    model = vitkeras.VisionTransformer((32, 48, 3), 16, 2, 24, 3, 48, classes=5)
    path = os.path.join(folder, "toy.keras")
    model.save(path)
    data = dataclasses.replace(config.data, spec="mock:32x48x5")
    return dataclasses.replace(config, data=data, model=ModelConfig(), checkpoint=path, shots=(1, 5), cache=None)


def _main(argv):
    parse = cli.parser(
        "Evaluate frozen features with few examples of each class.", CONFIGS, default="trained", trains=False
    )
    parse.add_argument("--model", metavar="PATH", help="model.keras, workdir, checkpoint or weights file (checkpoint)")
    parse.add_argument("--weights", metavar="W", help="weights of the configuration's own model (model.weights)")
    cli.report(parse, CONFIGS, SHORTCUTS, _smoke, _show, argv)


def _show(config, arguments):
    if not arguments.workdir:
        _say(fewshot(config, arguments.device), config)
        print()
        return
    with results_folder(arguments.workdir, ["fewshot.json"]):
        results = fewshot(config, arguments.device)
        _say(results, config)
        path = os.path.join(arguments.workdir, "fewshot.json")
        write_json(path, {"config": as_dict(config), **results})
        print(f"; {path} has every seed")


def _say(results, config):
    print("  shots    mean     std   (percent)")
    for count, row in results["shots"].items():
        print(f"  {count:5d}  {100 * row['mean']:6.2f}  {100 * row['std']:6.2f}")
    print(f"{config.seeds} seeds, {results['count']} test images, {results['features']} features", end="")


def main(argv=None):
    """Entry point of `vitkeras-fewshot`; returns the exit code."""
    return cli.run(_main, argv, "lower batch_size, as by --set batch_size=8")


if __name__ == "__main__":
    sys.exit(main())
