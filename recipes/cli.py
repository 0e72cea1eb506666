"""The command line that all recipes share."""

import argparse
import difflib
import inspect
import json
import os
import sys
import traceback

from .config import as_dict, override


def parser(description, configs):
    """Builds the argument parser of a recipe.

    Args:
        description: str.
        configs: dict of name -> function returning a frozen configuration; the first line of each
            function's docstring is listed in `--help`.

    Returns:
        An `argparse.ArgumentParser`.
    """
    lines = [f"  {name:14s} {inspect.getdoc(function).splitlines()[0]}" for name, function in configs.items()]
    parse = argparse.ArgumentParser(
        description=description,
        epilog="configurations:\n" + "\n".join(lines),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parse.add_argument("--config", required=True, metavar="NAME", help="a configuration of the list below")
    parse.add_argument("--workdir", metavar="DIR", help="folder of the run's results; made if it isn't there")
    parse.add_argument("--data", metavar="SPEC", help="folder:PATH, tfds:NAME or digits (data.spec)")
    parse.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="override, such as train.epochs=5"
    )
    parse.add_argument("--dump-config", action="store_true", help="print the resolved configuration as JSON and stop")
    parse.add_argument("--overwrite", action="store_true", help="reuse a workdir that holds another run")
    parse.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return parse


def resolve(arguments, configs, shortcuts):
    """Returns the configuration that the parsed arguments ask for.

    Args:
        arguments: the parsed `argparse.Namespace`.
        configs: dict of name -> function, as in `parser`.
        shortcuts: dict of argument name -> configuration key, such as {"data": "data.spec"}.

    Raises:
        ValueError: for an unknown configuration (the nearest is given) or a bad override.
    """
    if arguments.config not in configs:
        nearest = difflib.get_close_matches(arguments.config, configs, n=1, cutoff=0)[0]
        raise ValueError(
            f"--config must be one of {', '.join(configs)}, received {arguments.config!r}; nearest: {nearest!r}."
        )
    config = configs[arguments.config]()
    given = [
        f"{key}={getattr(arguments, name)}" for name, key in shortcuts.items() if getattr(arguments, name) is not None
    ]
    return override(config, given + arguments.set)


def prepare_workdir(folder, config, overwrite=False):
    """Makes the run's folder and writes `config.json` (configuration, command, versions) into it.

    Raises:
        ValueError: if no folder is given, or it holds another run and `overwrite` is False.
    """
    if not folder:
        raise ValueError("--workdir is needed: the folder for the run's results.")
    path = os.path.join(folder, "config.json")
    if os.path.exists(path) and not overwrite:
        raise ValueError(f"--workdir {folder} holds another run; choose another folder, or add --overwrite.")
    os.makedirs(folder, exist_ok=True)
    write_json(path, {"config": as_dict(config), "command": " ".join(sys.argv), "versions": _versions()})


def write_json(path, values):
    """Writes JSON under a temporary name and moves it into place."""
    with open(path + ".part", "w", encoding="utf-8") as file:
        json.dump(values, file, indent=1, ensure_ascii=False)
        file.write("\n")
    os.replace(path + ".part", path)


def run(function, argv=None):
    """Calls `function(argv)` and turns its errors into one sentence and an exit code.

    Returns:
        int: 0; 2 for bad input; 1 for a run that could not go on; 130 when interrupted.
    """
    arguments = sys.argv[1:] if argv is None else argv
    try:
        function(arguments)
        return 0
    except KeyboardInterrupt:
        print("interrupted.", file=sys.stderr)
        return 130
    except (ValueError, OSError, ImportError, RuntimeError) as error:
        if "--debug" in arguments:
            traceback.print_exc()
        else:
            print(f"error: {error}", file=sys.stderr)
        return 1 if isinstance(error, RuntimeError) else 2


def _versions():
    import keras
    import numpy

    import vitkeras

    versions = {"vitkeras": vitkeras.__version__, "keras": keras.__version__, "numpy": numpy.__version__}
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is not None:
        versions["tensorflow"] = tensorflow.__version__
    return {**versions, "python": sys.version.split()[0]}
