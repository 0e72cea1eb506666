"""The checks that end every export. Each fails with an `ExportError` that says what was expected and what came.

Legend: N images, K outputs.
"""

import collections
import os

import numpy as np

from vitkeras._optional import require

from .report import ExportError

MAX_RANK = 4  # XNNPACK and the GPU delegates take no more
# Operators that LiteRT's CPU runtime computes without state, and that the GPU delegates know. BROADCAST_TO, which these
# refuse, is not among them, nor are variables, control flow and random numbers.
ALLOWED = frozenset(
    "ABS ADD AVERAGE_POOL_2D BATCH_MATMUL CAST CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEQUANTIZE DIV ELU EXP "
    "EXPAND_DIMS FULLY_CONNECTED GATHER GELU HARD_SWISH LEAKY_RELU LOGISTIC MAX_POOL_2D MAXIMUM MEAN MINIMUM MUL NEG "
    "PACK PAD PADV2 POW PRELU QUANTIZE REDUCE_MAX RELU RELU6 RESHAPE RESIZE_BILINEAR RSQRT SLICE SOFTMAX SPLIT SQRT "
    "SQUARE SQUARED_DIFFERENCE SQUEEZE STRIDED_SLICE SUB SUM TANH TOPK_V2 TRANSPOSE UNPACK".split()
)


def require_check(name, passed, expected, received):
    """Raises `ExportError` unless `passed`."""
    if not passed:
        raise ExportError(
            f"export check {name!r} failed: expected {expected}, received {received}; nothing was written."
        )


def read_graph(path):
    """Reads a `.tflite` file as LiteRT's object tree; raises `ExportError` for a file that is none."""
    tools = require(
        "ai_edge_litert.tools.flatbuffer_utils", "ai-edge-litert", "checking a .tflite file", extra="export"
    )
    data = bytearray(os.path.getsize(path))
    with open(path, "rb") as file:
        file.readinto(data)
    require_check("file", data[4:8] == b"TFL3", "a TFLite flatbuffer", repr(bytes(data[:8])))
    return tools.read_model_from_bytearray(data)


def check_graph(path):
    """Checks builtins that devices have, one graph, static shapes, rank, and weights inside the file.

    Returns:
        dict of operator name -> count.
    """
    tools = require(
        "ai_edge_litert.tools.flatbuffer_utils", "ai-edge-litert", "checking a .tflite file", extra="export"
    )
    check_buffers(path)
    graph = read_graph(path)
    require_check("one graph", len(graph.subgraphs) == 1, "1 subgraph", len(graph.subgraphs))
    custom = [_text(code.customCode) for code in graph.operatorCodes if code.customCode]
    require_check("builtin operators", not custom, "builtin operators only", f"custom operators {custom}")
    for tensor in graph.subgraphs[0].tensors:
        name, shape = _text(tensor.name), [] if tensor.shape is None else list(tensor.shape)
        require_check("rank", len(shape) <= MAX_RANK, f"rank <= {MAX_RANK}", f"shape {shape} of {name!r}")
        signature = shape if tensor.shapeSignature is None else list(tensor.shapeSignature)
        require_check("static shapes", -1 not in signature, "fixed sizes", f"shape {signature} of {name!r}")
    names = [tools.opcode_to_name(graph, operator.opcodeIndex) for operator in graph.subgraphs[0].operators]
    for operator, kind in zip(graph.subgraphs[0].operators, names):
        place = _text(graph.subgraphs[0].tensors[operator.outputs[0]].name) if len(operator.outputs) else "no output"
        require_check("allowed operators", kind in ALLOWED, "operators that devices have", f"{kind} of {place!r}")
        turned = kind == "BATCH_MATMUL" and (operator.builtinOptions.adjX or operator.builtinOptions.adjY)
        require_check("transposed operands", not turned, "transpositions of their own", f"adj_y of {place!r}")
    return dict(collections.Counter(names))


def _text(name):
    return name.decode(errors="replace") if isinstance(name, bytes) else str(name)


def check_buffers(path):
    """Checks that no weights lie behind the flatbuffer, where some runtimes do not find them."""
    schema = require("ai_edge_litert.schema_py_generated", "ai-edge-litert", "checking a .tflite file", extra="export")
    with open(path, "rb") as file:
        model = schema.Model.GetRootAs(file.read())
    outside = sum(model.Buffers(i).Offset() > 1 for i in range(model.BuffersLength()))
    require_check("buffers", not outside, "all weights inside the flatbuffer", f"{outside} buffers outside")


def check_size(size_bytes, weight_bytes):
    """Checks that the file can hold the weights: converters have shipped files without them."""
    require_check(
        "weights", size_bytes >= weight_bytes, f"at least {weight_bytes} bytes of weights", f"{size_bytes} bytes"
    )


