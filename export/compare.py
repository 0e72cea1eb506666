"""Two `.tflite` files on the same images: answers, accuracy, speed and size.

Legend: N images, K outputs.
"""

import dataclasses
import os
import time
from dataclasses import dataclass

import numpy as np

from . import checks
from .agreement import accuracy, check_image_labels, top5_agreement
from .progress import Progress
from .runtime import TFLiteRunner


@dataclass(frozen=True)
class Comparison:
    """What `compare_tflite` found.

    Attributes:
        paths: (str, str).
        images: int.
        top1_agreement: float, share of images with the same highest output.
        top5_agreement: float, share of the first file's five highest outputs that are among the second's, or None
            with fewer than six outputs.
        cosine, sqnr_db, max_abs_difference: floats of all outputs, the first file being the reference.
        accuracies: None without labels, or (float, float), share of images whose highest output is their label.
        latency_ms: (float, float), medians of one image, measured in turns.
        latency_ratio: float, median over the turns of the second's time to the first's; below 1 the second is faster.
        size_bytes: (int, int).
        num_threads: int.
    """

    paths: tuple
    images: int
    top1_agreement: float
    top5_agreement: float | None
    cosine: float
    sqnr_db: float
    max_abs_difference: float
    accuracies: tuple | None
    latency_ms: tuple
    latency_ratio: float
    size_bytes: tuple
    num_threads: int

    def as_dict(self):
        """Returns plain values, ready for JSON (an infinite ratio becomes None)."""
        values = dataclasses.asdict(self)
        values["sqnr_db"] = None if self.sqnr_db == float("inf") else self.sqnr_db
        return values

    def as_text(self):
        """Returns a table for people."""
        first, second = self.size_bytes
        five = "" if self.top5_agreement is None else f", top-5 {100 * self.top5_agreement:.1f} %"
        lines = {
            "a": f"{self.paths[0]} ({first / 1e6:.2f} MB)",
            "b": f"{self.paths[1]} ({second / 1e6:.2f} MB, {second / first:.2f} times a)",
            f"agreement, {self.images} images": f"top-1 {100 * self.top1_agreement:.1f} %{five}",
            "outputs": (
                f"SQNR {self.sqnr_db:.1f} dB, cosine {self.cosine:.6f}, max |difference| {self.max_abs_difference:.2e}"
            ),
            "accuracy": "no labels for these outputs"
            if self.accuracies is None
            else "a {:.2f} %, b {:.2f} %".format(*(100 * a for a in self.accuracies)),
            "latency": (
                "a {:.2f} ms, b {:.2f} ms".format(*self.latency_ms)
                + f", b takes {self.latency_ratio:.2f} times a's, {self.num_threads} threads"
            ),
        }
        width = max(map(len, lines))
        return "\n".join(f"{key:{width}s}  {value}" for key, value in lines.items())

    def __str__(self):
        return self.as_text()


def compare_tflite(a, b, images, labels=None, num_threads=2, seconds=2.0, show_progress=False):
    """Compares two files from `to_tflite`, such as a float and an int8 one.

    Args:
        a, b: str, the files; `a` is the reference.
        images: array (N, H, W, C), N >= 1, pixels 0...255.
        labels: None, or int array (N,) in 0...K - 1.
        num_threads: int >= 1. Default 2.
        seconds: float > 0, how long the latency is measured. Default 2.
        show_progress: bool, whether a terminal shows a bar over the images. Default False.

    Returns:
        `Comparison`.

    Raises:
        ExportError: if the files' outputs are not finite.
        ValueError: if images or labels do not fit, the files differ in outputs, or one has several or does not run.

    Example:
        >>> print(compare_tflite("float.tflite", "int8.tflite", images, labels))   # doctest: +SKIP
    """
    paths, images = (os.fspath(a), os.fspath(b)), np.asarray(images)
    runners = [TFLiteRunner(path, num_threads) for path in paths]
    bar = Progress(show_progress, stages=0)
    for path, runner in zip(paths, runners):
        shape = tuple(runner.input["shape"][1:])
        if images.ndim != 4 or images.shape[1:] != shape or not len(images):
            raise ValueError(
                f"images must have shape (N, {', '.join(map(str, shape))}) for {path!r}, received {images.shape}."
            )
        if len(runner.outputs) != 1:
            raise ValueError(f"{path!r} must have one output, it has {', '.join(runner.outputs)}.")
    x, y = (runner(bar.images(images)).reshape(len(images), -1) for runner in runners)
    if x.shape != y.shape:
        raise ValueError(
            f"the files must have as many outputs: {paths[0]!r} has {x.shape[1]}, {paths[1]!r} {y.shape[1]}."
        )
    if labels is not None:
        labels = check_image_labels(labels, len(images), x.shape[1])
    found = checks.compare(x, y)
    ratio, latency = _alternate(runners, images[0], seconds)
    return Comparison(
        paths=paths,
        images=len(images),
        top1_agreement=float((x.argmax(1) == y.argmax(1)).mean()),
        top5_agreement=top5_agreement(x, y),
        cosine=found["cosine"],
        sqnr_db=found["sqnr_db"],
        max_abs_difference=found["max_abs_difference"],
        accuracies=None if labels is None else tuple(accuracy(z, labels) for z in (x, y)),
        latency_ms=latency,
        latency_ratio=ratio,
        size_bytes=tuple(os.path.getsize(path) for path in paths),
        num_threads=num_threads,
    )


def _alternate(runners, image, seconds):
    """(median ratio, median milliseconds of each): turn by turn, so that both meet the same disturbances."""
    for runner in runners:
        runner.one(image)
    turns, end = [], time.perf_counter() + seconds
    while len(turns) < 5 or (len(turns) < 200 and time.perf_counter() < end):
        turns.append([_milliseconds(runner, image) for runner in runners])
    turns = np.array(turns)
    return float(np.median(turns[:, 1] / turns[:, 0])), tuple(float(t) for t in np.median(turns, axis=0))


def _milliseconds(runner, image):
    start = time.perf_counter()
    runner.one(image)
    return 1e3 * (time.perf_counter() - start)
