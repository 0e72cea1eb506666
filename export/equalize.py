"""Equalisation of channels in the float file, a change that leaves its function alone and helps int8.

The input of a product has channels of unlike size, and a row shares one int8 range. Channel j of the input is
divided by s_j and column j of the matrix multiplied by it (SmoothQuant, arXiv 2211.10438):

    s_j = max|x_j| ** strength / max|w_j| ** (1 - strength)

Behind a LayerNorm this costs one multiplication by a constant (its scale and offset are already part of the matrix:
the converter folds them); between `value` and `out` it is free, for the attention mixes tokens, not channels. The
strength is searched for each site on real activations, and a site is left alone unless the product gains.

Legend: R rows, D inputs, F outputs.
"""

from dataclasses import dataclass

import numpy as np

from .activations import watched
from .file_graph import SCALES, Graph
from .operators import read_operators
from .rounding import round_rows, round_tensor, round_weights, snr_db

STRENGTHS = (0.25, 0.5, 0.75, 1.0)
LEAST_GAIN = {"norm": 1.0, "value": 0.5}  # decibels; the multiplication behind a LayerNorm must pay for itself
ROWS = 8  # of each image, kept for the search
MOST = 64  # images


@dataclass(frozen=True)
class Site:
    """Where channels can be equalised.

    Attributes:
        kind: "norm", behind a LayerNorm or whatever feeds matrices only, or "value", between `value` and `out`.
        products: list of `Operator` that read the channels.
        source: `Operator` that computes them, for "value"; None for "norm".
    """

    kind: str
    products: tuple
    source: object = None


@dataclass(frozen=True)
class Equalized:
    """What was done at a site: its products' label, the strength (0: nothing), decibels before and after."""

    label: str
    strength: float
    before_db: float
    after_db: float


def equalize(path, target, images, static=(), num_threads=2, progress=None):
    """Writes a float file with equalised channels.

    Args:
        path: str, float32 `.tflite` file.
        target: str, the file to write; the same function.
        images: array (N, H, W, C), as the file takes them.
        static: indices of the operators that will compute in static ranges; the others have one range a row.
        num_threads: int >= 1. Default 2.
        progress: None, or a function that wraps an iterable, such as tqdm.

    Returns:
        list of `Equalized`, one a site.
    """
    graph, operators = Graph(path), read_operators(path)
    sites = find_sites(graph, operators)
    rows, tops = _sample(path, sites, images[:MOST], num_threads, progress)
    report = []
    for site in sites:
        name = site.products[0].inputs[0]
        weights = [graph.weights(product.index) for product in site.products]
        strength, scales, before, after = best_strength(
            rows[name], tops[name], np.concatenate(weights), any(p.index in static for p in site.products)
        )
        if after - before < LEAST_GAIN[site.kind]:
            strength, after = 0.0, before
        else:
            apply_scales(graph, site, scales)
        report.append(Equalized(site.products[0].label, strength, before, after))
    graph.write(target)
    return report


def find_sites(graph, operators):
    """Where the channels of a product's input can be scaled: a list of `Site`."""
    by_index = {operator.index: operator for operator in operators}
    dense = [operator for operator in operators if operator.kind == "FULLY_CONNECTED"]
    sites, seen = [], set()
    for operator in dense:
        tensor = graph.operators[operator.index].inputs[0]
        if operator.role == "out":
            source = _value_of(graph, by_index, operator)
            if source is not None:
                sites.append(Site("value", (operator,), source))
            continue
        readers = graph.consumers[tensor]
        if tensor in seen or tensor in graph.outputs or any(i not in by_index for i in readers):
            continue
        seen.add(tensor)
        sites.append(Site("norm", tuple(by_index[i] for i in readers)))
    return sites


def _value_of(graph, by_index, out):
    """The `value` projection whose channels reach `out` in their own order, or None."""
    mix, _ = graph.back(graph.operators[out.index].inputs[0], SCALES)
    source, _ = graph.back(graph.operators[mix].inputs[1])
    value = by_index.get(source)
    if value is None or value.role != "value" or value.weight_shape[0] != out.weight_shape[1]:
        return None
    return value


def best_strength(rows, tops, weights, static):
    """Searches the strength with the least noise of a product.

    Args:
        rows: array (R, D), inputs.
        tops: array (D,), the largest size of each channel over all rows of all images.
        weights: array (F, D), the matrices that read them, one below the other.
        static: bool, whether the input's range is fixed before.

    Returns:
        (strength, its scales (D,), decibels without, decibels with it).
    """
    exact = rows @ weights.T

    def noise(scales):
        x = rows / scales
        if static:
            ends = np.stack([x.min(axis=0), x.max(axis=0)])
            x = round_tensor(x, min(ends.min(), 0.0), max(ends.max(), 0.0))
        else:
            x = round_rows(x)
        return snr_db(exact, x @ round_weights(weights * scales).T)

    before = noise(np.ones_like(tops))
    found = [
        (noise(scales), strength, scales) for strength in STRENGTHS for scales in [_scales(tops, weights, strength)]
    ]
    after, strength, scales = max(found, key=lambda entry: entry[0])
    return strength, scales, before, after


def _scales(tops, weights, strength):
    """(D,) scales with a geometric mean of 1; a channel that is always zero keeps its size."""
    columns = np.abs(weights).max(axis=0)
    alive = (tops > 0) & (columns > 0)
    logs = np.where(alive, strength * np.log(np.where(alive, tops, 1)), 0)
    logs -= np.where(alive, (1 - strength) * np.log(np.where(alive, columns, 1)), 0)
    logs[alive] -= logs[alive].mean() if alive.any() else 0
    return np.exp(logs).astype("float32")


def apply_scales(graph, site, scales):
    """Divides the channels at a site by `scales` and multiplies the matrices that read them."""
    for product in site.products:
        graph.set_weights(product.index, graph.weights(product.index) * scales)
    if site.kind == "value":
        graph.set_weights(site.source.index, graph.weights(site.source.index) / scales[:, None])
        bias = graph.bias(site.source.index)
        if bias is not None:
            graph.set_bias(site.source.index, bias / scales)
    else:
        graph.insert_multiplication(graph.operators[site.products[0].index].inputs[0], 1 / scales)


def _sample(path, sites, images, num_threads, progress):
    """Rows of each site's input from all images, and the largest size of its channels."""
    names = {site.products[0].inputs[0] for site in sites}
    rows, tops = {name: [] for name in names}, {}
    rng = np.random.default_rng(0)
    with watched(path, names, num_threads) as run:
        for image in progress(images) if progress else images:
            for name, values in run(image).items():
                flat = values.reshape(-1, values.shape[-1])
                top = np.abs(flat).max(axis=0)
                tops[name] = np.maximum(tops[name], top) if name in tops else top
                rows[name].append(flat[rng.choice(len(flat), min(ROWS, len(flat)), replace=False)])
    return {name: np.concatenate(parts) for name, parts in rows.items()}, tops