def check_acceleration(partitions, fully_accelerated):
    """Checks that XNNPACK takes the graph over, whole and in one part."""
    require_check("partitions", partitions == 1, "1 XNNPACK partition", partitions)
    require_check("acceleration", fully_accelerated, "every operator in XNNPACK", "some outside")


def check_integers(path, ends=True):
    """Checks that every operator of a file computes in integers.

    Args:
        path: str, a `.tflite` file.
        ends: bool, whether its input and output must be integers too; if not, pixels may be normalised in float.
    """
    tools = require(
        "ai_edge_litert.tools.flatbuffer_utils", "ai-edge-litert", "checking a .tflite file", extra="export"
    )
    model = read_graph(path)
    graph = model.subgraphs[0]
    floats = {i for i, tensor in enumerate(graph.tensors) if tensor.type == 0}
    allowed = set() if ends else pixel_operators(model)
    inside = {
        tools.opcode_to_name(model, operator.opcodeIndex)
        for i, operator in enumerate(graph.operators)
        if i not in allowed and floats & {*operator.inputs, *operator.outputs}
    } - {"QUANTIZE", "DEQUANTIZE"}
    require_check("integers", not inside, "integer operators only", f"{', '.join(sorted(inside))} in float")
    found = ends and floats & {*graph.inputs, *graph.outputs}
    require_check("integers", not found, "integer input and output", "float ones")


def pixel_operators(model):
    """Set of indices of the operators that normalise pixels: products and differences of input and constants."""
    tools = require(
        "ai_edge_litert.tools.flatbuffer_utils", "ai-edge-litert", "checking a .tflite file", extra="export"
    )
    graph, found = model.subgraphs[0], set()
    made = {t for operator in graph.operators for t in operator.outputs} - set(graph.inputs)
    for i, operator in enumerate(graph.operators):
        if tools.opcode_to_name(model, operator.opcodeIndex) in ("MUL", "SUB") and not made & set(operator.inputs):
            found.add(i)
            made -= set(operator.outputs)
    return found


def compare(reference, received):
    """Compares a file's outputs with the Keras model's.

    Args:
        reference: float array (N, ..., K), the model's.
        received: float array of the same shape, the file's.

    Returns:
        dict: "max_abs_difference", "cosine", "sqnr_db", "top1_agreement" (floats). Two zero vectors have cosine 1.

    Raises:
        ExportError: if shapes differ, or an output of the file isn't finite.
    """
    require_check("output shape", received.shape == reference.shape, reference.shape, received.shape)
    finite = np.isfinite(received)
    require_check("finite outputs", finite.all(), "finite values", f"{np.count_nonzero(~finite)} that are not")
    x, y = reference.astype("float64"), received.astype("float64")
    signal, noise = (x**2).sum(), ((y - x) ** 2).sum()
    norms = np.sqrt(signal * (y**2).sum())
    best = y.reshape(len(y), -1).argmax(axis=1)
    rows = x.reshape(len(x), -1)
    # The model's own ties may fall either way.
    agreement = (rows[np.arange(len(rows)), best] >= rows.max(axis=1) - 1e-6 * max(1, np.abs(x).max())).mean()
    return {
        "max_abs_difference": float(np.abs(y - x).max()),
        "cosine": float((x * y).sum() / norms) if norms else float(not noise),
        "sqnr_db": float(10 * np.log10(signal / noise))
        if noise and signal
        else (float("-inf") if noise else float("inf")),
        "top1_agreement": float(agreement),
    }


def worst(comparisons):
    """Of several results of `compare` the worst number of each kind."""
    return {key: (max if key == "max_abs_difference" else min)(c[key] for c in comparisons) for key in comparisons[0]}


def check_numbers(comparison, reference, preset, needs_agreement):
    """Checks a comparison against the preset's bounds.

    Args:
        comparison: from `compare`.
        reference: the model's outputs.
        preset: `Preset`.
        needs_agreement: bool, whether the same top-1 is required.
    """
    if preset.relative_tolerance is not None:
        bound = preset.relative_tolerance * max(1.0, float(np.abs(reference).max()))
        worst = comparison["max_abs_difference"]
        require_check("difference", worst <= bound, f"max |difference| <= {bound:.1e}", f"{worst:.1e}")
    cosine = comparison["cosine"]
    require_check("cosine", cosine >= preset.least_cosine, f"cosine >= {preset.least_cosine}", f"{cosine:.6f}")
    if needs_agreement:
        agreement, least = comparison["top1_agreement"], preset.least_agreement
        require_check("top-1 agreement", agreement >= least, f"agreement >= {least:.2f}", f"{agreement:.4f}")
