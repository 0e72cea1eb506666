"""`vitkeras-export --compare A B`: two files on one data set."""

import os

import numpy as np


def compare_command(arguments):
    """Compares the two files of `--compare` on `--data`.

    Returns:
        `Comparison`.

    Raises:
        ValueError: for options that belong to an export, or without `--data`.
    """
    for option in ("model", "out", "labels", "html"):
        if getattr(arguments, option) is not None:
            raise ValueError(f"--{option} is for an export, received it with --compare.")
    if missing := [path for path in arguments.compare if not os.path.isfile(path)]:
        raise FileNotFoundError(f"--compare must name two .tflite files, {missing[0]!r} is none.")
    if not arguments.data:
        raise ValueError("--compare needs --data SPEC, the images that both files run on.")
    from vitkeras import data

    from .compare import compare_tflite
    from .labels import read_labels
    from .runtime import TFLiteRunner

    a, b = arguments.compare
    runner = TFLiteRunner(a)
    test = data.open_dataset(arguments.data).test
    images, classes = data.raw_images(test, tuple(int(n) for n in runner.input["shape"][1:3]), arguments.limit or 1000)
    outputs = int(np.prod(runner.interpreter.get_output_details()[0]["shape"]))
    labels = output_labels(classes, test.class_names, read_labels(a), outputs)
    return compare_tflite(a, b, images, labels, arguments.threads or 2, show_progress=True)


def output_labels(classes, class_names, names, outputs):
    """The data set's labels as places in a file's output, or None where the file has no such classes.

    Args:
        classes: int array (N,), places in `class_names`.
        class_names: sequence of str, the data set's.
        names: list of str, the file's labels, or None.
        outputs: int, K.
    """
    if names is None:
        return classes if outputs == len(class_names) else None
    if not set(class_names) <= set(names):
        return None
    return np.array([names.index(name) for name in class_names], "int32")[classes]
