"""Fine-tunes a Vision Transformer on labelled images (paper section 3.2 and appendix B.1.1).

    python -m recipes.finetune --config photos --data folder:my_photos --workdir runs/photos

The run's folder gets `model.keras`, `classes.txt`, `metrics.json`, `config.json`, `log.csv`, `curve.png` and
`tensorboard/`.
"""

import inspect
import json
import os
import sys

from . import cli
from .config import ModelConfig, as_dict
from .configs.finetune import CONFIGS

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
ARCHITECTURE = (
    "patch_size",
    "num_layers",
    "hidden_dim",
    "num_heads",
    "mlp_dim",
    "activation",
    "classifier",
    "dropout_rate",
)
SHORTCUTS = {"data": "data.spec", "weights": "model.weights", "on_bad_image": "data.on_bad_image"}


def finetune(config, workdir):
    """Runs one fine-tuning.

    Args:
        config: `FinetuneConfig`.
        workdir: str, existing folder for the results.

    Returns:
        dict: "accuracy", "loss" and "count" on the test part, "steps", "images_per_second".

    Raises:
        ValueError: for a setting that does not fit the data or the model.
        vitkeras.training.TrainingError: if the loss stops being finite; the step is named.
    """
    import keras

    from vitkeras import data, training

    keras.utils.set_random_seed(config.train.seed)
    splits = data.open_dataset(
        config.data.spec,
        on_bad_image=config.data.on_bad_image,
        test_fraction=config.data.test_fraction,
        seed=config.train.seed,
    )
    train = config.train
    if train.batch_size > splits.train.num_examples:
        raise ValueError(
            f"train.batch_size must be at most the {splits.train.num_examples} training images, "
            f"received {train.batch_size}."
        )
    steps = train.steps or max(1, round(train.epochs * splits.train.num_examples / train.batch_size))
    model = build_model(config, len(splits.class_names))
    schedule = training.WarmupDecay(
        config.optimizer.learning_rate,
        total_steps=steps,
        warmup_steps=steps // 10 if config.optimizer.warmup_steps is None else config.optimizer.warmup_steps,
        decay=config.optimizer.decay,
    )
    optimizer = training.make_optimizer(
        config.optimizer.name,
        schedule,
        momentum=config.optimizer.momentum,
        weight_decay=config.optimizer.weight_decay,
        clip_norm=config.optimizer.clip_norm,
    )
    engine = training.Engine(model, optimizer, accumulate=train.accumulate)
    batches = data.train_batches(
        splits.train,
        train.batch_size,
        config.data.image_size,
        seed=train.seed,
        crop_area=config.data.crop_area,
        flip=config.data.flip,
    )
    test = data.eval_batches(splits.test, train.batch_size, config.data.image_size)
    print(
        f"{splits.name}: {splits.train.num_examples} training and {splits.test.num_examples} test images, "
        f"{len(splits.class_names)} classes; {model.name}: {model.count_params():,} parameters; {steps} steps.",
        file=sys.stderr,
    )
    with training.RunLog(workdir, steps, train.batch_size) as log:
        metrics = _train(engine, batches, test, steps, train, log)
    return {**metrics, "steps": steps, "parameters": model.count_params()}, model, splits.class_names


def build_model(config, classes):
    """Builds the model of a `FinetuneConfig` with a zero head of `classes`, and loads its weights."""
    import keras

    from vitkeras import models
    from vitkeras.models.weights import find_weights, load_weights

    choice = config.model
    overrides = _architecture(choice)
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16" if config.train.mixed_precision else "float32")
    try:
        model = models.build_variant(
            choice.variant,
            input_shape=(*config.data.image_size, 3),
            classes=classes,
            classifier_activation=None,
            **overrides,
        )
    finally:
        keras.config.set_dtype_policy(policy)
    if choice.weights is not None:
        weights = find_weights(choice.weights, choice.variant, config.data.image_size[0]) or choice.weights
        normalisation = {"original": (None, None), "imagenet": (IMAGENET_MEAN, IMAGENET_STD)}
        if choice.weights_input not in normalisation:
            raise ValueError(
                f"model.weights_input must be one of {tuple(normalisation)}, received {choice.weights_input!r}."
            )
        mean, std = normalisation[choice.weights_input]
        load_weights(model, weights, include_top=False, input_mean=mean, input_std=std)
    return model


def _architecture(choice):
    """Returns what a `ModelConfig` says of the architecture, for a variant whose family may lack some of it."""
    from vitkeras import models

    if choice.variant not in models.VARIANTS:
        return {}  # refused, with the nearest names, by whatever builds it
    parameters = inspect.signature(models.VARIANTS[choice.variant].builder).parameters
    given = {}
    for key in ARCHITECTURE:
        value = getattr(choice, key)
        if value is None:
            continue
        if key in parameters:
            given[key] = value
        elif value != getattr(ModelConfig, key):
            raise ValueError(f"model.{key} is not for model.variant={choice.variant}, received {value!r}.")
    return given


def _train(engine, batches, test, steps, train, log):
    """Runs the steps in chunks that end where something is logged or evaluated."""
    iterator = engine.iterator(batches)
    evaluate_every = train.evaluate_every or steps
    while engine.step < steps:
        step = engine.step
        end = min(steps, *(step - step % every + every for every in (train.log_every, evaluate_every)))
        result = engine.run(iterator, end - step)
        log.train(end, result["loss"].mean().item(), result["accuracy"].mean().item(), engine.learning_rate(end - 1))
        if end % evaluate_every == 0 or end == steps:
            metrics = engine.evaluate(test)
            log.evaluation(end, metrics["loss"], metrics["accuracy"])
    return metrics


def save(workdir, model, class_names, metrics):
    """Writes the results of a run, each under a temporary name first."""
    from vitkeras.training.logs import plot_log

    path = os.path.join(workdir, "model.keras")
    partial = os.path.join(workdir, "model.part.keras")
    model.save(partial)
    os.replace(partial, path)
    names = os.path.join(workdir, "classes.txt")
    with open(names + ".part", "w", encoding="utf-8") as file:
        file.write("\n".join(class_names) + "\n")
    os.replace(names + ".part", names)
    cli.write_json(os.path.join(workdir, "metrics.json"), metrics)
    plot_log(os.path.join(workdir, "log.csv"), os.path.join(workdir, "curve.png"))


def _main(argv):
    parse = cli.parser("Fine-tune a Vision Transformer on labelled images.", CONFIGS)
    parse.add_argument("--weights", metavar="W", help="published name or .npz path (model.weights)")
    parse.add_argument("--on-bad-image", choices=("refuse", "skip"), help="unreadable images (data.on_bad_image)")
    arguments = parse.parse_args(argv)
    config = cli.resolve(arguments, CONFIGS, SHORTCUTS)
    if arguments.dump_config:
        print(json.dumps(as_dict(config), indent=1))
        return
    if not config.data.spec:
        raise ValueError("--data is needed: folder:PATH, tfds:NAME or digits.")
    cli.prepare_workdir(arguments.workdir, config, arguments.overwrite)
    metrics, model, class_names = finetune(config, arguments.workdir)
    save(arguments.workdir, model, class_names, metrics)
    print(
        f"test accuracy {100 * metrics['accuracy']:.2f} % of {metrics['count']} images; "
        f"model.keras, classes.txt, metrics.json, log.csv and curve.png are in {arguments.workdir}"
    )


def main(argv=None):
    """Entry point of `vitkeras-finetune`; returns the exit code."""
    return cli.run(_main, argv)


if __name__ == "__main__":
    sys.exit(main())
