"""A preset's quantized file from the float file: channels equalised, ranges measured, operators quantized."""

import os
from dataclasses import dataclass

import numpy as np

from . import checks
from .calibrate import collect
from .centre import centre_keys, centre_values, key_sites, measure_means, value_sites
from .equalize import equalize, find_sites
from .file_graph import Graph
from .operators import read_operators
from .quantize import quantize, quantize_everything
from .runtime import TFLiteRunner
from .sensitivity import keep_float
from .unseen import seen_by_gelu

HEADROOM = 2  # int16 ranges, times those seen: of 16 bits one is to spare for images that go beyond
SAME = 1e-4  # of the largest output: how far an equalised float file may be from the one before
PROOFS = 4  # images on which that is checked


@dataclass(frozen=True)
class Quantized:
    """What was done.

    Attributes:
        equalized: tuple of `Equalized`, the sites whose channels were scaled.
        centred: int, the number of projections of keys and values that were centred.
        kept_float: tuple of str, labels of dense layers that a search left in float.
        float_path: str, the float file that was quantized: equalised and centred.
    """

    equalized: tuple = ()
    centred: int = 0
    kept_float: tuple = ()
    float_path: str = ""


def quantize_post_training(float_path, path, preset, images=None, pixel_input=True, num_threads=2, bar=None):
    """Writes a quantized file.

    Args:
        float_path: str, float32 `.tflite` file; changed copies of it are left beside it.
        path: str, the file to write.
        preset: `Preset`.
        images: None, or array (N, H, W, C), as the file takes them. Without any, channels are not equalised, and a
            preset with static operators cannot be made.
        pixel_input: bool, whether the file takes 0...255: the range of its input is then known.
        num_threads: int >= 1. Default 2.
        bar: None, or a `Progress`.

    Returns:
        `Quantized`.

    Raises:
        ExportError: if an equalised file computes something else than the one before.
    """
    stage, over = (bar.stage, bar.images) if bar else (lambda name: None, lambda steps: steps)
    folder = os.path.dirname(float_path)
    operators = read_operators(float_path)
    modes = {operator.index: preset.mode(operator) for operator in operators}
    sites, centred = (), 0
    if images is not None:
        stage("equalising channels")
        target = os.path.join(folder, "equalized.tflite")
        static = {index for index, mode in modes.items() if mode == "static"}
        found = equalize(float_path, target, images, static, num_threads, over)
        sites = tuple(site for site in found if site.strength)
        if sites:
            check_same(float_path, target, images[:PROOFS], num_threads)
            float_path, operators = target, read_operators(target)
            modes = {operator.index: preset.mode(operator) for operator in operators}
        static = {o.index for o in operators if modes[o.index] == "static"}
        if any(o.role in ("scores", "mix") and o.index in static for o in operators):
            stage("centring keys and values")
            target = os.path.join(folder, "centred.tflite")
            centred = centre(float_path, target, operators, static, images, num_threads, over)
        if centred:
            float_path, operators = target, read_operators(target)
    if preset.everything:
        stage("measuring ranges")
        quantize_everything(
            float_path,
            path,
            preset.everything,
            _all_ranges(float_path, preset, images, pixel_input, num_threads, over),
            _before_the_stem(float_path) if preset.everything == 16 else (),
        )
        return Quantized(sites, centred, (), float_path)
    ranges, kept = {}, ()
    if "static" in modes.values():
        stage("measuring ranges")
        ranges = measure_ranges(float_path, operators, modes, preset, images, pixel_input, num_threads, over)
    if preset.searches:
        stage("searching layers to keep in float")
        modes, kept = keep_float(float_path, operators, modes, ranges, images, num_threads)
    stage("quantizing")
    quantize(float_path, path, operators, modes, ranges)
    return Quantized(sites, centred, kept, float_path)


