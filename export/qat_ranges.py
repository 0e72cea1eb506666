"""From the names of a model's quantizers to the tensors of its float `.tflite` file, and that file in int8.

The converter renames layers (`key` becomes `key_1/MatMul;...`) and fuses them, but keeps the operators of a matrix
product: each is found by its layer's name, and its operands get the ranges of the quantizers around it.
"""

import re
from dataclasses import dataclass

from vitkeras._optional import require

from .checks import read_graph
from .fake_quant import PURPOSE
from .file_graph import Graph
from .operators import read_operators
from .quantize import quantize

PIXELS = (0.0, 255.0)  # whole numbers: exact with the scale 1
# Dense layers of a block: path below it -> quantizers of its input and output; () for those of dynamic kernels.
_DENSE = {
    "attention/query": ("attention_input", "query"),
    "attention/key": ("attention_input", "key"),
    "attention/value": ("attention_input", "value"),
    "attention/out": (),
    "mlp/Dense_0": ("mlp_input", "hidden"),
    "mlp/Dense_1": (),
}
# Batch matrix products of a block: the ends of their names -> left operand, right operand, output.
_PRODUCTS = {"attention/MatMul": ("query", "key", "scores"), "attention/MatMul_1": ("even_weights", "value", "context")}


def quantize_learned(float_path, path, ranges, scales):
    """Quantizes dense layers, convolutions and batch matrix products to int8, static where ranges are known.

    Args:
        float_path: str, the float32 `.tflite` file of a `baked_model`, which takes pixels; the scales are put in.
        path: str, the file to write; its weights lie inside the flatbuffer.
        ranges: dict from `activation_ranges`.
        scales: dict from `take_scales`.

    Raises:
        ImportError: if ai-edge-quantizer is missing; the extra is named.
        ValueError: if a range belongs to no operator.
    """
    if scales:
        _insert_scales(float_path, ranges, scales)
    products = read_products(read_graph(float_path), ranges)
    static = {product.output for product in products if product.ranges}
    operators = read_operators(float_path)
    modes = {o.index: "static" if o.output in static else "dynamic" if o.weight_shape else "float" for o in operators}
    measured = {tensor: ends for product in products for tensor, ends in product.ranges.items()}
    quantize(float_path, path, operators, modes, measured)


def _insert_scales(path, ranges, scales):
    """Lets the products behind a LayerNorm read its output times the scales."""
    graph = Graph(path)
    tensors = {}
    for operator, kind in zip(graph.operators, graph.kinds):
        if kind == "FULLY_CONNECTED":
            site = next(iter(_dense_quantizers(graph.name(operator.outputs[0]), ranges)), None)
            if site in scales:
                tensors.setdefault(operator.inputs[0], site)
    for tensor, site in tensors.items():
        graph.insert_multiplication(tensor, scales[site])
    graph.write(path)


@dataclass(frozen=True)
class Product:
    """A matrix product or convolution of a float file.

    Attributes:
        kind: str, the operator's name.
        output: str, name of the tensor that leaves.
        ranges: dict of tensor name -> (least, greatest) of its operands and its output; empty where it is dynamic.
    """

    kind: str
    output: str
    ranges: dict


def read_products(graph, ranges):
    """Returns a list of `Product`, in the order of the graph.

    Args:
        graph: LiteRT's object tree of a float file, from `checks.read_graph`.
        ranges: dict from `activation_ranges`.

    Raises:
        ValueError: if an attention's product has no ranges, or a range no operator.
    """
    tools = require("ai_edge_litert.tools.flatbuffer_utils", "ai-edge-litert", PURPOSE, extra="export")
    text = [tensor.name.decode() for tensor in graph.subgraphs[0].tensors]
    found, used = [], set()
    for operator in graph.subgraphs[0].operators:
        kind = tools.opcode_to_name(graph, operator.opcodeIndex)
        inputs, output = list(operator.inputs), operator.outputs[0]
        if kind in ("FULLY_CONNECTED", "CONV_2D"):
            names, operands = _dense_quantizers(text[output], ranges), (inputs[0], output)
        elif kind == "BATCH_MATMUL":
            names, operands = _product_quantizers(text[output], ranges), (*inputs, output)
        else:
            continue
        used |= set(names)
        values = {text[i]: PIXELS if name is None else ranges[name] for name, i in zip(names, operands)}
        found.append(Product(kind, text[output], values))
    if unused := sorted(set(ranges) - used):
        raise ValueError(f"the file must have an operator for each range, {unused[0]!r} has none.")
    return found


def _dense_quantizers(name, ranges):
    """(input's, output's) quantizer of the layer that an output's name tells, None for the image; () for none."""
    blocks = {name.split("/")[0] for name in ranges if name.endswith("/scores")}
    for segment in name.split(";"):
        path = _layers(segment)
        for block in blocks & set(path):
            inner = "/".join(path[path.index(block) + 1 :][:2])
            if inner in _DENSE:
                return [f"{block}/{site}" for site in _DENSE[inner]]
        for layer in path:
            if f"{layer}/output" in ranges:
                return [None, f"{layer}/output"]
    return ()


def _product_quantizers(name, ranges):
    for segment in name.split(";"):
        path = _layers(segment)
        for index, block in enumerate(path):
            sites = _PRODUCTS.get("/".join(path[index + 1 :]).removesuffix("/"))
            if sites and f"{block}/scores" in ranges:
                names = [f"{block}/{site}" for site in sites]
                return names if ranges.keys() >= set(names) else ()  # a float mix
    raise ValueError(f"a batch matrix product of the file must be of an attention with ranges, received {name!r}.")


def _layers(segment):
    """The parts of a tensor's name, without the number that a second tracing appends to all but the last."""
    *layers, last = segment.split("/")
    return [re.sub(r"(?<=\w)_1$", "", layer) for layer in layers] + [last]
