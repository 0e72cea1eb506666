"""Keras to a TFLite file whose head an app trains on the device.

Legend: N images, H x W image size, C channels, D features, K classes, B examples of a step.
"""

import os
import tempfile

import keras
import numpy as np

from vitkeras._optional import require

from . import labels as labels_module
from .convert import run_converter
from .files import check_output, written_aside
from .graph import check_model, export_model, functional, tensorflow
from .head_graph import backbone_of, head_module
from .quantize import quantize_dynamic
from .quiet import quiet
from .runtime import check_threads
from .trainable_checks import check_trainable

_PRESETS = {"fp32": None, "int8_dynamic": quantize_dynamic}
_HEADS = ("zeros", "model")


def to_trainable_tflite(
    model,
    path,
    classes,
    batch_size=32,
    head="zeros",
    preset="int8_dynamic",
    labels=None,
    overwrite=False,
    num_threads=2,
):
    """Exports a model to one `.tflite` file that classifies, and trains its own head, on the device.

    The backbone is frozen; the head is a float linear layer with softmax whose weights travel as tensors: the app keeps
    them and passes them in, so the file stays as it is and needs no variables. Its signatures, with fixed shapes:

    - `features`: image (1, H, W, C) of pixels 0...255 -> features (1, D).
    - `infer`: image, kernel (D, K), bias (K,) -> logits (1, K), probabilities (1, K).
    - `train_head`: features (B, D), labels int32 (B,), kernel, bias, learning_rate () -> kernel, bias, loss (). One
      step of gradient descent on the mean cross-entropy; `loss` is that before the step. Examples with a label
      outside 0...K-1, such as -1, do not count: they fill up the last batch.
    - `get_head`: nothing -> kernel, bias, the head to begin with.
    - `set_head`: kernel, bias -> kernel, bias, valid (). The gate for a head from storage: it comes back as it is, with
      `valid` true; with any value that is not finite, it comes back as NaN throughout, with `valid` false.

    Args:
        model: a functional `keras.Model` of this library with one feature vector below its head, which is replaced, or
            without a head. It is left untouched.
        path: str, the file to write.
        classes: int >= 2, K.
        batch_size: int >= 1, B. Default 32.
        head: what `get_head` returns: "zeros" (default), or "model", the model's own head, which must have K outputs.
        preset: "int8_dynamic" (default): the backbone's weights in int8; or "fp32".
        labels: None, or K names, written into the file as `labels.txt`.
        overwrite: bool, whether an existing file may be replaced. Default False.
        num_threads: int >= 1, for the check's run. Default 2.

    Returns:
        `TrainableReport`.

    Raises:
        ExportError: if a check fails; nothing is written.
        FileExistsError, FileNotFoundError, PermissionError: for a path that must not or cannot be written.
        ImportError: if TensorFlow, LiteRT or the quantizer is missing; the extra is named.
        ValueError: for an argument out of its range, or a model that does not fit.

    Example:
        >>> report = to_trainable_tflite(model, "photos.tflite", classes=12)      # doctest: +SKIP
    """
    path = os.fspath(path)
    _check_arguments(classes, batch_size, head, preset)
    check_output(path, overwrite)
    check_threads(num_threads)
    tensorflow()
    require("ai_edge_litert.interpreter", "ai-edge-litert", "exporting", extra="export")
    model = functional(model)
    check_model(model)
    if labels is not None:
        labels = labels_module.check_labels(labels, classes)
    backbone = backbone_of(model)
    kernel, bias = _first_head(model, backbone.output_shape[-1], classes, head)
    with written_aside(path) as aside:
        graph = backbone_of(export_model(model, scale=True))
        _write(head_module(graph, kernel, bias, batch_size), preset, aside)
        if labels is not None:
            labels_module.append_labels(aside, labels)
        return check_trainable(aside, path, backbone, (kernel, bias), batch_size, preset, num_threads)


def _check_arguments(classes, batch_size, head, preset):
    for name, value, least in (("classes", classes, 2), ("batch_size", batch_size, 1)):
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ValueError(f"{name} must be an int >= {least}, received {value!r}.")
    if head not in _HEADS:
        raise ValueError(f"head must be one of {_HEADS}, received {head!r}.")
    if preset not in _PRESETS:
        raise ValueError(f"preset must be one of {tuple(_PRESETS)}, received {preset!r}.")


def _first_head(model, features, classes, head):
    if head == "zeros":
        return np.zeros((features, classes), "float32"), np.zeros(classes, "float32")
    layer = next((layer for layer in model.layers if layer.name == "head"), None)
    outputs = None if layer is None else layer.output.shape[-1]
    if outputs != classes:
        raise ValueError(f"head 'model' needs a model with a head of {classes} outputs, it has {outputs or 'none'}.")
    return tuple(keras.ops.convert_to_numpy(variable).astype("float32") for variable in (layer.kernel, layer.bias))


def _write(module_and_functions, preset, path):
    """Writes the file: float first, then the preset's quantization of it."""
    tf = tensorflow()
    module, functions = module_and_functions
    with tempfile.TemporaryDirectory() as folder:
        with quiet():
            tf.saved_model.save(module, folder, signatures=functions)
            converter = tf.lite.TFLiteConverter.from_saved_model(folder, signature_keys=list(functions))
            converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
            data = run_converter(
                converter, *(function.get_concrete_function().graph for function in functions.values())
            )
        quantize = _PRESETS[preset]
        first = path if quantize is None else os.path.join(folder, "float.tflite")
        with open(first, "wb") as file:
            file.write(data)
        if quantize is not None:
            quantize(first, path)
