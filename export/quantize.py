"""Quantized files from the one float file, through ai-edge-quantizer, operator by operator.

An operator's mode says how it computes: "float"; "dynamic", int8 weights and activations quantized on the fly, a row
at a time; "static", int8 weights, activations in ranges that were measured before; "int4", as dynamic with 4-bit
weights, a scale for each 32 inputs of a channel (where 32 doesn't divide the inputs, it is "dynamic": 4-bit weights
with one scale a channel leave XNNPACK); "fp16", float16 weights that the runtime widens once.
"""

import re
import warnings

import numpy as np

from vitkeras._optional import require

from .flatbuffer import write_model
from .quiet import quiet

MODES = ("float", "fp16", "dynamic", "static", "int4")
BLOCK = 32  # inputs of a 4-bit matrix that share a scale
PURPOSE = "int8 export"


def quantize(float_path, path, operators, modes, ranges=None):
    """Writes a quantized file.

    Args:
        float_path: str, a float32 `.tflite` file.
        path: str, the file to write; its weights lie inside the flatbuffer.
        operators: list of `Operator`, from `read_operators(float_path)`.
        modes: dict of operator index -> mode; those that aren't named stay float.
        ranges: dict of tensor name -> (low, high) for every activation of a static operator.

    Raises:
        ImportError: if ai-edge-quantizer is missing; the extra is named.
        ValueError: if a static operator's range is missing.
    """
    recipe, used = _recipe(operators, modes), _ranges(operators, modes, ranges or {})
    _write(float_path, path, recipe, used)


def quantize_dynamic(float_path, path):
    """Quantizes all matrices of a file to int8, activations on the fly; the file may hold several graphs."""
    manager = require("ai_edge_quantizer.recipe_manager", "ai-edge-quantizer", PURPOSE, extra="export")
    types = require("ai_edge_quantizer.qtyping", "ai-edge-quantizer", PURPOSE, extra="export")
    recipe = manager.RecipeManager()
    recipe.add_dynamic_config(".*", types.TFLOperationName.ALL_SUPPORTED, num_bits=8)
    _write(float_path, path, recipe, {})


def quantize_everything(float_path, path, bits, ranges, but=()):
    """Writes a file in which every operator computes in integers.

    Args:
        float_path, path: as for `quantize`.
        bits: 8, with int8 input and output; or 16: int16 activations, int8 weights, float input and output.
        ranges: dict of tensor name -> (low, high) for every activation.
        but: names of the outputs of operators that stay float.
    """
    manager = require("ai_edge_quantizer.recipe_manager", "ai-edge-quantizer", PURPOSE, extra="export")
    types = require("ai_edge_quantizer.qtyping", "ai-edge-quantizer", PURPOSE, extra="export")
    recipe = manager.RecipeManager()
    recipe.add_static_config(".*", types.TFLOperationName.ALL_SUPPORTED, activation_num_bits=bits, weight_num_bits=8)
    if bits == 16:
        for name in (types.TFLOperationName.INPUT, types.TFLOperationName.OUTPUT):
            recipe.add_quantization_config(".*", name, algorithm_key="no_quantize")
    for output in but:
        recipe.add_quantization_config(
            _exactly(output), types.TFLOperationName.ALL_SUPPORTED, algorithm_key="no_quantize"
        )
    _write(float_path, path, recipe, ranges)


def _write(float_path, path, recipe, ranges):
    quantizer = require("ai_edge_quantizer.quantizer", "ai-edge-quantizer", PURPOSE, extra="export")
    calibrated = {name: {"min": np.float32(low), "max": np.float32(high)} for name, (low, high) in ranges.items()}
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of memory: it keeps the tensors to look for their names
        engine = quantizer.Quantizer(float_path)
        engine.load_quantization_recipe(recipe.get_quantization_recipe())
        quantized = engine.quantize(calibrated or None, enable_progress_report=False).quantized_model
    with open(path, "wb") as file:
        file.write(bytes(quantized))
    pull_weights_in(path)


def _recipe(operators, modes):
    """ai-edge-quantizer's recipe with one line an operator."""
    manager = require("ai_edge_quantizer.recipe_manager", "ai-edge-quantizer", PURPOSE, extra="export")
    types = require("ai_edge_quantizer.qtyping", "ai-edge-quantizer", PURPOSE, extra="export")
    tensor, names = types.TensorQuantizationConfig, types.TFLOperationName
    eight = tensor(num_bits=8, symmetric=True, granularity=types.QuantGranularity.CHANNELWISE)
    blocks = types.QuantGranularity(f"BLOCKWISE_{BLOCK}")
    integer = {"compute_precision": types.ComputePrecision.INTEGER, "explicit_dequantize": False}
    static = types.OpQuantizationConfig(
        activation_tensor_config=tensor(num_bits=8, symmetric=False), weight_tensor_config=eight, **integer
    )
    half = tensor(num_bits=16, symmetric=True, dtype=types.TensorDataType.FLOAT)
    configurations = {
        "fp16": types.OpQuantizationConfig(
            weight_tensor_config=half, compute_precision=types.ComputePrecision.FLOAT, explicit_dequantize=True
        ),
        "dynamic": types.OpQuantizationConfig(weight_tensor_config=eight, **integer),
        "int4": types.OpQuantizationConfig(
            weight_tensor_config=tensor(num_bits=4, symmetric=True, granularity=blocks), **integer
        ),
        "static": static,
    }
    recipe = manager.RecipeManager()
    for operator in operators:
        mode = modes.get(operator.index, "float")
        if mode == "float":
            continue
        if mode == "int4" and operator.weight_shape[-1] % BLOCK:
            mode = "dynamic"
        more = {"algorithm_key": "float_casting"} if mode == "fp16" else {}
        recipe.add_quantization_config(_exactly(operator.output), names(operator.kind), configurations[mode], **more)
        if mode == "static":
            for output, kind in operator.moves:
                recipe.add_quantization_config(_exactly(output), names(kind), static)
    return recipe


def _exactly(output):
    """The regular expression that finds one operator: it is known by its outputs' names, a semicolon after each."""
    return f"^{re.escape(output)};$"


def _ranges(operators, modes, ranges):
    """The ranges that static operators need, those of right operands made symmetric."""
    used = {}
    for operator in operators:
        if modes.get(operator.index) != "static":
            continue
        for name in (*operator.inputs, operator.output):
            if name not in ranges:
                raise ValueError(f"ranges must have one for {name!r}, an activation of {operator.label!r}.")
            used.setdefault(name, ranges[name])
    for operator in operators:
        if modes.get(operator.index) == "static" and operator.kind == "BATCH_MATMUL":
            used[operator.inputs[1]] = around_zero(*used[operator.inputs[1]])
    for operator in operators:  # what only moves keeps its range all the way
        if modes.get(operator.index) == "static":
            for names in operator.chains:
                used |= dict.fromkeys(names, used[names[0]])
    return used


def around_zero(low, high):
    """The smallest range with zero-point 0 that holds another: XNNPACK asks it of a product's right operand."""
    scale = max(-low / 128, high / 127, 1e-12)
    return -128 * scale, 127 * scale


def pull_weights_in(path):
    """Rewrites a file whose weights lie behind the flatbuffer: some runtimes find no data there."""
    tools = require("ai_edge_litert.tools.flatbuffer_utils", "ai-edge-litert", PURPOSE, extra="export")
    write_model(tools.read_model(path), path)
