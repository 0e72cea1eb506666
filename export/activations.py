"""Looking at the activations of a float file while it runs."""

import contextlib
import os
import tempfile

from vitkeras._optional import require

from .checks import read_graph
from .runtime import TFLiteRunner


@contextlib.contextmanager
def watched(path, tensors, num_threads=2):
    """Gives a function of one image that runs a float file and returns some of its tensors.

    They are made outputs of a copy of the file, so that the fast kernels keep them.

    Args:
        path: str, float32 `.tflite` file.
        tensors: iterable of str, names of float tensors.
        num_threads: int >= 1. Default 2.

    Yields:
        function (H, W, C) -> dict of name -> array with the tensor's shape.
    """
    tools = require("ai_edge_litert.tools.flatbuffer_utils", "ai-edge-litert", "calibration", extra="export")
    model = read_graph(path)
    graph = model.subgraphs[0]
    names = {tensor.name.decode(): i for i, tensor in enumerate(graph.tensors)}
    tensors = sorted(set(tensors))
    graph.outputs = [names[name] for name in tensors]
    model.signatureDefs = []
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "watched.tflite")
        tools.write_model(model, copy)
        del model, graph
        runner = TFLiteRunner(copy, num_threads)
        places = [(d["name"], d["index"]) for d in runner.interpreter.get_output_details()]

        def run(image):
            runner.one(image)
            return {name: runner.interpreter.get_tensor(place) for name, place in places}

        yield run
