"""Fine-tunes a Vision Transformer on labelled images (paper section 3.2 and appendix B.1.1).

    python -m recipes.finetune --config photos --data folder:my_photos --workdir runs/photos
    python -m recipes.finetune --config flowers --sweep --workdir runs/flowers

The run's folder gets `model.keras`, `classes.txt`, `metrics.json`, `config.json`, `log.csv`, `curve.png`,
`tensorboard/` and `checkpoints/`. The same command again goes on from the last checkpoint.

`--sweep` chooses the learning rate as the paper does: each of `sweep.learning_rates` trains on the training images
without the dev part, the highest accuracy on the dev part wins, and its rate trains on all training images. The test
part is evaluated once, by that last run.
"""

import dataclasses
import os
import sys

from . import cli, runner
from .configs import FINETUNE as CONFIGS
from .workdir import FINISHED, open_workdir, read_json, write_json

SHORTCUTS = {
    "data": "data.spec",
    "weights": "model.weights",
    "on_bad_image": "data.on_bad_image",
    "sparsity": "train.sparsity",
}


def finetune(config, workdir, device="auto"):
    """Runs one fine-tuning.

    Args:
        config: `FinetuneConfig`.
        workdir: str, existing folder for the results.
        device: "auto" (default), "cpu", "gpu", "tpu" or "multiworker".

    Returns:
        dict, see `runner.run`.
    """
    strategy = runner.make_strategy(device)
    splits = runner.open_splits(config)
    return runner.run(config, runner.classification(config, splits), workdir, strategy)


def sweep(config, workdir, device="auto"):
    """Chooses the learning rate on the dev part, then fine-tunes with it on all training images.

    Args, Returns: as `finetune`; `sweep.json` gets each rate's dev accuracy. The runs are in `sweep/lr_RATE/`.

    Raises:
        ValueError: if there are no rates or no dev part.
    """
    rates = config.sweep.learning_rates
    if not rates:
        raise ValueError("--sweep needs sweep.learning_rates with at least one rate, received ().")
    if not config.data.dev_fraction:
        raise ValueError("--sweep needs data.dev_fraction above 0, the part to choose on, received 0.0.")
    strategy = runner.make_strategy(device)
    splits = runner.open_splits(config)
    dev = {}
    for place, rate in enumerate(rates, 1):
        print(f"sweep, {place} of {len(rates)}: learning rate {rate:g}, chosen by the dev part", file=sys.stderr)
        one = _with_rate(config, rate, "without_dev")
        folder = os.path.join(workdir, "sweep", f"lr_{rate:g}")
        if open_workdir(folder, "finetune", one) == FINISHED:
            metrics = read_json(os.path.join(folder, "metrics.json"))
        else:
            problem = runner.classification(one, splits)
            metrics = runner.run(one, runner.without_test(problem), folder, strategy)
        dev[rate] = metrics["splits"]["dev"]["accuracy"]
    best = max(rates, key=dev.get)  # of equals the first
    rows = [{"learning_rate": rate, "dev_accuracy": dev[rate], "chosen": rate == best} for rate in rates]
    final = _with_rate(config, best, "all")
    problem = runner.classification(final, splits)
    # The test part is looked at once: after the last step.
    final = dataclasses.replace(final, train=dataclasses.replace(final.train, evaluate_every=None))
    write_json(os.path.join(workdir, "sweep.json"), {"rows": rows})
    print(f"sweep, last: learning rate {best:g} on all training images", file=sys.stderr)
    metrics = runner.run(final, problem, workdir, strategy)
    write_json(os.path.join(workdir, "sweep.json"), {"rows": rows, "test": metrics["splits"]["test"]})
    print(table(rows, metrics["splits"]["test"]))
    return metrics


def table(rows, test):
    """A sweep as text: a line for each rate, and the test accuracy."""
    lines = [f"{'learning rate':>13s} {'dev accuracy':>13s}"]
    for row in rows:
        mark = "  chosen" if row["chosen"] else ""
        lines.append(f"{row['learning_rate']:13g} {100 * row['dev_accuracy']:11.2f} %{mark}")
    return "\n".join([*lines, f"test accuracy of the chosen rate, trained on all: {100 * test['accuracy']:.2f} %"])


def _with_rate(config, rate, part):
    return dataclasses.replace(
        config,
        data=dataclasses.replace(config.data, train_part=part),
        optimizer=dataclasses.replace(config.optimizer, learning_rate=rate),
    )


def _main(argv):
    parse = cli.parser("Fine-tune a Vision Transformer on labelled images.", CONFIGS)
    parse.add_argument("--weights", metavar="W", help="published name or path of a file (model.weights)")
    parse.add_argument("--on-bad-image", choices=("refuse", "skip"), help="unreadable images (data.on_bad_image)")
    parse.add_argument("--sparsity", metavar="S", help="share of weights that become zero (train.sparsity)")
    parse.add_argument("--sweep", action="store_true", help="choose the learning rate on the dev part first")

    def execute(config, workdir, arguments):
        return (sweep if arguments.sweep else finetune)(config, workdir, arguments.device)

    cli.launch("finetune", parse, CONFIGS, SHORTCUTS, execute, argv)


def main(argv=None):
    """Entry point of `vitkeras-finetune`; returns the exit code."""
    return cli.run(_main, argv)


if __name__ == "__main__":
    sys.exit(main())
