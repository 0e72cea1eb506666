"""Which dense layers to leave in float: those whose static int8 loses most, as few as reach a goal."""

import os
import tempfile

import numpy as np

from . import checks
from .activations import watched
from .file_graph import Graph
from .quantize import quantize
from .rounding import round_tensor, round_weights, snr_db
from .runtime import TFLiteRunner
from .unseen import seen_by_gelu

# Of the outputs, on calibration images; 30 is promised of others. Images that chose the ranges and the layers, and that
# perhaps trained the model, read better: by up to 1.4 dB on the net of benchmarks/export_accuracy.py.
GOAL_DB = 32.0
MOST_SHARE = 0.5  # of the dense layers
IMAGES = 24  # on which files are compared
ROWS = 16  # of each image, for a layer's own noise


def keep_float(float_path, operators, modes, ranges, images, num_threads=2):
    """Takes static dense layers back to float, the noisiest first, until the outputs are near enough to float's.

    A layer's noise is that of its rounded weights, input and output on float activations, against its exact output.
    That order only guesses what matters for the model's outputs, so the search also drops what it can spare.

    Args:
        float_path: str, float32 `.tflite` file.
        operators: list of `Operator`.
        modes: dict of operator index -> mode.
        ranges: dict of tensor name -> (low, high).
        images: array (N, H, W, C), as the file takes them.
        num_threads: int >= 1. Default 2.

    Returns:
        (modes with those layers in float, tuple of their labels).
    """
    dense = [o for o in operators if o.kind == "FULLY_CONNECTED" and modes[o.index] == "static"]
    images = images[:: max(1, len(images) // IMAGES)][:IMAGES]
    noise = layer_noise(float_path, dense, ranges, images[:8], num_threads)
    order = sorted(dense, key=lambda operator: noise[operator.index])
    exact = TFLiteRunner(float_path, num_threads)(images)

    def reaches(floats):
        tried = modes | {operator.index: "float" for operator in floats}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "tried.tflite")
            quantize(float_path, path, operators, tried, ranges)
            return _sqnr(exact, TFLiteRunner(path, num_threads)(images)) >= GOAL_DB

    kept = fewest(order[: int(MOST_SHARE * len(order))], reaches)
    return modes | {operator.index: "float" for operator in kept}, tuple(operator.label for operator in kept)


def fewest(order, reaches):
    """Searches a short list that is enough: first a beginning of the order, then that without what it can spare.

    Args:
        order: list, the most promising first.
        reaches: function of a list: whether it is enough. It is called about 4 log2(n) times, or more if little can be
            spared.

    Returns:
        list, in the order; all of it if even that isn't enough.
    """
    least, enough = 0, len(order)  # the shortest beginning that is enough lies in least...enough
    while least < enough:
        middle = (least + enough) // 2
        if reaches(order[:middle]):
            enough = middle
        else:
            least = middle + 1
    kept, size = order[:enough], enough // 2
    while size and enough < len(order):  # the last of it is needed; the others in halves, quarters, ...
        for start in range(0, len(kept) - 1, size):
            rest = kept[:start] + kept[start + size :]
            if len(rest) < len(kept) and kept[-1] in rest and reaches(rest):
                kept = rest
                break
        else:
            size //= 2
            continue
        size = min(size, len(kept) // 2)
    return kept


def layer_noise(float_path, dense, ranges, images, num_threads=2):
    """Signal to noise of each dense layer alone, in decibels: dict of operator index -> float."""
    graph, rng = Graph(float_path), np.random.default_rng(0)
    rows = {operator.inputs[0]: [] for operator in dense}
    with watched(float_path, rows, num_threads) as run:
        for image in images:
            for name, values in run(image).items():
                flat = values.reshape(-1, values.shape[-1])
                rows[name].append(flat[rng.choice(len(flat), min(ROWS, len(flat)), replace=False)])
    found = {}
    for operator in dense:
        x, weights = np.concatenate(rows[operator.inputs[0]]), graph.weights(operator.index)
        bias = graph.bias(operator.index)
        bias = 0.0 if bias is None else bias
        rounded = round_tensor(x, *ranges[operator.inputs[0]]) @ round_weights(weights).T + bias
        exact, rounded = x @ weights.T + bias, round_tensor(rounded, *ranges[operator.output])
        if operator.before_gelu:
            exact, rounded = seen_by_gelu(exact), seen_by_gelu(rounded)
        found[operator.index] = snr_db(exact, rounded)
    return found


def _sqnr(exact, received):
    pairs = [(exact[k], received[k]) for k in exact] if isinstance(exact, dict) else [(exact, received)]
    return min(checks.compare(x, y)["sqnr_db"] for x, y in pairs)
