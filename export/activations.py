"""Looking at the activations of a float file while it runs."""

import contextlib
import os
import tempfile

from .checks import read_graph
from .flatbuffer import write_model
from .runtime import TFLiteRunner, dequantized


@contextlib.contextmanager
def watched(path, tensors, num_threads=2):
    """Gives a function of one image that runs a file and returns some of its tensors as floats.

    They are made outputs of a copy of the file, so that the fast kernels keep them.

    Args:
        path: str, `.tflite` file.
        tensors: iterable of str, names of activations; those that the file lacks are left out.
        num_threads: int >= 1. Default 2.

    Yields:
        function (H, W, C) -> dict of name -> array with the tensor's shape.
    """
    model = read_graph(path)
    graph = model.subgraphs[0]
    names = {tensor.name.decode(): i for i, tensor in enumerate(graph.tensors)}
    graph.outputs = [names[name] for name in sorted(set(tensors)) if name in names]
    model.signatureDefs = []
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "watched.tflite")
        write_model(model, copy)
        del model, graph
        runner = TFLiteRunner(copy, num_threads)
        details = runner.interpreter.get_output_details()

        def run(image):
            runner.one(image)
            return {d["name"]: dequantized(runner.interpreter.get_tensor(d["index"]), d) for d in details}

        yield run
