"""One training of any recipe: data, engine, loop, results. It goes on from a checkpoint by itself.

A recipe describes what is particular to it as a `Problem`; pre-training, fine-tuning and VTAB share `classification`.
"""

import contextlib
import dataclasses
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from vitkeras._data_sources import LISTED

from .building import build_engine
from .override import as_dict, defaults_of
from .workdir import discard_aside, write_json, write_text


class Stopped(Exception):
    """A signal ended the run after a checkpoint; the message is the run's last line."""


@dataclass(frozen=True)
class Problem:
    """What one training trains on.

    Attributes:
        name: str, of the data.
        num_examples: int, training images; an epoch's length.
        counts: dict of split -> int, the images of each evaluation.
        class_names: tuple of str, or () for a task without classes.
        batches: function (start_step, num_hosts=1, host=0) -> `tf.data.Dataset` of training batches.
        evaluations: dict of split -> `tf.data.Dataset`, evaluated while training and at its end.
        build: function (config, steps, strategy) -> `Engine`.
        final: the same as `evaluations`, evaluated once at the end.
        result: function of the trained model that returns what `model.keras` gets, such as a backbone alone; None for
            the model as it is.
        write: function (result, workdir) that writes more results, each under a temporary name first; only one of
            several workers calls it. None for no more.
    """

    name: str
    num_examples: int
    counts: dict
    class_names: tuple
    batches: Callable
    evaluations: dict
    build: Callable
    final: dict = field(default_factory=dict)
    result: Callable | None = None
    write: Callable | None = None


def make_strategy(device):
    """The `tf.distribute` strategy of `--device`; TensorFlow is imported only now."""
    from vitkeras.training.devices import make_strategy

    return make_strategy(device)


def open_splits(config, opened=None):
    """Opens the data set of a configuration, or takes the dev part and the limit from one that is `opened` already."""
    from vitkeras import data

    choice = config.data
    if opened is not None:
        train = opened.train if choice.limit is None else opened.train.first(choice.limit, config.train.seed)
        rest, dev = train, None
        if choice.dev_fraction:
            rest, dev = train.hold_out(choice.dev_fraction, config.train.seed, stratified=choice.limit is None)
        return dataclasses.replace(opened, train=train, dev=dev, train_without_dev=rest)
    if not choice.spec:
        raise ValueError(f"--data is needed: {LISTED}.")
    return data.open_dataset(
        choice.spec,
        on_bad_image=choice.on_bad_image,
        test_fraction=choice.test_fraction,
        seed=config.train.seed,
        dev_fraction=choice.dev_fraction,
        limit=choice.limit,
    )


def train_images(splits, config):
    """The `ImageSet` that a configuration trains on."""
    return splits.train if config.data.train_part == "all" else splits.train_without_dev


def eval_dataset(images, config, batch_size=None):
    """Evaluation batches as a configuration wants them."""
    from vitkeras import data

    choice = config.data
    more = {} if choice.preprocessing == "resize" else {"preprocessing": choice.preprocessing}
    return data.eval_batches(images, batch_size or config.train.batch_size, choice.image_size, **more)


def classification(config, splits):
    """The `Problem` of a supervised training on opened data.

    With `data.train_part` "all" the test part is evaluated while training; with "without_dev" the dev part is, and the
    test part once, at the end.
    """
    from vitkeras import data

    choice, images = config.data, train_images(splits, config)
    more = {} if choice.augment == "none" else {"augment": choice.augment}
    more |= {} if choice.service is None else {"service": choice.service}

    def batches(start_step, **hosts):
        return data.train_batches(
            images,
            config.train.batch_size,
            choice.image_size,
            seed=config.train.seed,
            start_step=start_step,
            crop_area=choice.crop_area,
            flip=choice.flip,
            **more,
            **hosts,
        )

    test = {"test": eval_dataset(splits.test, config)}
    counts = {"test": splits.test.num_examples}
    on_dev = choice.train_part == "without_dev"
    return Problem(
        splits.name,
        images.num_examples,
        {"dev": splits.dev.num_examples, **counts} if on_dev else counts,
        splits.class_names,
        batches,
        evaluations={"dev": eval_dataset(splits.dev, config)} if on_dev else test,
        build=lambda config, steps, strategy: build_engine(config, len(splits.class_names), steps, strategy),
        final=test if on_dev else {},
    )


def without_test(problem):
    """The same problem with its last look at the test part left out, for runs that only choose settings."""
    counts = {split: problem.counts[split] for split in problem.evaluations}
    return dataclasses.replace(problem, final={}, counts=counts)


