"""Keys and values with a mean of zero in the float file, which leaves its function alone and helps int8 attention.

Int8 rounds many of a softmax's small weights to nothing, and what they weigh is lost: each token's mix of values
shrinks towards zero. The weights of a row sum to 1, so a constant may be taken off all values and added behind the
mix: with the values' mean taken off, what is lost weighs nothing on average. Both constants go into biases:

    value: b - m        out: b + W m

A constant taken off all keys takes the same number off all scores of a row, which the softmax does not see: keys and
scores without their mean reach less far, so that their levels lie closer.

    key: b - m
"""

import numpy as np

from .activations import watched
from .file_graph import MOVES, SCALES

MOST = 64  # images


def centre_values(graph, sites, means):
    """Takes means off the values and adds them behind the mix.

    Args:
        graph: `Graph` of a float file; its biases change.
        sites: from `value_sites`.
        means: dict of the name of a value projection's output -> array (D,), the mean of its rows.
    """
    for value, out in sites:
        mean = means[value.output]
        graph.set_bias(value.index, bias_of(graph, value) - mean)
        graph.set_bias(out.index, bias_of(graph, out) + graph.weights(out.index) @ mean)


def centre_keys(graph, keys, means):
    """Takes means off the keys, as `centre_values` does; `keys` are from `key_sites`."""
    for key in keys:
        graph.set_bias(key.index, bias_of(graph, key) - means[key.output])


def bias_of(graph, operator):
    """float32 array (F,), a dense layer's bias; zeros where it has none."""
    bias = graph.bias(operator.index)
    return np.zeros(operator.weight_shape[0], "float32") if bias is None else bias


def value_sites(graph, sites, mixes):
    """The pairs (value projection, `out`) around an attention whose mix of values is one of `mixes`.

    Args:
        graph: `Graph`.
        sites: list of `Site`, from `find_sites`; those of kind "value" are looked at.
        mixes: set of operators' indices.
    """
    found = []
    for site in sites:
        if site.kind != "value":
            continue
        value, out = site.source, site.products[0]
        mix, _ = graph.back(graph.operators[out.index].inputs[0], SCALES)
        weights, _ = graph.back(graph.operators[mix].inputs[0], SCALES)
        rows_sum_to_1 = weights is not None and graph.kinds[weights] == "SOFTMAX"
        if mix in mixes and rows_sum_to_1 and not _fused(graph, value.index):
            found.append((value, out))
    return found


def key_sites(graph, operators, scores):
    """The key projections that enter one of `scores` and nothing else, where these end in a softmax.

    Args:
        graph: `Graph`.
        operators: list of `Operator`, of the same file.
        scores: set of operators' indices.
    """
    found = []
    for key in operators:
        if key.role == "key" and not _fused(graph, key.index):
            product = _only_reader(graph, graph.operators[key.index].outputs[0], MOVES)
            if product in scores and _ends_in_softmax(graph, graph.operators[product].outputs[0]):
                found.append(key)
    return found


def _only_reader(graph, tensor, through):
    """Index of the one operator that reads a tensor's numbers behind some kinds of operators, or None."""
    readers = graph.consumers.get(tensor, ())
    if len(readers) != 1 or tensor in graph.outputs:
        return None
    if graph.kinds[readers[0]] in through:
        return _only_reader(graph, graph.operators[readers[0]].outputs[0], through)
    return readers[0]


def _ends_in_softmax(graph, scores):
    """Whether a number added to a row of scores adds a number to a row of a softmax, and does nothing else."""
    reader = _only_reader(graph, scores, ())
    if reader is None or graph.kinds[reader] == "SOFTMAX":
        return reader is not None
    operator = graph.operators[reader]
    if graph.kinds[reader] == "MUL":  # by one number for all
        others = [graph.tensors[t] for t in operator.inputs if t != scores]
        keeps = not _fused(graph, reader) and all(np.prod(t.shape, dtype=int) == 1 for t in others)
    elif graph.kinds[reader] == "ADD":
        keeps = not _fused(graph, reader)
    else:
        keeps = graph.kinds[reader] == "RESHAPE"
    output = operator.outputs[0]
    same_rows = graph.tensors[output].shape[-1] == graph.tensors[scores].shape[-1]
    return keeps and same_rows and _ends_in_softmax(graph, output)


def _fused(graph, i):
    """Whether an operator ends with an activation."""
    return bool(graph.operators[i].builtinOptions.fusedActivationFunction)


def measure_means(path, names, images, num_threads=2, progress=None):
    """Means of the rows of some tensors over images, at most 64: dict of name -> float32 array (D,)."""
    sums, chosen = {}, images[:MOST]
    with watched(path, names, num_threads) as run:
        for image in progress(chosen) if progress else chosen:
            for name, values in run(image).items():
                sums[name] = sums.get(name, 0) + values.reshape(-1, values.shape[-1]).mean(axis=0, dtype="float64")
    return {name: (total / len(chosen)).astype("float32") for name, total in sums.items()}
