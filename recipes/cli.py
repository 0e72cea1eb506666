"""The command line that all recipes share."""

import argparse
import difflib
import inspect
import json
import os
import shlex
import sys
import tempfile
import traceback

from vitkeras._data_sources import LISTED

from .override import as_dict, override
from .runner import Stopped
from .smoke import smoke
from .terminated import Terminated, unwound_by_sigterm
from .workdir import FINISHED, begun_or_undone, open_workdir, read_json

DEVICES = ("auto", "cpu", "gpu", "tpu", "multiworker")
RESULTS = (
    "model.keras",
    "ranges.json",
    "backbone.npz",
    "classes.txt",
    "metrics.json",
    "sweep.json",
    "vtab.json",
    "log.csv",
    "curve.png",
    "tensorboard",
)


def parser(description, configs, default=None, trains=True):
    """Builds the argument parser of a recipe.

    Args:
        description: str.
        configs: dict of name -> function returning a frozen configuration; the first line of each
            function's docstring is listed in `--help`.
        default: str, the configuration that is taken without `--config`. Default None: it has to be given.
        trains: bool, whether the recipe makes a run, which `--overwrite` may remove. Default True.

    Returns:
        An `argparse.ArgumentParser`.
    """
    width = max(map(len, configs)) + 1
    lines = [f"  {name:{width}s} {inspect.getdoc(function).splitlines()[0]}" for name, function in configs.items()]
    parse = argparse.ArgumentParser(
        prog=called(sys.argv[0]),
        description=description,
        epilog="configurations:\n" + "\n".join(lines),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    known = "" if default is None else f" (default: {default})"
    parse.add_argument("--config", default=default, metavar="NAME", help=f"a configuration of the list below{known}")
    goes_on = "; the same command again goes on from what is there" if trains else ""
    parse.add_argument("--workdir", metavar="DIR", help=f"folder of the run's results{goes_on}")
    parse.add_argument("--data", metavar="SPEC", help=f"{LISTED} (data.spec)")
    parse.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help=f"override, such as {'train.epochs=5' if trains else 'batch_size=8'}",
    )
    parse.add_argument("--device", choices=DEVICES, default="auto", help="what to compute on (default: auto)")
    parse.add_argument("--smoke", action="store_true", help="two steps on made-up images with a toy model")
    parse.add_argument("--dump-config", action="store_true", help="print the resolved configuration as JSON and stop")
    if trains:
        parse.add_argument("--overwrite", action="store_true", help="remove another run's files from the workdir")
    parse.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return parse


def called(path):
    """How a recipe was called: `python -m recipes.NAME` in a checkout, `vitkeras-NAME` where it is installed."""
    name, suffix = os.path.splitext(os.path.basename(path))
    return f"python -m {__package__}.{name}" if suffix == ".py" else name


def resolve(arguments, configs, shortcuts):
    """Returns the configuration that the parsed arguments ask for.

    Args:
        arguments: the parsed `argparse.Namespace`.
        configs: dict of name -> function, as in `parser`.
        shortcuts: dict of argument name -> configuration key, such as {"data": "data.spec"}.

    Raises:
        ValueError: for an unknown configuration (the nearest is given) or a bad override.
    """
    if arguments.config is None:
        raise ValueError(f"--config is needed: one of {_listed(configs)}.")
    if arguments.config not in configs:
        nearest = difflib.get_close_matches(arguments.config, configs, n=1, cutoff=0)[0]
        raise ValueError(
            f"--config must be one of {_listed(configs)}, received {arguments.config!r}; nearest: {nearest!r}."
        )
    config = configs[arguments.config]()
    given = [
        f"{key}={getattr(arguments, name)}" for name, key in shortcuts.items() if getattr(arguments, name) is not None
    ]
    return override(config, given + arguments.set)


def _listed(configs):
    return ", ".join(configs) if len(configs) <= 20 else f"the {len(configs)} that --help lists"


def launch(recipe, parse, configs, shortcuts, execute, argv):
    """What every training recipe does with its command line.

    Args:
        recipe: str, its name.
        parse: `argparse.ArgumentParser` from `parser`.
        configs, shortcuts: as in `resolve`.
        execute: function (config, workdir, arguments) -> dict of metrics, called unless the run is finished.
        argv: list of str.
    """
    arguments = parse.parse_args(argv)
    config = resolve(arguments, configs, shortcuts)
    if arguments.smoke:
        config, replaced = smoke(config)
    if arguments.dump_config:
        print(json.dumps(as_dict(config), indent=1))
        return
    if not config.data.spec and recipe != "vtab":
        raise ValueError(f"--data is needed: {LISTED}.")
    if not arguments.smoke:
        _run(recipe, config, arguments.workdir, arguments, execute, argv)
        return
    print(f"smoke: {'; '.join(replaced)}.", file=sys.stderr)
    if arguments.workdir:
        _run(recipe, config, arguments.workdir, arguments, execute, argv)
        return
    with tempfile.TemporaryDirectory() as folder:
        _run(recipe, config, folder, arguments, execute, argv)
    print("smoke: passed; its results are removed, add --workdir to keep them.")