def run(config, problem, workdir, strategy=None):
    """Trains in a workdir, from its latest checkpoint on if there is one, and writes the results.

    Args:
        config: a configuration with sections data, model, optimizer, loss and train.
        problem: `Problem`.
        workdir: str, existing folder.
        strategy: `tf.distribute.Strategy`; default: the current one.

    Returns:
        dict: loss, accuracy and count of the last evaluation, "splits" with all of them, "steps", "parameters", and
        with train.sparsity the share of zeros that was reached, "sparsity".

    Raises:
        Stopped: after SIGTERM or SIGINT and a checkpoint.
        ValueError: for a setting that does not fit the data, the model or the workdir.
        vitkeras.training.TrainingError: if the loss stops being finite; the step is named.
    """
    from vitkeras import training
    from vitkeras._optional import require
    from vitkeras._tensorflow import tf
    from vitkeras.training.loop import is_chief

    train, strategy = config.train, strategy or tf.distribute.get_strategy()
    require("matplotlib.figure", "Matplotlib", "the learning curve")  # is drawn at the end: that would be too late
    if train.batch_size > problem.num_examples:
        raise ValueError(
            f"train.batch_size must be at most the {problem.num_examples} training images, received {train.batch_size}."
        )
    if train.batch_size % (parts := strategy.num_replicas_in_sync * train.accumulate):
        raise ValueError(
            f"train.batch_size must be a multiple of replicas x accumulate = {parts}, received {train.batch_size}."
        )
    steps = train.steps or max(1, round(train.epochs * problem.num_examples / train.batch_size))
    engine = problem.build(config, steps, strategy)
    checkpointer = training.Checkpointer(
        os.path.join(workdir, "checkpoints"),
        keep=train.keep,
        config=as_dict(config),
        class_names=problem.class_names,
        seed=train.seed,
        defaults=defaults_of(config),
    )
    start, chief = training.resume(engine, checkpointer), is_chief(strategy)
    problem.batches(start)  # what it refuses is refused before the log is begun and another run's files are removed
    _announce(problem, engine.model, steps, start)
    with training.StopSignal() as stop, _log(workdir, steps, train.batch_size, start, chief) as log:
        if chief:
            discard_aside(workdir)
        outcome = training.train(
            engine,
            lambda step: _distributed(problem, step, strategy),
            steps,
            evaluations=problem.evaluations,
            log=log,
            checkpointer=checkpointer,
            stop=stop,
            log_every=train.log_every,
            evaluate_every=train.evaluate_every,
            save_every=train.save_every,
            save_seconds=60 * train.save_minutes,
            use_ema=train.ema_decay is not None,
        )
        if not outcome.finished:
            reason = stop.reason or "another worker"
            raise Stopped(f"stopped by {reason} after step {outcome.step} of {steps}, which is saved in {workdir}")
        results = dict(outcome.metrics)
        for split, dataset in problem.final.items():
            results[split] = engine.evaluate(dataset, use_ema=train.ema_decay is not None)
            if log is not None:
                log.evaluation(outcome.step, results[split]["loss"], results[split]["accuracy"], split=split)
    model = engine.model if train.ema_decay is None else engine.ema_model()
    if problem.result is not None:
        model = problem.result(model)
    sparsity = {"sparsity": training.measured_sparsity(model)} if train.sparsity else {}
    last = list(results.values())[-1]
    metrics = {**last, "splits": results, "steps": outcome.step, "parameters": model.count_params(), **sparsity}
    if chief:
        if problem.write is not None:
            problem.write(model, workdir)
        save(workdir, model, problem.class_names, metrics)
    return metrics


def save(workdir, model, class_names, metrics):
    """Writes a run's results, each under a temporary name first; `metrics.json` comes last and says that all are."""
    from vitkeras.training.logs import plot_log

    partial = os.path.join(workdir, "model.part.keras")
    try:
        model.save(partial)
        os.replace(partial, os.path.join(workdir, "model.keras"))
    finally:
        if os.path.exists(partial):
            os.remove(partial)
    if class_names:
        write_text(os.path.join(workdir, "classes.txt"), "\n".join(class_names) + "\n")
    plot_log(os.path.join(workdir, "log.csv"), os.path.join(workdir, "curve.png"))
    write_json(os.path.join(workdir, "metrics.json"), metrics)


def _log(workdir, steps, batch_size, start, chief):
    """The run's log; only one of several workers writes it."""
    from vitkeras.training import RunLog

    return RunLog(workdir, steps, batch_size, start_step=start) if chief else contextlib.nullcontext()


def _announce(problem, model, steps, start):
    parts = [f"{problem.num_examples} training", *(f"{count} {split}" for split, count in problem.counts.items())]
    classes = f", {len(problem.class_names)} classes" if problem.class_names else ""
    print(
        f"{problem.name}: {', '.join(parts[:-1])} and {parts[-1]} images{classes}; "
        f"{model.name}: {model.count_params():,} parameters; {steps} steps"
        + (f", going on from step {start}." if start else "."),
        file=sys.stderr,
    )


def _distributed(problem, step, strategy):
    """The training batches; for several workers a function of each one's own share."""
    from vitkeras.training.distribute import batch_size
    from vitkeras.training.loop import num_workers

    workers = num_workers(strategy)
    if workers == 1:
        return problem.batches(step)
    replicas = strategy.num_replicas_in_sync // workers

    def own(context):
        share = problem.batches(step, num_hosts=context.num_input_pipelines, host=context.input_pipeline_id)
        return share.rebatch(batch_size(share.element_spec[0]) // replicas, drop_remainder=True)

    return own
