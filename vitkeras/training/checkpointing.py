"""The checkpoints of a run: the last few, the best, and where to go on.

    checkpoints/ckpt-120/{arrays.npz, meta.json}
               /LAST      "ckpt-120", where the run goes on
               /BEST      "ckpt-80", the highest metric so far

A checkpoint is written under a temporary name, forced to the disk and renamed; only after that LAST moves. So LAST
names a whole checkpoint at every moment, whenever the process dies.
"""

import json
import os
import shutil
import sys

import keras
import numpy as np

from vitkeras._version import __version__
from vitkeras.training.checkpoint_files import (
    read_checkpoint,
    read_meta,
    some,
    write_checkpoint,
    write_json,
    write_text,
)

# What may differ when a run goes on: none of these changes a weight. The number of steps is not among them, because the
# learning rate of every step depends on it.
MAY_CHANGE = (
    "data.service",
    "train.evaluate_every",
    "train.keep",
    "train.log_every",
    "train.save_every",
    "train.save_minutes",
)


class CheckpointError(RuntimeError):
    """A checkpoint could not be written; the message says why and which one is the last good one."""


class Checkpointer:
    """Writes, finds and reads the checkpoints of one run.

    Args:
        folder: str, made at the first save.
        keep: int >= 1, how many of the last checkpoints stay; the best stays besides. Default 3.
        config: nested dict of plain values, the run's configuration. Default None: nothing is compared.
        class_names: sequence of str, stored with each checkpoint and compared. Default none.
        seed: int, stored with each checkpoint. Default 0.
        may_change: sequence of str, dotted configuration keys that may differ when a run goes on. Default
            `MAY_CHANGE`.
        defaults: nested dict of plain values, what a key counts as that an older checkpoint's configuration lacks.
            Default None: an absent key is None.

    Raises:
        ValueError: if `keep` is below 1.

    Example:
        >>> saver = Checkpointer("checkpoints", keep=2)
        >>> saver.save(7, {"model/head/bias": np.zeros(5, "float32")})
        'checkpoints/ckpt-7'
        >>> saver.latest(), saver.restore().arrays["model/head/bias"].shape
        (7, (5,))
    """

    def __init__(self, folder, keep=3, config=None, class_names=(), seed=0, may_change=MAY_CHANGE, defaults=None):
        if keep < 1:
            raise ValueError(f"keep must be >= 1, received {keep}.")
        self.folder = os.fspath(folder)
        self.keep = keep
        # As it comes back from a file: tuples are lists there.
        self.config = None if config is None else json.loads(json.dumps(config))
        self.defaults = {} if defaults is None else json.loads(json.dumps(defaults))
        self.class_names = tuple(class_names)
        self.seed = seed
        self.may_change = frozenset(may_change)

    def save(self, step, state, metric=None, extra=None):
        """Writes `ckpt-<step>`, moves LAST, and BEST if `metric` is the highest so far; removes the oldest.

        A step that LAST already names isn't written again; only a metric is added to it.

        Args:
            step: int >= 0.
            state: dict of name -> `np.ndarray` of numbers.
            metric: float or None, the dev accuracy after `step` updates. Default None.
            extra: dict of plain values to keep in `meta.json`. Default None.

        Returns:
            str, the checkpoint's folder.

        Raises:
            CheckpointError: if the folder can't be written (disk full, read-only); LAST stays where it was.
            ValueError: for an array that isn't of numbers.
        """
        for name, array in state.items():
            if array.dtype.kind not in "fiub":
                raise ValueError(f"state must hold arrays of numbers, {name!r} is of dtype {array.dtype}.")
        last, path = self.latest(), self.path(step)
        try:
            if last != step:
                write_checkpoint(path, state, self._meta(step, metric, extra))
                self._point("LAST", step)
            elif metric is not None:
                write_json(os.path.join(path, "meta.json"), {**read_meta(path), "metric": metric})
            if metric is not None and ((best := self.best()) is None or metric > best[1]):
                self._point("BEST", step)
            self._prune()
        except OSError as error:
            good = "there is none before it" if last is None else f"the last good one is ckpt-{last}"
            raise CheckpointError(
                f"checkpoint ckpt-{step} could not be written to {self.folder} ({error.strerror or error}); {good}."
            ) from error
        return path

    def path(self, step):
        """str, the folder of a step's checkpoint."""
        return os.path.join(self.folder, f"ckpt-{step}")

    def latest(self):
        """The step that LAST names, or None without a checkpoint."""
        return self._pointed("LAST")

    def best(self):
        """(step, metric) of the best checkpoint, or None."""
        step = self._pointed("BEST")
        return None if step is None else (step, read_meta(self.path(step))["metric"])

    def extra(self, step):
        """dict, what `save` was given as `extra`."""
        return read_meta(self.path(step))["extra"]

    def restore(self, step=None):
        """Reads a checkpoint and checks that it belongs to this run.

        Args:
            step: int, or None (default) for the one that LAST names.

        Returns:
            `checkpoint_files.Checkpoint` (step, arrays, meta), or None if `step` is None and there is none.

        Raises:
            ValueError: if the checkpoint is damaged, or of a run with another configuration or other classes; what
                differs is named. No other checkpoint is tried in its place.
        """
        if step is None and (step := self.latest()) is None:
            return None
        found = read_checkpoint(self.path(step))
        name = f"checkpoint {self.path(step)}"
        if self.config is not None and found.meta["config"] is not None:
            if differ := differences(found.meta["config"], self.config, self.may_change, self.defaults):
                raise ValueError(f"{name} is of a run with another configuration: {', '.join(differ)}.")
        if self.class_names and tuple(found.meta["class_names"]) != self.class_names:
            raise ValueError(
                f"{name} is of a run with the classes {some(found.meta['class_names'])}, "
                f"received {some(self.class_names)}."
            )
        return found

    def remove(self):
        """Removes all checkpoints of the run."""
        if os.path.isdir(self.folder):
            shutil.rmtree(self.folder)

    def _meta(self, step, metric, extra):
        versions = {"vitkeras": __version__, "keras": keras.__version__, "numpy": np.__version__}
        return {
            "step": step,
            "metric": metric,
            "seed": self.seed,
            "config": self.config,
            "class_names": list(self.class_names),
            "versions": {**versions, "python": sys.version.split()[0]},
            "extra": extra or {},
        }

    def _point(self, pointer, step):
        write_text(os.path.join(self.folder, pointer), f"ckpt-{step}\n")

    def _pointed(self, pointer):
        path = os.path.join(self.folder, pointer)
        if not os.path.exists(path):
            return None
        with open(path, encoding="utf-8") as file:
            name = file.read().strip()
        if (step := _step(name)) is None:
            raise ValueError(f"{path} must name a checkpoint such as ckpt-120, received {name!r}.")
        return step

    def _prune(self):
        last = self.latest()
        steps = sorted(step for name in os.listdir(self.folder) if (step := _step(name)) is not None)
        # Steps after LAST are of a process that died between the rename and the pointer.
        kept = {*[step for step in steps if step <= last][-self.keep :], self._pointed("BEST")}
        for step in steps:
            if step not in kept:
                shutil.rmtree(self.path(step))


def differences(before, now, may_change=MAY_CHANGE, defaults=None):
    """What two nested configurations differ in, beyond the keys that may change.

    Args:
        before, now: nested dicts of plain values.
        may_change: collection of str, dotted keys that aren't compared. Default `MAY_CHANGE`.
        defaults: nested dict, the values of keys that `before` lacks because they came later. Default None.

    Returns:
        list of str such as "train.seed (0, now 5)".

    Example:
        >>> differences({"train": {"seed": 0, "keep": 3}}, {"train": {"seed": 5, "keep": 2}})
        ['train.seed (0, now 5)']
    """
    before, now = _flatten(defaults or {}) | _flatten(before), _flatten(now)
    keys = sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))
    return [f"{key} ({before.get(key)!r}, now {now.get(key)!r})" for key in keys if key not in may_change]


def _flatten(config, prefix=""):
    flat = {}
    for key, value in config.items():
        flat |= _flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return flat


def _step(name):
    prefix, _, digits = name.partition("-")
    return int(digits) if prefix == "ckpt" and digits.isdecimal() else None
