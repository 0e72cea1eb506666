"""From a model of pixels to a float32 `.tflite` file.

The graph is frozen and converted as it is: by way of a SavedModel on disk, which TensorFlow writes once and reads
twice, it takes twice the time. What that way gives besides, the signature's names, is added here.
"""

from vitkeras._optional import require

from .graph import serving_module, tensorflow
from .quiet import quiet

SIGNATURE = "serving_default"


def convert(model, path):
    """Writes the float32 file: batch 1, a named signature, builtin operators only.

    Args:
        model: from `export_model`.
        path: str, the file to write.
    """
    tf = tensorflow()
    with quiet():
        module = serving_module(model, batch_size=1)
        function = module.serve.get_concrete_function()
        names = sorted(function.structured_outputs)  # a dict flattens in this order
        converter = tf.lite.TFLiteConverter.from_concrete_functions([function], module)
        converter.experimental_lower_to_saved_model = False
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
        data = converter.convert()
    with open(path, "wb") as file:
        file.write(data)
    del data, converter, function, module
    _name_ends(path, names)


def _name_ends(path, names):
    """Adds the signature: `image` in, the named outputs out."""
    tools = require("ai_edge_litert.tools.flatbuffer_utils", "ai-edge-litert", "exporting", extra="export")
    schema = require("ai_edge_litert.schema_py_generated", "ai-edge-litert", "exporting", extra="export")
    model = tools.read_model(path)
    graph = model.subgraphs[0]

    def entry(name, tensor):
        found = schema.TensorMapT()
        found.name, found.tensorIndex = name.encode(), int(tensor)
        return found

    signature = schema.SignatureDefT()
    signature.signatureKey, signature.subgraphIndex = SIGNATURE.encode(), 0
    signature.inputs = [entry("image", graph.inputs[0])]
    signature.outputs = [entry(name, tensor) for name, tensor in zip(names, graph.outputs, strict=True)]
    model.signatureDefs = [signature]
    tools.write_model(model, path)
