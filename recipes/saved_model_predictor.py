"""SavedModels as predictors: those of `to_saved_model`, and of Keras' own `model.export`.

Legend: n images, H and W image size, K outputs.
"""

import numpy as np

from .loading import names_beside
from .predictors import PIXELS, SCALED, Predictor, chosen_output

SIGNATURES = ("serve", "serving_default")
HEADS = {"Softmax": "softmax", "Sigmoid": "sigmoid"}
_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_THROUGH = ("Identity", "IdentityN", "Reshape", "Cast", "StopGradient")


def open_saved_model(path):
    """Opens the folder of a SavedModel by its signature `serve`, or `serving_default`.

    uint8 images are taken as pixels, floats as -1...1, as every model of this library takes them.

    Args:
        path: str.

    Returns:
        `Predictor`.

    Raises:
        ValueError: if the folder can't be loaded, or its signature takes no images or scores no classes.
    """
    from vitkeras._tensorflow import tf

    try:
        loaded = tf.saved_model.load(path)
    except (OSError, ValueError, tf.errors.OpError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(f"--model {path} must be a SavedModel that can be loaded ({reason}).") from error
    found = [name for name in SIGNATURES if name in loaded.signatures]
    if not found:
        have = ", ".join(sorted(loaded.signatures)) or "none"
        raise ValueError(f"--model {path} must have the signature {' or '.join(SIGNATURES)}, received {have}.")
    function = loaded.signatures[found[0]]
    inputs = function.structured_input_signature[1]
    (argument, spec), *others = inputs.items()
    shape = None if spec.shape.rank is None else tuple(spec.shape)
    if others or shape is None or len(shape) != 4 or shape[-1] != 3:
        raise ValueError(f"--model {path} must take one image (batch, height, width, 3), received {inputs}.")
    name = chosen_output(function.structured_outputs, path)
    if name is None:
        raise ValueError(f"--model {path} must score all classes, received only the best of them.")
    outputs = function.structured_outputs[name].shape
    if outputs.rank != 2 or outputs[1] is None:
        raise ValueError(f"--model {path} must give one score for each class (batch, classes), received {outputs}.")
    dtype = spec.dtype.as_numpy_dtype

    def call(images):
        # `loaded` is named here to live as long as its function, whose variables it owns.
        return _in_batches(lambda part: loaded.signatures[found[0]](**{argument: part})[name], images, dtype, shape[0])

    values = PIXELS if np.dtype(dtype).kind in "iu" else SCALED
    head = "logits" if name == "logits" else head_of_function(function)
    return Predictor("SavedModel", shape[1:3], int(outputs[1]), names_beside(path), head, values, call)


def head_of_function(function):
    """What the only output of a loaded function is, by the operation that makes it, through the functions it calls."""
    graph = function.graph.as_graph_def()
    library = {one.signature.name: one for one in graph.library.function}
    nodes = {node.name: node for node in graph.node}
    place, index = function.outputs[0].op.name, function.outputs[0].value_index
    while place in nodes:
        node = nodes[place]
        if node.op in _CALLS:
            inner = library[node.attr["f"].func.name]
            nodes = {one.name: one for one in inner.node_def}
            place, index = _place(inner.ret[inner.signature.output_arg[index].name])
        elif node.op in _THROUGH:
            place, index = _place(node.input[index if node.op == "IdentityN" else 0])
        else:
            return HEADS.get(node.op, "logits")
    return "logits"


def _place(text):
    """("node", 1) of "node:output:1" (inside a function) or "node:1"."""
    node, _, rest = text.partition(":")
    return node, int(rest.rpartition(":")[2]) if rest else 0


def _in_batches(run, images, dtype, size):
    """Runs a function on all images, in batches of `size` if it takes only those; the last one is filled up."""
    from vitkeras._tensorflow import tf

    images = np.asarray(images)
    images = (np.rint(images) if np.dtype(dtype).kind in "iu" else images).astype(dtype)
    if size is None:
        return run(tf.constant(images)).numpy()
    missing = -len(images) % size
    padded = np.concatenate([images, np.repeat(images[-1:], missing, axis=0)])
    parts = [run(tf.constant(part)).numpy() for part in np.split(padded, len(padded) // size)]
    return np.concatenate(parts)[: len(images)]
