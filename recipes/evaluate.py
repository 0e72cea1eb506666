"""Evaluates a trained model on any labelled images: accuracy, every class, confusions and calibration.

    python -m recipes.evaluate --model runs/photos --data folder:more_photos --workdir runs/photos/more
    python -m recipes.evaluate --model photos.tflite --data folder:more_photos
    python -m recipes.evaluate --config resize_crop --model runs/b16/checkpoints/ckpt-5000 --data tfds:imagenet_v2
    python -m recipes.evaluate --model vit_b16.npz --data folder:val --set part=all --real-labels real.json

`--model` takes a `model.keras`, a run's workdir, a checkpoint folder, a file of another layout that
`vitkeras.from_checkpoint` takes, a `.tflite` file, or the folder of a SavedModel. With `--workdir` tables and pictures
are written there. docs/evaluation.md says what each number is.
"""

import contextlib
import dataclasses
import os
import sys

from vitkeras._optional import require

from . import cli
from .configs import EVALUATE as CONFIGS
from .evaluation_report import FILES, as_text, last_line, write_predictions, write_report
from .evaluation_run import run_evaluation
from .override import as_dict
from .results_folder import results_folder

SHORTCUTS = {
    "data": "data.spec",
    "model": "model",
    "labels": "labels",
    "label_map": "label_map",
    "real_labels": "real_labels",
    "predictions": "predictions",
}


def evaluate(config, device="auto"):
    """Runs one evaluation.

    Args:
        config: `EvaluateConfig`.
        device: "auto" (default), "cpu", "gpu", "tpu" or "multiworker"; for Keras models.

    Returns:
        dict, among others: "top1", "top5" (None for 5 classes or fewer), "count", "mean_class_accuracy", "classes":
        list of dicts with "name", "count", "predicted", "accuracy", "precision", "recall" and "f1" (None where there is
        nothing to divide by), "calibration": dict with "ece", "ece_adaptive", "nll", "brier" and "bins" (or None), and
        "real" where ImageNet-ReaL's labels are given.

    Raises:
        ValueError: if the model's and the data's classes do not fit.
    """
    return run_evaluation(config, device).metrics


def _main(argv):
    parse = cli.parser("Evaluate a trained model.", CONFIGS, default="original", trains=False)
    parse.add_argument("--model", metavar="PATH", help="model.keras, workdir, checkpoint, weights, .tflite, SavedModel")
    parse.add_argument("--labels", metavar="FILE", help="names of the model's outputs, one a line (labels)")
    parse.add_argument("--label-map", metavar="JSON", help="the data's classes to the model's outputs (label_map)")
    parse.add_argument("--real-labels", metavar="JSON", help="ImageNet-ReaL's real.json (real_labels)")
    parse.add_argument("--predictions", metavar="FILE", help="every image's answers, .csv or .npz (predictions)")
    cli.report(parse, CONFIGS, SHORTCUTS, _smoke, _show, argv)


def _smoke(config, folder):
    """The same evaluation of a random toy model on made-up images."""
    import vitkeras

    path = os.path.join(folder, "toy.keras")
    vitkeras.VisionTransformer((32, 48, 3), 16, 1, 24, 3, 48, classes=6).save(path)
    return dataclasses.replace(config, data=dataclasses.replace(config.data, spec="mock:32x48x6"), model=path)


def _show(config, arguments):
    with contextlib.ExitStack() as folders:
        if arguments.workdir:
            folders.enter_context(results_folder(arguments.workdir, FILES))
            require("matplotlib.figure", "Matplotlib", "the pictures of an evaluation")  # drawn at the end: too late
        if config.predictions:
            folder, name = os.path.split(os.path.abspath(config.predictions))
            folders.enter_context(results_folder(folder, [name], "--predictions"))
        _run(config, arguments)


def _run(config, arguments):
    evaluation = run_evaluation(config, arguments.device)
    written = []
    if arguments.workdir:
        written = write_report(arguments.workdir, as_dict(config), evaluation, config.bins)
    if config.predictions:
        write_predictions(config.predictions, evaluation)
        written.append(config.predictions)
    print(as_text(evaluation.metrics))
    print(last_line(evaluation.metrics, written))


def main(argv=None):
    """Entry point of `vitkeras-evaluate`; returns the exit code."""
    return cli.run(_main, argv, "lower batch_size, as by --set batch_size=8")


if __name__ == "__main__":
    sys.exit(main())
