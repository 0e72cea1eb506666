"""Values with a mean of zero in the float file, a change that leaves its function alone and helps int8 attention.

Int8 rounds many of a softmax's small weights to nothing, and what they weigh is lost: each token's mix of values
shrinks towards zero. The weights of a row sum to 1, so a constant may be taken off all values and added behind the
mix: with the values' mean taken off, what is lost weighs nothing on average. Both constants go into biases:

    value: b - m        out: b + W m
"""

import numpy as np

from .activations import watched
from .file_graph import SCALES

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
        if mix in mixes and weights is not None and graph.kinds[weights] == "SOFTMAX":
            found.append((value, out))
    return found


def measure_means(path, names, images, num_threads=2, progress=None):
    """Means of the rows of some tensors over images, at most 64: dict of name -> float32 array (D,)."""
    sums, chosen = {}, images[:MOST]
    with watched(path, names, num_threads) as run:
        for image in progress(chosen) if progress else chosen:
            for name, values in run(image).items():
                sums[name] = sums.get(name, 0) + values.reshape(-1, values.shape[-1]).mean(axis=0, dtype="float64")
    return {name: (total / len(chosen)).astype("float32") for name, total in sums.items()}
