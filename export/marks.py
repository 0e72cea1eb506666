"""Marks: one repeated number in a converted file, in the place of a large kernel.

TensorFlow's converter holds every weight about ten times over, gigabytes for a ViT-B, and turns and writes them slowly.
It gets a constant of one number instead and keeps it as that number, so that the file tells where the kernel belongs.
"""

import math
from dataclasses import dataclass

import numpy as np

from vitkeras import layers
from vitkeras._optional import require

LARGE = 2**14  # elements of a kernel that gets a mark
FIRST = 1000.0  # the next ones are one more each: float32 has them exactly


@dataclass(frozen=True)
class Mark:
    """A kernel's number.

    Attributes:
        value: float, what is repeated.
        kernel: `keras.Variable`.
        scale: float, by which the converter may multiply the kernel: the one of an attention's queries, 1 / sqrt(d).
    """

    value: float
    kernel: object
    scale: float = 1.0


def marks_of(model, large=LARGE):
    """list of `Mark` for the kernels of a model that have so many elements."""
    scales = {
        id(layer.query.kernel): (layer.query.units // layer.num_heads) ** -0.5
        for layer in model._flatten_layers()
        if isinstance(layer, layers.MultiHeadSelfAttention)
    }
    kernels = [v for v in model.variables if v.name == "kernel" and math.prod(v.shape) >= large]
    return [Mark(FIRST + k, kernel, scales.get(id(kernel), 1.0)) for k, kernel in enumerate(kernels)]


def fill(file, marks):
    """Puts kernels in the places of their marks, turned as the operators there want them.

    Args:
        file: LiteRT's object tree; its buffers change.
        marks: list of `Mark`.

    Returns:
        list of the marks that were filled: those with one place, in an operator that is known here, and not changed but
        for the scale.
    """
    tools = require("ai_edge_litert.tools.flatbuffer_utils", "ai-edge-litert", "exporting", extra="export")
    known = {}  # what a place repeats -> (mark, the kernel's factor there)
    for mark in marks:
        for factor in {np.float32(1), np.float32(mark.scale)}:
            known.setdefault(float(np.float32(mark.value) * factor), (mark, factor))
    graph, places = file.subgraphs[0], {mark.value: [] for mark in marks}
    for operator in graph.operators:
        kind = tools.opcode_to_name(file, operator.opcodeIndex)
        for position, number in enumerate(operator.inputs):
            tensor = graph.tensors[number]
            if number >= 0 and (found := known.get(_repeated(file.buffers[tensor.buffer].data))):
                mark, factor = found
                places[mark.value].append((tensor, kind if position == 1 else None, factor))
    filled = []
    for mark in marks:
        if len(places[mark.value]) != 1:
            continue
        ((tensor, kind, factor),) = places[mark.value]
        turned = _turned(mark.kernel.numpy(), kind)
        if turned is not None and turned.shape == tuple(tensor.shape):
            data = np.ascontiguousarray(turned * factor, "<f4")
            file.buffers[tensor.buffer].data = data.reshape(-1).view("uint8")
            filled.append(mark)
    return filled


def _repeated(data):
    """The number that a buffer of floats repeats, or None."""
    if data is None or not len(data) or len(data) % 4:
        return None
    values = np.frombuffer(data, "<f4")
    return float(values[0]) if (values == values[0]).all() else None


def _turned(kernel, kind):
    """A Keras kernel as the operator wants it, or None where that isn't known."""
    if kind == "FULLY_CONNECTED" and kernel.ndim == 2:
        return kernel.T
    if kind == "CONV_2D" and kernel.ndim == 4:
        return kernel.transpose(3, 0, 1, 2)
    return None
