"""Evaluates a trained model on any labelled images: top-1, top-5 and every class.

    python -m recipes.evaluate --model runs/photos --data folder:more_photos
    python -m recipes.evaluate --config resize_crop --model runs/b16/checkpoints/ckpt-5000 --data tfds:imagenet_v2

`--model` takes a `model.keras`, a run's workdir, a checkpoint folder, or a file of another layout that
`vitkeras.from_checkpoint` takes. With `--workdir` the result is written to `evaluation.json` there.
"""

import dataclasses
import json
import os
import sys
import tempfile

import numpy as np

from vitkeras._data_sources import LISTED

from . import cli, runner
from .configs import EVALUATE as CONFIGS
from .loading import image_size_of, load_model
from .override import as_dict
from .workdir import make_folder, write_json

SHORTCUTS = {"data": "data.spec", "model": "model"}


def evaluate(config, device="auto"):
    """Runs one evaluation.

    Args:
        config: `EvaluateConfig`.
        device: "auto" (default), "cpu", "gpu", "tpu" or "multiworker".

    Returns:
        dict: "top1", "top5" (None for 5 classes or fewer), "count", "classes": list of dicts with "name", "accuracy",
        "count"; classes without an image have accuracy None.

    Raises:
        ValueError: if the model's and the data's classes do not fit.
    """
    from vitkeras import data
    from vitkeras._tensorflow import tf

    if not config.model:
        raise ValueError("--model is needed: a model.keras, a run's workdir, a checkpoint folder or a weights file.")
    choice = config.data
    splits = data.open_dataset(
        choice.spec, choice.on_bad_image, choice.test_fraction, dev_fraction=choice.dev_fraction, limit=choice.limit
    )
    images = getattr(splits, config.part)
    if images is None:
        raise ValueError("part=dev needs data.dev_fraction above 0, received 0.0.")
    with runner.make_strategy(device).scope():
        model, names = load_model(config.model, config.ema)
    labels = label_map(splits.class_names, names, model.output_shape[-1])
    more = {} if choice.preprocessing == "resize" else {"preprocessing": choice.preprocessing}
    predict = tf.function(lambda x: model(x, training=False))
    ranks, truth = [], []
    for pixels, label, weight in data.eval_batches(images, config.batch_size, image_size_of(model, choice), **more):
        kept = weight.numpy() > 0
        scores, target = predict(pixels).numpy().astype("float32")[kept], labels[label.numpy()[kept]]
        own = np.take_along_axis(scores, target[:, None], axis=1)
        ranks.append((scores > own).sum(axis=1))  # 0: the label has the highest score
        truth.append(label.numpy()[kept])
    ranks, truth = np.concatenate(ranks), np.concatenate(truth)
    classes = []
    for k, name in enumerate(splits.class_names):
        hits = ranks[truth == k] == 0
        classes.append({"name": name, "accuracy": float(hits.mean()) if hits.size else None, "count": int(hits.size)})
    top5 = float((ranks < 5).mean()) if model.output_shape[-1] > 5 else None
    return {"top1": float((ranks == 0).mean()), "top5": top5, "count": int(ranks.size), "classes": classes}


def label_map(data_names, model_names, outputs):
    """int array, the model's output for each of the data's labels: by class name where the model's are known.

    Example:
        >>> label_map(("elm", "ash"), ("ash", "beech", "elm"), 3)
        array([2, 0])
    """
    if model_names:
        unknown = [name for name in data_names if name not in model_names]
        if unknown:
            some = ", ".join(unknown[:5])
            raise ValueError(f"the data's classes must be among the model's {len(model_names)}, received also {some}.")
        return np.array([model_names.index(name) for name in data_names])
    if len(data_names) != outputs:
        raise ValueError(f"the data must have the model's {outputs} classes, received {len(data_names)}.")
    return np.arange(outputs)


def _main(argv):
    parse = cli.parser("Evaluate a trained model.", CONFIGS, default="original", trains=False)
    parse.add_argument("--model", metavar="PATH", help="model.keras, workdir, checkpoint or weights file (model)")
    arguments = parse.parse_args(argv)
    config = cli.resolve(arguments, CONFIGS, SHORTCUTS)
    if arguments.dump_config:
        print(json.dumps(as_dict(config), indent=1))
        return
    if arguments.smoke:
        with tempfile.TemporaryDirectory() as folder:
            _show(_smoke(config, folder), arguments)
        return
    if not config.data.spec:
        raise ValueError(f"--data is needed: {LISTED}.")
    _show(config, arguments)


def _smoke(config, folder):
    """The same evaluation of a random toy model on made-up images."""
    import vitkeras

    path = os.path.join(folder, "toy.keras")
    vitkeras.VisionTransformer((32, 48, 3), 16, 1, 24, 3, 48, classes=6).save(path)
    return dataclasses.replace(config, data=dataclasses.replace(config.data, spec="mock:32x48x6"), model=path)


def _show(config, arguments):
    if arguments.workdir:
        make_folder(arguments.workdir)
    metrics = evaluate(config, arguments.device)
    for row in metrics["classes"]:
        if row["count"]:
            print(f"  {row['name']:30s} {100 * row['accuracy']:6.2f} % of {row['count']}")
    top5 = "" if metrics["top5"] is None else f", top-5 {100 * metrics['top5']:.2f} %"
    print(f"top-1 {100 * metrics['top1']:.2f} %{top5} of {metrics['count']} images", end="")
    if arguments.workdir:
        path = os.path.join(arguments.workdir, "evaluation.json")
        write_json(path, {"config": as_dict(config), **metrics})
        print(f"; {path} has every class", end="")
    print()


def main(argv=None):
    """Entry point of `vitkeras-evaluate`; returns the exit code."""
    return cli.run(_main, argv)


if __name__ == "__main__":
    sys.exit(main())
