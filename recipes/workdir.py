"""The folder of a run: new, to be continued, or finished."""

import contextlib
import json
import os
import shutil
import sys
import uuid

from .override import as_dict, defaults_of

NEW, CONTINUES, FINISHED = "new", "continues", "finished"
ASIDE = ".overwritten"  # where --overwrite keeps another run until the new one has begun
# What a run writes, for --overwrite; nothing else in the folder is touched.
FILES = (
    "backbone.npz",
    "config.json",
    "classes.txt",
    "curve.png",
    "log.csv",
    "metrics.json",
    "model.keras",
    "ranges.json",
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
        overwrite: bool, put another run's files aside; `begun_or_undone` removes them or brings them back. Default
            False.

    Returns:
        "new", "continues" or "finished" (`metrics.json` is there, which is written last).

    Raises:
        ValueError: if no folder is given, it can't be written, or it holds another run; what differs is named.
    """
    from vitkeras.training.checkpoint_files import some
    from vitkeras.training.checkpointing import differences

    if not folder:
        raise ValueError("--workdir is needed: the folder for the run's results.")
    path = os.path.join(folder, "config.json")
    try:
        if overwrite:
            _put_aside(folder)
        if os.path.exists(path):
            before = read_json(path)
            _check_own(folder, before)
            now, defaults = (json.loads(json.dumps(values)) for values in (as_dict(config), defaults_of(config)))
            differ = differences(before["config"], now, defaults=defaults)
            if before["recipe"] != recipe:
                differ = [f"recipe ({before['recipe']!r}, now {recipe!r})"]
            if differ:
                raise ValueError(
                    f"--workdir {folder} holds another run: {some(differ)}; choose another folder, or add --overwrite."
                )
            return FINISHED if os.path.exists(os.path.join(folder, "metrics.json")) else CONTINUES
        os.makedirs(folder, exist_ok=True)
        values = {"recipe": recipe, "config": as_dict(config), "command": " ".join(sys.argv), "versions": _versions()}
        write_json(path, values)
    except OSError as error:
        raise ValueError(f"--workdir {folder} can't be written ({error.strerror or error}).") from error
    return NEW


@contextlib.contextmanager
def begun_or_undone(folder, state):
    """Context of a run: one that ends before its first step, by an error, leaves its folder as it was.

    So a command that is put right can be given again, and `--overwrite` costs nothing if the new run can't begin.

    Args:
        folder: str.
        state: what `open_workdir` said of it.
    """
    try:
        yield
    except BaseException:
        if state == NEW and not _has_begun(folder):
            _bring_back(folder)
            with contextlib.suppress(OSError):  # not empty, or another worker was faster
                os.rmdir(folder)
        raise
    finally:
        if _has_begun(folder):
            discard_aside(folder)


def discard_aside(folder):
    """Removes what `--overwrite` had put aside."""
    if os.path.isdir(aside := os.path.join(folder, ASIDE)):
        shutil.rmtree(aside)


def make_folder(folder, argument="--workdir"):
    """Makes a folder that can be written, before the work whose results it gets; a ValueError says why it can't."""
    probe = os.path.join(folder, f".{uuid.uuid4().hex[:8]}.part")
    try:
        os.makedirs(folder, exist_ok=True)
        write_text(probe, "")
        os.remove(probe)
    except OSError as error:
        raise ValueError(f"{argument} {folder} can't be written ({error.strerror or error}).") from error


def write_json(path, values):
    """Writes JSON under a temporary name and moves it into place."""
    write_text(path, json.dumps(values, indent=1, ensure_ascii=False) + "\n")


def write_text(path, text):
    """Writes text under a temporary name and moves it into place; several workers may write the same at once."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path, data):
    """`write_text` for bytes."""
    partial = f"{path}.{uuid.uuid4().hex[:8]}.part"
    try:
        with open(partial, "wb") as file:
            file.write(data)
        os.replace(partial, path)
    finally:
        if os.path.exists(partial):
            os.remove(partial)


def read_json(path):
    """Reads a run's JSON file; a ValueError names a damaged one."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error}); choose another folder, or add --overwrite.") from error


def _check_own(folder, described):
    """Refuses a `config.json` that no recipe wrote: the folder's files are somebody else's."""
    if not isinstance(described, dict) or "recipe" not in described or not isinstance(described.get("config"), dict):
        raise ValueError(f"--workdir {folder} holds a config.json that is not a recipe's; choose another folder.")


def _runs(folder):
    """The folders of the runs of a sweep or suite."""
    parts = (os.path.join(folder, name) for name in ("sweep", "tasks"))
    return [entry.path for part in parts if os.path.isdir(part) for entry in os.scandir(part) if entry.is_dir()]


def _has_begun(folder):
    """Whether a run, or one of a sweep or suite, has come to its first step."""
    return any(os.path.exists(os.path.join(run, "log.csv")) for run in (folder, *_runs(folder)))


def _put_aside(folder):
    """Moves a run's results into `ASIDE`."""
    path, aside = os.path.join(folder, "config.json"), os.path.join(folder, ASIDE)
    if os.path.isdir(aside):  # of a process that died
        shutil.rmtree(aside) if _has_begun(folder) else _bring_back(folder)
    if os.path.exists(path):
        try:
            described = read_json(path)
        except ValueError:
            described = {"recipe": None, "config": {}}  # damaged, which --overwrite is for
        _check_own(folder, described)
    names = [name for name in FILES if os.path.isfile(os.path.join(folder, name))]
    names += [name for name in FOLDERS if os.path.isdir(os.path.join(folder, name))]
    if names:
        os.mkdir(aside)
    for name in names:
        os.rename(os.path.join(folder, name), os.path.join(aside, name))


def _bring_back(folder):
    """Undoes what `open_workdir` did: removes the new configurations and puts back what `_put_aside` moved."""
    for run in _runs(folder):
        if os.listdir(run) == ["config.json"]:
            os.remove(os.path.join(run, "config.json"))
            os.removedirs(run)  # up to the first folder that holds something else
    path, aside = os.path.join(folder, "config.json"), os.path.join(folder, ASIDE)
    with contextlib.suppress(FileNotFoundError):  # another worker was faster
        os.remove(path)
    if os.path.isdir(aside):
        for name in os.listdir(aside):
            os.rename(os.path.join(aside, name), os.path.join(folder, name))
        os.rmdir(aside)


def _versions():
    import keras
    import numpy

    import vitkeras

    versions = {"vitkeras": vitkeras.__version__, "keras": keras.__version__, "numpy": numpy.__version__}
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is not None:
        versions["tensorflow"] = tensorflow.__version__
    return {**versions, "python": sys.version.split()[0]}
