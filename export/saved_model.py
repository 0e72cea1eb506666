"""Keras to SavedModel."""

import os

import numpy as np

from . import checks
from .files import check_output, written_aside
from .graph import check_model, export_model, serving_module, tensorflow
from .quiet import quiet
from .tflite import PRESETS, keras_outputs, synthetic_images


def to_saved_model(model, path, overwrite=False, pixel_input=True):
    """Exports a model to a SavedModel that takes pixels, in batches of any size.

    It loads with plain `tf.saved_model.load`, without this library. The signatures `serve` and `serving_default` take
    `image`, float32 (B, H, W, C), and return `logits`, `probabilities` or `features`. It is checked against the Keras
    model before it gets its name.

    Args:
        model: a functional `keras.Model` of this library, with a fixed image size. It is left untouched.
        path: str, the folder to write.
        overwrite: bool, whether an existing folder may be replaced. Default False.
        pixel_input: bool. True (default): it takes 0...255; False: what the model takes.

    Returns:
        dict: "max_abs_difference", "cosine", "sqnr_db", "top1_agreement" against the Keras model, on synthetic images.

    Raises:
        ExportError: if the check fails; nothing is written.
        FileExistsError, FileNotFoundError, PermissionError: for a path that must not or cannot be written.
        ValueError: for a model that does not fit.

    Example:
        >>> to_saved_model(model, "photos_saved_model")                     # doctest: +SKIP
    """
    path = os.fspath(path).rstrip(os.sep)
    check_output(path, overwrite)
    check_model(model)
    tf = tensorflow()
    with written_aside(path) as aside:
        module, name = serving_module(export_model(model, pixel_input), batch_size=None)
        with quiet():
            tf.saved_model.save(module, aside, signatures={"serve": module.serve, "serving_default": module.serve})
        loaded = tf.saved_model.load(aside)
        images = synthetic_images(model.inputs[0].shape[1:], count=3)
        images = images if pixel_input else images / 127.5 - 1
        reference = keras_outputs(model, images, pixel_input)
        received = np.asarray(loaded.signatures["serve"](image=tf.constant(images))[name])
        comparison = checks.compare(reference, received)
        checks.check_numbers(comparison, reference, PRESETS["fp32"], needs_agreement=False)
    return comparison
