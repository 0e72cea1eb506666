"""From the names of a model's quantizers to the tensors of its float `.tflite` file, and that file in int8.

The converter renames layers (`key` becomes `key_1/MatMul;...`) and fuses them, but keeps the operators of a matrix
product: each is found by its layer's name, and its operands get the ranges of the quantizers around it.
"""

import re
import warnings

import numpy as np

from vitkeras._optional import require

from .checks import read_graph
from .fake_quant import PURPOSE
from .quantize import pull_weights_in
from .quiet import quiet

PIXELS = (0.0, 255.0)  # whole numbers: exact with the scale 1
# Dense layers of a block: path below it -> quantizers of its input and output.
_DENSE = {
    "attention/query": ("attention_input", "query"),
    "attention/key": ("attention_input", "key"),
    "attention/value": ("attention_input", "value"),
    "attention/out": ("context", "attention_output"),
    "mlp/Dense_0": ("mlp_input", "hidden"),
    "mlp/Dense_1": ("activated", "mlp_output"),
}
# Batch matrix products of a block: the ends of their names -> left operand, right operand, output.
_PRODUCTS = {"attention/MatMul": ("query", "key", "scores"), "attention/MatMul_1": ("weights", "value", "context")}


def quantize_learned(float_path, path, ranges):
    """Quantizes dense layers, convolutions and batch matrix products to int8, with ranges that are known.

    Args:
        float_path: str, the float32 `.tflite` file of a `baked_model`, which takes pixels.
        path: str, the file to write; its weights lie inside the flatbuffer.
        ranges: dict from `activation_ranges`.

    Raises:
        ImportError: if ai-edge-quantizer is missing; the extra is named.
        ValueError: if an operator has no range.
    """
    quantizer = require("ai_edge_quantizer.quantizer", "ai-edge-quantizer", PURPOSE, extra="export")
    calibration = {
        name: {"min": np.array(least, "float32"), "max": np.array(greatest, "float32")}
        for name, (least, greatest) in tensor_ranges(read_graph(float_path), ranges).items()
    }
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of memory: it keeps the tensors to look for their names
        engine = quantizer.Quantizer(float_path)
        for operation in ("FULLY_CONNECTED", "CONV_2D", "BATCH_MATMUL"):
            engine.add_static_config(".*", operation, activation_num_bits=8, weight_num_bits=8)
        quantized = engine.quantize(
            calibration, enable_progress_bar=False, enable_progress_report=False
        ).quantized_model
    with open(path, "wb") as file:
        file.write(bytes(quantized))
    pull_weights_in(path)


def tensor_ranges(graph, ranges):
    """Returns dict of tensor name -> (least, greatest) for the operands of every matrix product.

    Args:
        graph: LiteRT's object tree of a float file, from `checks.read_graph`.
        ranges: dict from `activation_ranges`.

    Raises:
        ValueError: if an operator belongs to no quantizer, or a quantizer to no operator.
    """
    tools = require("ai_edge_litert.tools.flatbuffer_utils", "ai-edge-litert", PURPOSE, extra="export")
    tensors = graph.subgraphs[0].tensors
    text = [tensor.name.decode() for tensor in tensors]
    found, used = {}, set()
    for operator in graph.subgraphs[0].operators:
        kind = tools.opcode_to_name(graph, operator.opcodeIndex)
        inputs, outputs = list(operator.inputs), list(operator.outputs)
        if kind in ("FULLY_CONNECTED", "CONV_2D"):
            # The output's name says it, but for the graph's own output.
            names = _dense_quantizers((text[outputs[0]], *(text[i] for i in inputs[1:] if i >= 0)), ranges)
            operands = (inputs[0], outputs[0])
        elif kind == "BATCH_MATMUL":
            names, operands = _product_quantizers(text[outputs[0]], ranges), (*inputs, outputs[0])
        else:
            continue
        for name, index in zip(names, operands):
            used.add(name)
            found[text[index]] = PIXELS if name is None else ranges[name]
    if unused := sorted(set(ranges) - used):
        raise ValueError(f"the file must have an operator for each range, {unused[0]!r} has none.")
    return found


def _dense_quantizers(names, ranges):
    """(input's, output's) quantizer of the layer that one of `names` tells; None is the image."""
    blocks = {name.split("/")[0] for name in ranges if name.endswith("/scores")}
    for name in names:
        for segment in name.split(";"):
            path = _layers(segment)
            for block in blocks & set(path):
                inner = "/".join(path[path.index(block) + 1 :][:2])
                if inner in _DENSE and "norm" not in inner:
                    return [f"{block}/{site}" for site in _DENSE[inner]]
            for layer in path:
                if f"{layer}/output" in ranges:
                    source = f"{layer}/input"
                    return [source if source in ranges else None, f"{layer}/output"]
    raise ValueError(f"a matrix product of the file must belong to a layer with ranges, received {names[0]!r}.")


def _product_quantizers(name, ranges):
    for segment in name.split(";"):
        path = _layers(segment)
        for index, block in enumerate(path):
            sites = _PRODUCTS.get("/".join(path[index + 1 :]).removesuffix("/"))
            if sites and f"{block}/scores" in ranges:
                return [f"{block}/{site}" for site in sites]
    raise ValueError(f"a batch matrix product of the file must be of an attention with ranges, received {name!r}.")


def _layers(segment):
    """The parts of a tensor's name, without the number that a second tracing appends to all but the last."""
    *layers, last = segment.split("/")
    return [re.sub(r"(?<=\w)_1$", "", layer) for layer in layers] + [last]
