"""From a model of pixels to a float32 `.tflite` file.

The function that is converted has no variables: with a SavedModel on disk, which TensorFlow writes once and reads
twice, it takes more time. What that way gives besides, the signature's names, is added here.
"""

import re

import keras

from vitkeras._optional import require

from .flatbuffer import write_model
from .graph import tensorflow
from .marks import LARGE, fill, marks_of
from .outputs import named_outputs
from .quiet import quiet
from .report import ExportError

SIGNATURE = "serving_default"


def convert(model, path, large=LARGE):
    """Writes the float32 file: batch 1, a named signature, builtin operators only.

    Args:
        model: from `export_model`.
        path: str, the file to write.
        large: int, elements of a kernel from which it is put into the file afterwards (`marks.py`). Default 2**14.
    """
    marks = marks_of(model, large)
    while True:
        file, names = _converted(model, marks)
        filled = fill(file, marks)
        if len(filled) == len(marks):
            break
        marks = filled  # the others' kernels are converted as they are
    _name_ends(file, names)
    write_model(file, path)


def _converted(model, marks):
    """(LiteRT's object tree, names of the outputs) of the model with marks for kernels."""
    tf = tensorflow()
    tools = require("ai_edge_litert.tools.flatbuffer_utils", "ai-edge-litert", "exporting", extra="export")
    numbers = {id(mark.kernel): mark.value for mark in marks}
    values = [numbers[id(v)] if id(v) in numbers else v.numpy() for v in model.variables]
    signature = [tf.TensorSpec((1, *model.inputs[0].shape[1:]), "float32", name="image")]

    def serve(image):
        constants = [tf.constant(x, v.dtype, v.shape) for v, x in zip(model.variables, values)]
        with keras.StatelessScope(state_mapping=list(zip(model.variables, constants))):
            return named_outputs(model, image)

    with quiet():
        function = tf.function(serve, signature, autograph=False).get_concrete_function()
        names = sorted(function.structured_outputs)  # a dict flattens in this order
        converter = tf.lite.TFLiteConverter.from_concrete_functions([function])
        converter.experimental_lower_to_saved_model = False
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
        data = run_converter(converter, function.graph)
    return tools.read_model_from_bytearray(data), names


def run_converter(converter, *graphs):
    """The bytes that TensorFlow's converter gives.

    Args:
        converter: `tf.lite.TFLiteConverter`.
        graphs: TensorFlow graphs of the functions, in which the layers of refused operators are looked for.

    Raises:
        ExportError: for operators that TFLite has not; one of each is named with its layer.
    """
    try:
        return converter.convert()
    except Exception as error:  # ConverterError is an Exception, in a module that is not public
        if type(error).__name__ != "ConverterError":
            raise
        text = str(error)
        kinds = sorted(set(re.findall(r"'tf\.(\w+)' op is neither", text)))
        first = {}
        for operation in (o for graph in graphs for o in graph.get_operations() if o.type in kinds):
            first.setdefault(operation.type, operation.name)
        named = ", ".join(f"{kind} of {first.get(kind, 'an unnamed layer')!r}" for kind in kinds)
        raise ExportError(
            "export check 'builtin operators' failed: expected operators that TFLite has, received "
            f"{named or text.strip().splitlines()[0]}; nothing was written."
        ) from error


def _name_ends(file, names):
    """Adds the signature: `image` in, the named outputs out."""
    schema = require("ai_edge_litert.schema_py_generated", "ai-edge-litert", "exporting", extra="export")
    graph = file.subgraphs[0]

    def entry(name, tensor):
        found = schema.TensorMapT()
        found.name, found.tensorIndex = name.encode(), int(tensor)
        return found

    signature = schema.SignatureDefT()
    signature.signatureKey, signature.subgraphIndex = SIGNATURE.encode(), 0
    signature.inputs = [entry("image", graph.inputs[0])]
    signature.outputs = [entry(name, tensor) for name, tensor in zip(names, graph.outputs, strict=True)]
    file.signatureDefs = [signature]
