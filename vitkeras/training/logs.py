"""What a run writes down: a progress bar or lines, `log.csv`, TensorBoard scalars, a learning curve."""

import csv
import os
import shutil
import sys
import time

from vitkeras._optional import require
from vitkeras._tensorflow import tf

SCALARS = ("loss", "accuracy", "learning_rate", "images_per_second")
COLUMNS = ("step", "split", *SCALARS, "seconds")


class RunLog:
    """Logs of one run in one folder.

    On a terminal a progress bar is shown; elsewhere one line for every `train` call.

    A run that goes on from a checkpoint continues its log: rows after `start_step`, which a dead process wrote and this
    one will write again, are dropped, and TensorBoard's file is written anew from the rows that stay.

    Args:
        folder: str, existing folder; gets `log.csv` and `tensorboard/`.
        total_steps: int >= 1.
        batch_size: int, images in a step, for images per second.
        stream: text stream, default `sys.stderr`.
        start_step: int >= 0, updates done before; with 0 (default) a log that is there is replaced.

    Example:
        >>> with RunLog("run", total_steps=100, batch_size=32) as log:      # doctest: +SKIP
        ...     log.train(10, loss=2.3, accuracy=0.1, learning_rate=0.01)
        ...     log.evaluation(10, loss=2.2, accuracy=0.2)
    """

    def __init__(self, folder, total_steps, batch_size, stream=None, start_step=0):
        tqdm = require("tqdm", "tqdm", "a training run's progress bar")
        require("tensorboard", "TensorBoard", "a training run's TensorBoard log")
        self.stream = stream or sys.stderr
        self.batch_size = batch_size
        self.total_steps = total_steps
        path = os.path.join(folder, "log.csv")
        rows = _rows_up_to(path, start_step)
        _write_rows(path, rows)
        self._there = {(int(row["step"]), row["split"]) for row in rows}
        self._last_time = time.perf_counter()
        self._start = self._last_time - (float(rows[-1]["seconds"]) if rows else 0.0)
        self._last_step = start_step
        self._file = open(path, "a", newline="", encoding="utf-8")
        self._csv = csv.DictWriter(self._file, COLUMNS)
        boards = os.path.join(folder, "tensorboard")
        if os.path.isdir(boards):
            shutil.rmtree(boards)
        self._writer = tf.summary.create_file_writer(boards)
        self._bar = tqdm.tqdm(
            total=total_steps,
            initial=start_step,
            file=self.stream,
            unit="step",
            disable=not self.stream.isatty(),
            dynamic_ncols=True,
        )
        for row in rows:
            values = {key: float(row[key]) for key in SCALARS if row[key]}
            self._scalars(row["split"], int(row["step"]), values)

    def train(self, step, loss, accuracy, learning_rate):
        """Records means over the steps since the last call, up to and including `step`."""
        now = time.perf_counter()
        seconds = max(now - self._last_time, 1e-9)
        speed = (step - self._last_step) * self.batch_size / seconds
        self._bar.set_postfix_str(f"loss {loss:.4f} acc {accuracy:.3f} lr {learning_rate:.2e} {speed:.1f} img/s")
        self._bar.update(step - self._last_step)
        self._last_time, self._last_step = now, step
        left = (self.total_steps - step) * self.batch_size / speed
        self._line(
            f"step {step}/{self.total_steps}  loss {loss:.4f}  accuracy {accuracy:.4f}  "
            f"learning rate {learning_rate:.3e}  {speed:.1f} images/s  {left:.0f} s left"
        )
        self._record("train", step, loss, accuracy, learning_rate=learning_rate, images_per_second=speed)

    def evaluation(self, step, loss, accuracy, split="test"):
        """Records an evaluation after `step` updates; its time doesn't count against the training speed."""
        self._last_time = time.perf_counter()
        text = f"step {step}/{self.total_steps}  {split} loss {loss:.4f}  {split} accuracy {accuracy:.4f}"
        if self._bar.disable:
            self._line(text)
        else:
            self._bar.write(text, file=self.stream)
        self._record(split, step, loss, accuracy)

    def _line(self, text):
        if self._bar.disable:
            print(text, file=self.stream, flush=True)

    def _record(self, split, step, loss, accuracy, **more):
        if (step, split) in self._there:  # written just before the process died, after the last checkpoint
            return
        seconds = time.perf_counter() - self._start
        row = {"step": step, "split": split, "loss": loss, "accuracy": accuracy, "seconds": round(seconds, 2), **more}
        self._csv.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})
        self._file.flush()
        self._scalars(split, step, {"loss": loss, "accuracy": accuracy, **more})

    def _scalars(self, split, step, values):
        with self._writer.as_default():
            for key, value in values.items():
                tf.summary.scalar(f"{split}/{key}", value, step=step)
        self._writer.flush()

    def close(self):
        """Closes the files; the run's logs stay."""
        self._bar.close()
        self._file.close()
        self._writer.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _rows_up_to(path, step):
    """The whole rows of a log up to and including `step`; a dead process may have left half a row at the end."""
    if not step or not os.path.exists(path):
        return []
    with open(path, newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["seconds"]]
    return [row for row in rows if int(row["step"]) <= step]


def _write_rows(path, rows):
    with open(path + ".part", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    os.replace(path + ".part", path)


def read_log(path):
    """Reads a `log.csv`.

    Args:
        path: str.

    Returns:
        dict of split ("train", "test", ...) -> dict of column -> list of floats.
    """
    splits = {}
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            columns = splits.setdefault(row.pop("split"), {})
            for key, value in row.items():
                if value:
                    columns.setdefault(key, []).append(float(value))
    return splits


def plot_log(csv_path, picture_path):
    """Draws the learning curve of a `log.csv` as a PNG: loss left, accuracy right, against the step.

    Args:
        csv_path: str, from `RunLog`.
        picture_path: str, the PNG to write.

    Raises:
        ImportError: if Matplotlib is missing; the extra is named.
    """
    figures = require("matplotlib.figure", "Matplotlib", "the learning curve")
    figure = figures.Figure(figsize=(9, 3.4), layout="constrained")
    axes = figure.subplots(1, 2)
    for axis, key in zip(axes, ("loss", "accuracy")):
        for split, columns in read_log(csv_path).items():
            marker = "" if split == "train" else "o"
            axis.plot(columns["step"], columns[key], label=split, marker=marker, markersize=4)
        axis.set(xlabel="step", title=key)
        axis.grid(alpha=0.3)
        axis.legend()
    figure.savefig(picture_path, dpi=120)
