"""The folder of a run: new, to be continued, or finished."""

import json
import os
import shutil
import sys

from .override import as_dict

NEW, CONTINUES, FINISHED = "new", "continues", "finished"
# What a run writes, for --overwrite; nothing else in the folder is touched.
FILES = (
    "backbone.npz",
    "config.json",
    "classes.txt",
    "curve.png",
    "log.csv",
    "metrics.json",
    "model.keras",
    "sweep.json",
    "vtab.json",
)
FOLDERS = ("checkpoints", "sweep", "tasks", "tensorboard")


def open_workdir(folder, recipe, config, overwrite=False):
    """Makes a run's folder, or finds that it holds this very run already.

    A new folder gets `config.json` (recipe, configuration, command, versions).

    Args:
        folder: str.
        recipe: str, the recipe's name.
        config: a configuration dataclass.
        overwrite: bool, remove another run's files. Default False.

    Returns:
        "new", "continues" or "finished" (`metrics.json` is there, which is written last).

    Raises:
        ValueError: if no folder is given, it can't be written, or it holds another run; what differs is named.
    """
    from vitkeras.training.checkpointing import differences

    if not folder:
        raise ValueError("--workdir is needed: the folder for the run's results.")
    path = os.path.join(folder, "config.json")
    try:
        if overwrite:
            _clear(folder)
        if os.path.exists(path):
            before = _read(path)
            differ = differences(before.get("config", {}), json.loads(json.dumps(as_dict(config))))
            if before.get("recipe", recipe) != recipe:
                differ = [f"recipe ({before['recipe']!r}, now {recipe!r})"]
            if differ:
                raise ValueError(
                    f"--workdir {folder} holds another run: {', '.join(differ)}; "
                    "choose another folder, or add --overwrite."
                )
            return FINISHED if os.path.exists(os.path.join(folder, "metrics.json")) else CONTINUES
        os.makedirs(folder, exist_ok=True)
        values = {"recipe": recipe, "config": as_dict(config), "command": " ".join(sys.argv), "versions": _versions()}
        write_json(path, values)
    except OSError as error:
        raise ValueError(f"--workdir {folder} can't be written ({error.strerror or error}).") from error
    return NEW


def write_json(path, values):
    """Writes JSON under a temporary name and moves it into place."""
    write_text(path, json.dumps(values, indent=1, ensure_ascii=False) + "\n")


def write_text(path, text):
    """Writes text under a temporary name and moves it into place."""
    with open(path + ".part", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".part", path)


def read_json(path):
    """Reads a JSON file."""
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def _read(path):
    try:
        return read_json(path)
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error}); choose another folder, or add --overwrite.") from error


def _clear(folder):
    for name in FILES:
        if os.path.exists(path := os.path.join(folder, name)):
            os.remove(path)
    for name in FOLDERS:
        if os.path.isdir(path := os.path.join(folder, name)):
            shutil.rmtree(path)


def _versions():
    import keras
    import numpy

    import vitkeras

    versions = {"vitkeras": vitkeras.__version__, "keras": keras.__version__, "numpy": numpy.__version__}
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is not None:
        versions["tensorflow"] = tensorflow.__version__
    return {**versions, "python": sys.version.split()[0]}
