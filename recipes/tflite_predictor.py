"""`.tflite` files as predictors: what they take and give is read off the file.

Legend: n images, H and W image size, K outputs, k listed ones.
"""

import numpy as np

from .loading import names_beside
from .predictors import PIXELS, SCALED, Predictor, chosen_output

HEADS = {"SOFTMAX": "softmax", "LOGISTIC": "sigmoid"}
_THROUGH = ("RESHAPE", "TRANSPOSE", "QUANTIZE", "DEQUANTIZE")


def open_tflite(path, num_threads=2):
    """Opens a file of `to_tflite`, or another that takes an image and scores classes.

    Args:
        path: str.
        num_threads: int >= 1. Default 2.

    Returns:
        `Predictor`.

    Raises:
        ValueError: if the file doesn't run, takes no images one by one, or scores no classes.
    """
    from vitkeras import export
    from vitkeras.export.runtime import TFLiteRunner

    try:
        runner = TFLiteRunner(path, num_threads)
    except ValueError as error:
        raise ValueError(f"--model {error}") from error
    signatures = list(runner.interpreter.get_signature_list())
    if len(signatures) > 1:
        raise ValueError(f"--model {path} must have one signature, received {', '.join(sorted(signatures))}.")
    shape = tuple(int(side) for side in runner.input["shape"])
    if len(shape) != 4 or shape[0] != 1 or shape[-1] != 3 or len(runner.interpreter.get_input_details()) != 1:
        raise ValueError(f"--model {path} must take one image (1, height, width, 3), received input of shape {shape}.")
    name = chosen_output(runner.outputs, path)
    detail = runner.details["scores" if name is None else name]
    if len(detail["shape"]) != 2:
        raise ValueError(
            f"--model {path} must give one score for each class (1, classes), received {tuple(detail['shape'])}."
        )
    card = export.read_card(path)
    names = tuple(export.read_labels(path) or ()) or names_beside(path)
    if name is None:
        outputs, listed, head = _listed_of(path, runner), int(detail["shape"][1]), "top_k"
    else:
        outputs, listed, head = int(detail["shape"][1]), None, head_of_file(path, detail["index"])

    def call(images):
        found = runner(images)
        if name is None:
            return _spread(found["scores"], found["indices"], outputs)
        return found[name] if isinstance(found, dict) else found

    return Predictor("TFLite file", shape[1:3], outputs, names, head, _values(card, runner.input), call, listed)


def head_of_file(path, tensor):
    """What a tensor's values are, by the operator that makes them."""
    from vitkeras.export.file_graph import Graph

    graph = Graph(path)
    while (operator := graph.producer.get(tensor)) is not None and graph.kinds[operator] in _THROUGH:
        tensor = graph.operators[operator].inputs[0]
    return "logits" if operator is None else HEADS.get(graph.kinds[operator], "logits")


def _values(card, detail):
    """What the input takes: as the card says, else as its whole numbers stand for; None if floats could be either."""
    if card is not None and "input_values" in card:
        return PIXELS if card["input_values"] == "0...255" else SCALED
    scale, _ = detail["quantization"]
    if np.dtype(detail["dtype"]).kind not in "iu":
        return None
    return PIXELS if not scale or scale > 0.5 else SCALED


def _listed_of(path, runner):
    """K of a file that lists the best outputs: the width of what is sorted."""
    from vitkeras.export.file_graph import Graph

    graph = Graph(path)
    sorts = [graph.operators[i] for i, kind in enumerate(graph.kinds) if kind == "TOPK_V2"]
    if len(sorts) != 1:
        raise ValueError(f"--model {path} must list its best classes by one TOPK_V2, received {len(sorts)}.")
    return int(graph.tensors[sorts[0].inputs[0]].shape[-1])


def _spread(scores, indices, outputs):
    """(n, K) from the k best; the others get -1, which is below every probability."""
    spread = np.full((len(scores), outputs), -1.0, "float32")
    np.put_along_axis(spread, indices.astype("int64"), scores, axis=1)
    return spread