def report(parse, configs, shortcuts, toy, show, argv):
    """What every recipe that trains nothing does with its command line.

    Args:
        parse: `argparse.ArgumentParser` from `parser`.
        configs, shortcuts: as in `resolve`.
        toy: function (config, folder) -> configuration for `--smoke`, of made-up data and a model in `folder`.
        show: function (config, arguments), does the work.
        argv: list of str.
    """
    arguments = parse.parse_args(argv)
    config = resolve(arguments, configs, shortcuts)
    if arguments.dump_config:
        print(json.dumps(as_dict(config), indent=1))
        return
    if arguments.smoke:
        with tempfile.TemporaryDirectory() as folder:
            show(toy(config, folder), arguments)
        return
    if not config.data.spec:
        raise ValueError(f"--data is needed: {LISTED}.")
    show(config, arguments)


def _run(recipe, config, workdir, arguments, execute, argv):
    again = shlex.join(["python", "-m", f"{__package__}.{recipe}", *(a for a in argv if a != "--overwrite")])
    if arguments.overwrite and workdir and not _is_first_worker(arguments.device):
        # The first worker alone puts the other run aside, before it meets this one where the strategy is made.
        _finish(workdir, again, execute, config, arguments)
        return
    state = open_workdir(workdir, recipe, config, arguments.overwrite)
    if state == FINISHED:
        metrics = read_json(os.path.join(workdir, "metrics.json"))
        print(f"this run is finished: {summary(metrics)}; its results are in {workdir}")
        return
    with begun_or_undone(workdir, state):
        _finish(workdir, again, execute, config, arguments)


def _finish(workdir, again, execute, config, arguments):
    try:
        metrics = execute(config, workdir, arguments)
    except Stopped as stopped:
        raise Stopped(f"{stopped}; the same command goes on from there: {again}") from None
    found = [name for name in RESULTS if os.path.exists(os.path.join(workdir, name))]
    print(f"{summary(metrics)}; {', '.join(found)} are in {workdir}")


def _is_first_worker(device):
    """Whether this process is the only one or the first that `TF_CONFIG` lists."""
    listed = os.environ.get("TF_CONFIG")
    if device not in ("auto", "multiworker") or not listed:
        return True
    from vitkeras.training.devices import check_tf_config

    return check_tf_config(listed)[1] == 0


def summary(metrics):
    """The accuracy of a run in a few words."""
    if "accuracy" not in metrics:
        return f"mean accuracy {100 * metrics['mean']:.2f} %" if metrics.get("mean") is not None else "no mean accuracy"
    split = list(metrics["splits"])[-1] if "splits" in metrics else "test"
    return f"{split} accuracy {100 * metrics['accuracy']:.2f} % of {metrics['count']} images"


def run(function, argv=None, relief="lower train.batch_size, raise train.accumulate or set train.remat=true"):
    """Calls `function(argv)` and turns its errors into one sentence and an exit code.

    Args:
        function: function of a list of str.
        argv: list of str, or None for the process's own.
        relief: str, what to do where memory runs out.

    Returns:
        int: 0, also for a run that a signal stopped after saving; 2 for bad input; 1 for a run that could not go on;
        130 or 143 for Ctrl-C or SIGTERM before the first step or a second time.
    """
    arguments = sys.argv[1:] if argv is None else argv
    try:
        with unwound_by_sigterm():
            function(arguments)
        return 0
    except Stopped as stopped:
        print(stopped)
        return 0
    except KeyboardInterrupt:
        print("interrupted.", file=sys.stderr)
        return 130
    except Terminated:
        print("stopped by SIGTERM.", file=sys.stderr)
        return 143
    except (ValueError, TypeError, OSError, ImportError, RuntimeError, *_tensorflow_errors()) as error:
        if "--debug" in arguments:
            traceback.print_exc()
        else:
            print(f"error: {_sentence(error, relief)}", file=sys.stderr)
        return 2 if isinstance(error, (ValueError, TypeError, OSError, ImportError)) else 1


def _tensorflow_errors():
    """What TensorFlow raises while it computes, once it is imported."""
    tensorflow = sys.modules.get("tensorflow")
    return () if tensorflow is None else (tensorflow.errors.OpError,)


def _sentence(error, relief):
    if not isinstance(error, _tensorflow_errors()):
        return error
    first = str(error.message).strip().splitlines()[0]
    if type(error).__name__ == "ResourceExhaustedError":
        return f"out of memory ({first}); {relief}."
    return f"TensorFlow: {first}"
