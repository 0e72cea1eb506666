"""Fine-tunes a trained classifier for int8: it computes as its file will, and learns to answer as it did before.

    python -m recipes.qat --config photos --model runs/photos --data folder:my_photos --workdir runs/photos_int8
    vitkeras-export --model runs/photos_int8/model.keras --ranges runs/photos_int8/ranges.json --preset qat_int8 ...

The model is rebuilt by `vitkeras.export.prepare_qat`, the ranges of its activations are read from training images, and
it is distilled from the float model. The run's folder gets what fine-tuning writes and `ranges.json`; `model.keras` is
a float model whose kernels hold int8 values. The same command again goes on from the last checkpoint.
"""

import dataclasses
import os
import sys

from . import cli, runner
from .building import build_model, build_optimizer
from .configs import QAT as CONFIGS
from .loading import load_model
from .workdir import write_json

LEARN_FROM = 16  # images: each is computed some forty times
SHORTCUTS = {"data": "data.spec", "model": "qat.model", "on_bad_image": "data.on_bad_image"}


def quantization_aware_finetune(config, workdir, device="auto"):
    """Runs one quantization-aware fine-tuning.

    Args:
        config: `QatConfig`.
        workdir: str, existing folder for the results.
        device: "auto" (default), "cpu", "gpu", "tpu" or "multiworker".

    Returns:
        dict, see `runner.run`; its accuracies are those of the rounded model.

    Raises:
        ValueError: if the model doesn't fit the data or quantization-aware training.
    """
    from vitkeras import export

    strategy = runner.make_strategy(device)
    splits = runner.open_splits(config)
    ranges = {}

    def build(config, steps, strategy):
        return _build(config, splits, steps, strategy)

    def result(model):
        baked = export.baked_model(model)
        ranges.update(export.ranges_record(model, baked))
        return baked

    problem = dataclasses.replace(
        runner.classification(config, splits),
        build=build,
        result=result,
        write=lambda model, folder: write_json(os.path.join(folder, "ranges.json"), ranges),
    )
    return runner.run(config, problem, workdir, strategy)


def _build(config, splits, steps, strategy):
    """The engine: student rounded, teacher as it was loaded."""
    import keras

    from vitkeras import data, export, preprocess_input, training

    choice, train = config.qat, config.train
    images, _ = data.raw_images(
        runner.train_images(splits, config), config.data.image_size, limit=choice.calibration_images
    )
    keras.utils.set_random_seed(train.seed)
    with strategy.scope():
        teacher = _teacher(config, splits)
        inputs = preprocess_input(images.astype("float32"))
        student = export.prepare_qat(teacher, inputs, batch_size=train.batch_size, float_mix=choice.float_mix)
        if choice.learn_ranges:
            export.learn_ranges(student, inputs[:LEARN_FROM], batch_size=train.batch_size)
        optimizer = build_optimizer(config, steps)
        labels = training.Classification(config.loss.name, config.loss.label_smoothing)
        task = training.Distillation(teacher, choice.alpha, choice.distance, choice.temperature, labels)
    return training.Engine(
        student,
        optimizer,
        strategy,
        accumulate=train.accumulate,
        task=task,
        seed=train.seed,
        remat=train.remat,
        jit_compile=train.jit_compile,
    )


def _teacher(config, splits):
    path = config.qat.model
    if path == "random":
        return build_model(config, len(splits.class_names))
    model, names = load_model(path)
    if names and tuple(names) != tuple(splits.class_names):
        raise ValueError(
            f"the data's classes must be those of --model {path}, received {list(splits.class_names)[:5]}."
        )
    if model.output_shape[-1] != len(splits.class_names):
        raise ValueError(
            f"the data must have the {model.output_shape[-1]} classes of --model {path}, "
            f"received {len(splits.class_names)}."
        )
    if tuple(model.input_shape[1:3]) != tuple(config.data.image_size):
        raise ValueError(
            f"data.image_size must be {tuple(model.input_shape[1:3])}, that of --model {path}, "
            f"received {config.data.image_size}."
        )
    return model


def _main(argv):
    parse = cli.parser("Fine-tune a trained classifier for int8, distilled from itself.", CONFIGS)
    parse.add_argument("--model", metavar="PATH", help="trained model: a run's workdir or model.keras (qat.model)")
    parse.add_argument("--on-bad-image", choices=("refuse", "skip"), help="unreadable images (data.on_bad_image)")

    def execute(config, workdir, arguments):
        if not config.qat.model:
            raise ValueError("--model is needed: a run's workdir or model.keras.")
        return quantization_aware_finetune(config, workdir, arguments.device)

    cli.launch("qat", parse, CONFIGS, SHORTCUTS, execute, argv)


def main(argv=None):
    """Entry point of `vitkeras-qat`; returns the exit code."""
    return cli.run(_main, argv)


if __name__ == "__main__":
    sys.exit(main())
