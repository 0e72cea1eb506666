"""Checks of files with several signatures, each a subgraph of its own; like `checks`, they fail closed."""

import os

from vitkeras._optional import require

from .checks import MAX_RANK, check_buffers, read_graph, require_check
from .flatbuffer import write_model
from .runtime import TFLiteRunner, is_fully_accelerated

# Operators that read or change state which lives in the interpreter.
_STATEFUL = {"CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE"}


def _tools():
    return require("ai_edge_litert.tools.flatbuffer_utils", "ai-edge-litert", "checking a .tflite file", extra="export")


def _text(name):
    return name.decode(errors="replace") if isinstance(name, bytes) else str(name)


def check_signatures(path, names, float_only):
    """Checks every subgraph: builtins only, no state, rank, static shapes; and that some compute in float.

    Args:
        path: str, a `.tflite` file.
        names: the signatures that it must have, and no others.
        float_only: those of them that must hold no int8 tensor.

    Returns:
        dict of signature -> number of operators.

    Raises:
        ExportError: if a check fails.
    """
    schema = require("ai_edge_litert.schema_py_generated", "ai-edge-litert", "checking a .tflite file", extra="export")
    check_buffers(path)
    graph, tools = read_graph(path), _tools()
    found = {_text(definition.signatureKey): definition.subgraphIndex for definition in graph.signatureDefs or ()}
    require_check("signatures", sorted(found) == sorted(names), f"exactly {sorted(names)}", sorted(found))
    require_check("subgraphs", len(graph.subgraphs) == len(names), f"{len(names)} subgraphs", len(graph.subgraphs))
    custom = [_text(code.customCode) for code in graph.operatorCodes if code.customCode]
    require_check("builtin operators", not custom, "builtin operators only", f"custom operators {custom}")
    counts = {}
    for name in names:
        part = graph.subgraphs[found[name]]
        operators = [tools.opcode_to_name(graph, operator.opcodeIndex) for operator in part.operators or ()]
        stateful = sorted(_STATEFUL & set(operators))
        require_check("no state", not stateful, "no variables", f"{stateful} in {name!r}")
        for tensor in part.tensors:
            shape = [] if tensor.shape is None else list(tensor.shape)
            where = f"of {_text(tensor.name)!r} in {name!r}"
            require_check("rank", len(shape) <= MAX_RANK, f"rank <= {MAX_RANK}", f"shape {shape} {where}")
            signature = shape if tensor.shapeSignature is None else list(tensor.shapeSignature)
            require_check("static shapes", -1 not in signature, "fixed sizes", f"shape {signature} {where}")
            quantized = name in float_only and tensor.type in (schema.TensorType.INT8, schema.TensorType.INT4)
            require_check("float head", not quantized, "a head in float", f"an int8 tensor {where}")
        counts[name] = len(operators)
    return counts


def check_one_partition(path, name, folder):
    """Checks that XNNPACK takes the signature `name` over as a whole; a file with it alone is made in `folder`.

    Returns:
        dict of builtin operator name -> count.
    """
    tools, graph = _tools(), read_graph(path)
    definition = next(d for d in graph.signatureDefs if _text(d.signatureKey) == name)
    graph.subgraphs = [graph.subgraphs[definition.subgraphIndex]]
    definition.subgraphIndex = 0
    graph.signatureDefs = [definition]
    alone = os.path.join(folder, f"{name}.tflite")
    write_model(graph, alone)
    partitions = TFLiteRunner(alone).partitions()
    require_check("partitions", partitions == 1, f"1 XNNPACK partition for {name!r}", partitions)
    require_check("acceleration", is_fully_accelerated(alone), f"all of {name!r} in XNNPACK", "operators outside")
    operators = [tools.opcode_to_name(graph, operator.opcodeIndex) for operator in graph.subgraphs[0].operators]
    return {operator: operators.count(operator) for operator in sorted(set(operators))}
