"""Whole pixels, 0...255, as a file's input."""

import numpy as np

from vitkeras._optional import require

from .checks import read_graph
from .flatbuffer import write_model

INPUT_DTYPES = ("float32", "uint8")


def check_input_dtype(input_dtype, pixel_input):
    """Raises ValueError for an unknown dtype, or for uint8 where the file does not take pixels."""
    if input_dtype not in INPUT_DTYPES:
        raise ValueError(f"input_dtype must be one of {INPUT_DTYPES}, received {input_dtype!r}.")
    if input_dtype == "uint8" and not pixel_input:
        raise ValueError("input_dtype 'uint8' needs pixel_input=True, received False: -1...1 has no whole values.")


def take_uint8(path):
    """Rewrites a `.tflite` file whose float input is pixels so that it takes them as uint8.

    The input becomes a uint8 tensor of scale 1 and zero-point 0, and a DEQUANTIZE before the graph makes floats of it,
    without loss. XNNPACK takes that operator into its partition; a CAST stays outside.

    Args:
        path: str, a file from `convert`, quantized or not.
    """
    schema = require("ai_edge_litert.schema_py_generated", "ai-edge-litert", "exporting", extra="export")
    model = read_graph(path)
    graph = model.subgraphs[0]
    (old,) = graph.inputs
    pixels = schema.TensorT()
    pixels.name = "pixels"
    pixels.type = schema.TensorType.UINT8
    pixels.shape = np.array(graph.tensors[old].shape, "int32")
    pixels.buffer = 0  # the empty one
    pixels.quantization = schema.QuantizationParametersT()
    pixels.quantization.scale = np.array([1.0], "float32")
    pixels.quantization.zeroPoint = np.array([0], "int64")
    code = schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.DEQUANTIZE
    code.version = 1
    to_float = schema.OperatorT()
    to_float.opcodeIndex = len(model.operatorCodes)
    to_float.inputs = np.array([len(graph.tensors)], "int32")
    to_float.outputs = np.array([old], "int32")
    model.operatorCodes.append(code)
    graph.tensors.append(pixels)
    graph.operators.insert(0, to_float)
    graph.inputs = to_float.inputs
    for tensor in [entry for signature in model.signatureDefs for entry in signature.inputs]:
        tensor.tensorIndex = len(graph.tensors) - 1
    write_model(model, path)