def centre(float_path, target, operators, static, images, num_threads=2, progress=None):
    """Writes a float file with keys and values centred; returns how many, without a file if none.

    Args:
        float_path: str, float32 `.tflite` file.
        target: str, the file to write; the same function.
        operators: list of `Operator`, of the same file.
        static: set of indices of the operators that will compute in static ranges: keys and values are centred
            where the products that read them do.
        images: array (N, H, W, C), as the file takes them.
        num_threads: int >= 1. Default 2.
        progress: None, or a function that wraps an iterable, such as tqdm.

    Raises:
        ExportError: if the file computes something else than the one before.
    """
    graph = Graph(float_path)
    keys, values = key_sites(graph, operators, static), value_sites(graph, find_sites(graph, operators), static)
    projections = [*keys, *(value for value, _ in values)]
    if projections:
        means = measure_means(float_path, [p.output for p in projections], images, num_threads, progress)
        centre_keys(graph, keys, means)
        centre_values(graph, values, means)
        graph.write(target)
        check_same(float_path, target, images[:PROOFS], num_threads)
    return len(projections)


def measure_ranges(float_path, operators, modes, preset, images, pixel_input, num_threads=2, progress=None):
    """Ranges of the activations of all static operators: dict of tensor name -> (low, high).

    Where two operators share a tensor, the one that chooses its ranges in another way than by the extremes decides.
    What a GELU behind doesn't see is left out.
    """
    methods = {}
    for operator in operators:
        if modes[operator.index] == "static":
            method = preset.ranges.get(operator.role, "min_max")
            for name in (*operator.inputs, operator.output):
                if methods.get(name, "min_max") == "min_max":
                    methods[name] = method
    counted = [name for name, method in methods.items() if method != "min_max"]
    found = collect(float_path, methods, images, counted, num_threads, progress)
    ranges = {name: found[name].range(method) for name, method in methods.items()}
    seen = {o.output for o in operators if o.before_gelu} & set(ranges)
    ranges |= {name: tuple(seen_by_gelu(ranges[name])) for name in seen}
    if pixel_input:
        ranges |= {name: (0.0, 255.0) for name in _graph_inputs(float_path) if name in ranges}
    return ranges


def _all_ranges(float_path, preset, images, pixel_input, num_threads, progress):
    """Ranges of every float activation of the graph, wider than seen where there are 16 bits."""
    graph = Graph(float_path)
    names = {graph.name(t) for operator in graph.operators for t in operator.outputs if graph.is_float(t)}
    names |= set(_graph_inputs(float_path))
    method = preset.ranges.get("", "min_max")
    found = collect(float_path, names, images, names if method != "min_max" else (), num_threads, progress)
    room = HEADROOM if preset.everything == 16 else 1
    ranges = {name: tuple(room * end for end in statistics.range(method)) for name, statistics in found.items()}
    return ranges | ({name: (0.0, 255.0) for name in _graph_inputs(float_path)} if pixel_input else {})


def _before_the_stem(float_path):
    """Outputs of the operators that normalise pixels: LiteRT's int16 subtraction refuses their ranges."""
    graph = Graph(float_path)
    return [graph.name(graph.operators[i].outputs[0]) for i in sorted(checks.pixel_operators(graph.model))]


def _graph_inputs(path):
    graph = Graph(path)
    return [graph.name(t) for t in graph.inputs]


def check_same(before, after, images, num_threads=2):
    """Checks that two float files compute the same."""
    first, second = (_rows(TFLiteRunner(path, num_threads)(images)) for path in (before, after))
    bound = SAME * max(1.0, max(float(np.abs(x).max()) for x in first))
    worst = max(float(np.abs(x - y).max()) for x, y in zip(first, second, strict=True))
    checks.require_check("equalisation", worst <= bound, f"max |difference| <= {bound:.1e} in float", f"{worst:.1e}")


def _rows(outputs):
    return list(outputs.values()) if isinstance(outputs, dict) else [outputs]
