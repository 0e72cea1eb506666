"""Keras to SavedModel."""

import os

import numpy as np

from . import checks, outputs
from .files import check_output, written_aside
from .graph import check_model, export_model, functional, serving_module, tensorflow
from .images import synthetic_images
from .input_values import check_input_values
from .presets import PRESETS
from .quiet import quiet
from .verify import keras_outputs


def to_saved_model(model, path, overwrite=False, pixel_input=True, preprocessing="resize", input_values="scaled"):
    """Exports a model to a SavedModel that takes pixels or image files, in batches of any size.

    It loads with plain `tf.saved_model.load`, without this library and without Keras, and as `keras.layers.TFSMLayer`.
    Each signature returns a dict of the named outputs: `logits`, `probabilities` or `features`; `features_00`,
    `features_01`, ... of a model with several. Each is run against the Keras model before the folder gets its name.

    `serve`, which is also `serving_default`, takes `image`: uint8 (B, H, W, C), pixels of the model's size.
    `serve_jpeg` takes `encoded`: string (B,), JPEG, PNG, BMP or GIF files of photos of any size, decoded and resized as
    for evaluation; models of other than three channels don't have it.

    Args:
        model: a functional `keras.Model` of this library, with a fixed image size. It is left untouched.
        path: str, the folder to write.
        overwrite: bool, whether an existing folder may be replaced. Default False.
        pixel_input: bool. True (default), as above. False: `serve` takes float32, what the model takes, and there is no
            `serve_jpeg`.
        preprocessing: "resize" (default) or "resize_crop", how `serve_jpeg` brings photos to the model's size, as in
            `vitkeras.data.eval_batches`.
        input_values: "scaled" (default) or "pixels", what the model takes, as in `to_tflite`.

    Returns:
        dict: "max_abs_difference", "cosine", "sqnr_db", "top1_agreement" against the Keras model, on synthetic images.

    Raises:
        ExportError: if a check fails; nothing is written.
        FileExistsError, FileNotFoundError, PermissionError: for a path that must not or cannot be written.
        ValueError: for a model or an argument that does not fit.

    Example:
        >>> to_saved_model(model, "photos_saved_model")                     # doctest: +SKIP
    """
    path = os.fspath(path).rstrip(os.sep)
    check_output(path, overwrite, folder=True)
    model = functional(model)
    check_model(model)
    scale = check_input_values(model, pixel_input, input_values)
    tf = tensorflow()
    from vitkeras.data.resizing import resizer

    resize = resizer(preprocessing)
    shape = tuple(model.inputs[0].shape[1:])
    images = np.rint(synthetic_images(shape, count=3))
    with written_aside(path) as aside:
        module = _module(export_model(model, scale), shape, resize if pixel_input else None)
        signatures = {"serve": module.serve, "serving_default": module.serve}
        if hasattr(module, "serve_jpeg"):
            signatures["serve_jpeg"] = module.serve_jpeg
        with quiet():
            tf.saved_model.save(module, aside, signatures=signatures)
        loaded = tf.saved_model.load(aside).signatures
        images = images.astype("uint8") if pixel_input else (images / 127.5 - 1).astype("float32")
        comparisons = [_check(model, images, scale, loaded["serve"](image=tf.constant(images)))]
        if "serve_jpeg" in signatures:
            files = tf.stack([tf.io.encode_png(image) for image in images])  # exact, unlike JPEG
            sized = np.stack([resize(image, shape[:2]) for image in images])
            comparisons.append(_check(model, sized, scale, loaded["serve_jpeg"](encoded=files)))
    return checks.worst(comparisons)


def _module(model, shape, resize):
    """`serve`, and with `resize` also `serve_jpeg` for models of three channels."""
    tf = tensorflow()
    from vitkeras.data.images import decode_stored

    module = serving_module(model, input_dtype="float32" if resize is None else "uint8")
    if resize is None or shape[-1] != 3:
        return module

    def one(encoded):
        return resize(decode_stored(encoded), shape[:2])

    def serve_jpeg(encoded):
        images = tf.map_fn(one, encoded, fn_output_signature=tf.TensorSpec(shape, tf.float32))
        return outputs.named_outputs(model, images)

    module.serve_jpeg = tf.function(serve_jpeg, [tf.TensorSpec((None,), tf.string, name="encoded")])
    return module


def _check(model, images, scale, received):
    received = {name: np.asarray(value) for name, value in received.items()}
    received = received if len(received) > 1 else next(iter(received.values()))
    comparisons = []
    for reference, output in outputs.pairs(keras_outputs(model, images, scale), received):
        comparisons.append(checks.compare(reference, output))
        checks.check_numbers(comparisons[-1], reference, PRESETS["fp32"], needs_agreement=False)
    return checks.worst(comparisons)
