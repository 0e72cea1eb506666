"""What a run writes down: a progress bar or lines, `log.csv`, TensorBoard scalars, a learning curve."""

import csv
import os
import sys
import time

from vitkeras._optional import require
from vitkeras._tensorflow import tf

COLUMNS = ("step", "split", "loss", "accuracy", "learning_rate", "images_per_second", "seconds")


class RunLog:
    """Logs of one run in one folder.

    On a terminal a progress bar is shown; elsewhere one line for every `train` call.

    Args:
        folder: str, existing folder; gets `log.csv` and `tensorboard/`.
        total_steps: int >= 1.
        batch_size: int, images in a step, for images per second.
        stream: text stream, default `sys.stderr`.

    Example:
        >>> with RunLog("run", total_steps=100, batch_size=32) as log:      # doctest: +SKIP
        ...     log.train(10, loss=2.3, accuracy=0.1, learning_rate=0.01)
        ...     log.evaluation(10, loss=2.2, accuracy=0.2)
    """

    def __init__(self, folder, total_steps, batch_size, stream=None):
        tqdm = require("tqdm", "tqdm", "a training run's progress bar")
        require("tensorboard", "TensorBoard", "a training run's TensorBoard log")
        self.stream = stream or sys.stderr
        self.batch_size = batch_size
        self.total_steps = total_steps
        self._start = self._last_time = time.perf_counter()
        self._last_step = 0
        self._file = open(os.path.join(folder, "log.csv"), "w", newline="", encoding="utf-8")
        self._csv = csv.DictWriter(self._file, COLUMNS)
        self._csv.writeheader()
        self._writer = tf.summary.create_file_writer(os.path.join(folder, "tensorboard"))
        terminal = self.stream.isatty()
        self._bar = tqdm.tqdm(
            total=total_steps, file=self.stream, unit="step", disable=not terminal, dynamic_ncols=True
        )

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
        seconds = time.perf_counter() - self._start
        row = {"step": step, "split": split, "loss": loss, "accuracy": accuracy, "seconds": round(seconds, 2), **more}
        self._csv.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})
        self._file.flush()
        with self._writer.as_default():
            for key, value in {"loss": loss, "accuracy": accuracy, **more}.items():
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
