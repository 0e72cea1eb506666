"""Fine-tunes one model on the 19 tasks of VTAB-1k (paper section 4.1, Figure 2 and appendix D.10).

    python -m recipes.vtab --workdir runs/vtab
    python -m recipes.vtab --workdir runs/vtab --set "suite.tasks=('cifar100', 'dtd')"

Every task trains in `tasks/NAME/` of the workdir as `recipes.finetune` does; `vtab.json` gets the accuracies and the
mean of each group. The same command again goes on, and skips the tasks that are done. A task whose data set TFDS can't
prepare here is named at the end, its group has no mean, and the exit code is 1.
"""

import dataclasses
import difflib
import os
import sys

from . import cli, runner
from .configs import VTAB as CONFIGS
from .vtab_tasks import GROUPS, TASKS, Unavailable, open_task
from .workdir import FINISHED, open_workdir, read_json, write_json


def vtab(config, workdir, device="auto"):
    """Runs the suite.

    Args:
        config: `VtabConfig`.
        workdir: str, existing folder for the results.
        device: "auto" (default), "cpu", "gpu", "tpu" or "multiworker".

    Returns:
        dict: "tasks" (name -> accuracy), "groups" (name -> mean, None if a task of it is missing), "mean" over the
        tasks, None likewise, "missing" (name -> reason).

    Raises:
        ValueError: for an unknown task; the nearest is named.
        RuntimeError: if a task's data set is missing, after all the others ran.
    """
    import keras

    names = config.suite.tasks or tuple(TASKS)
    for name in names:
        if name not in TASKS:
            nearest = difflib.get_close_matches(name, TASKS, n=1, cutoff=0)[0]
            raise ValueError(f"suite.tasks must be of {', '.join(TASKS)}, received {name!r}; nearest: {nearest!r}.")
    strategy = runner.make_strategy(device)
    accuracy, missing = {}, {}
    for place, name in enumerate(names, 1):
        print(f"task {place} of {len(names)}: {name}", file=sys.stderr)
        keras.utils.clear_session()
        try:
            accuracy[name] = _task(config, name, os.path.join(workdir, "tasks", name), strategy)
        except Unavailable as error:
            missing[name] = str(error)
        results = summarise(accuracy, missing)
        write_json(os.path.join(workdir, "vtab.json"), results)
    print(table(results))
    if missing:
        listed = "; ".join(f"{name}: {reason}" for name, reason in missing.items())
        raise RuntimeError(f"{len(missing)} of {len(names)} tasks have no data set here: {listed}.")
    write_json(os.path.join(workdir, "metrics.json"), results)
    return results


def summarise(accuracy, missing):
    """The suite's result from accuracies by task and reasons by missing task."""
    groups = {}
    for group in GROUPS:
        asked = [name for name in (*accuracy, *missing) if TASKS[name].group == group]
        if asked:
            values = [accuracy[name] for name in asked if name in accuracy]
            groups[group] = sum(values) / len(values) if len(values) == len(asked) else None
    mean = None if missing else sum(accuracy.values()) / len(accuracy)
    return {"tasks": dict(accuracy), "groups": groups, "mean": mean, "missing": dict(missing)}


def table(results):
    """The suite as text: a line for each task, each group and the mean."""
    lines = []
    for group, mean in results["groups"].items():
        for name in (*results["tasks"], *results["missing"]):
            if TASKS[name].group == group:
                lines.append(f"  {name:22s} {_percent(results['tasks'].get(name))}")
        lines.append(f"{group:24s} {_percent(mean)}")
    return "\n".join([*lines, f"{'mean of the tasks':24s} {_percent(results['mean'])}"])


def _percent(value):
    return "      -" if value is None else f"{100 * value:6.2f} %"


def _task(config, name, folder, strategy):
    """Accuracy of one task, from its folder if it is done."""
    part = "without_dev" if config.suite.part == "train" else "all"
    one = dataclasses.replace(config, data=dataclasses.replace(config.data, train_part=part))
    if open_workdir(folder, "vtab", one) == FINISHED:
        metrics = read_json(os.path.join(folder, "metrics.json"))
    else:
        splits = runner.open_splits(one, None if config.data.spec else open_task(name))
        problem = runner.classification(one, splits)
        metrics = runner.run(one, runner.without_test(problem) if part == "without_dev" else problem, folder, strategy)
    return metrics["accuracy"]


def _main(argv):
    parse = cli.parser("Fine-tune a model on the 19 tasks of VTAB-1k.", CONFIGS, default="vtab")
    parse.add_argument("--weights", metavar="W", help="published name or path of a file (model.weights)")

    def execute(config, workdir, arguments):
        return vtab(config, workdir, arguments.device)

    cli.launch("vtab", parse, CONFIGS, {"data": "data.spec", "weights": "model.weights"}, execute, argv)


def main(argv=None):
    """Entry point of `vitkeras-vtab`; returns the exit code."""
    return cli.run(_main, argv)


if __name__ == "__main__":
    sys.exit(main())
