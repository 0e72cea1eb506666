"""Keras to TFLite: float file, quantization, checks, and only then the name the user asked for."""

import difflib
import gzip
import hashlib
import importlib.metadata as metadata
import os
import tempfile
from dataclasses import dataclass

import keras
import numpy as np

from vitkeras._optional import require

from . import checks
from . import labels as labels_module
from .fake_quant import fake_quantizers
from .files import check_output, written_aside
from .graph import check_model, export_model, output_name, serving_module, tensorflow
from .qat import activation_ranges, baked_model
from .qat_ranges import quantize_learned
from .quantize import quantize_dynamic
from .quiet import quiet
from .report import ExportReport
from .runtime import TFLiteRunner, is_fully_accelerated

QAT = "qat_int8"


@dataclass(frozen=True)
class Preset:
    """How a file is made, and what it must pass.

    Attributes:
        quantize: function (float path, path), or None.
        bytes_a_weight: the least that a matrix weight takes in the file.
        relative_tolerance: bound on the difference, relative to the largest output (or 1); None for no bound.
        least_cosine: of all outputs.
        least_agreement: same top-1 as the model, on images that the user gave.
    """

    quantize: object
    bytes_a_weight: float
    relative_tolerance: float | None
    least_cosine: float
    least_agreement: float


PRESETS = {
    "fp32": Preset(None, 4, 1e-4, 0.99999, 1.0),
    "int8_dynamic": Preset(quantize_dynamic, 1, None, 0.99, 0.95),
    # Compared with the model of prepare_qat, which rounds as the file does.
    QAT: Preset(quantize_learned, 1, None, 0.999, 0.95),
}


def to_tflite(
    model,
    path,
    preset="int8_dynamic",
    calibration_images=None,
    labels=None,
    overwrite=False,
    verify_images=None,
    pixel_input=True,
    num_threads=2,
):
    """Exports a model to a `.tflite` file that takes pixels and runs as one XNNPACK partition.

    The file is run in LiteRT against the Keras model before it gets its name; a failed check writes nothing.

    Args:
        model: a functional `keras.Model` of this library, with a fixed image size. It is left untouched.
        path: str, the file to write.
        preset: "fp32"; "int8_dynamic" (default): int8 weights per channel, float activations; or "qat_int8", for a
            model of `prepare_qat`: int8 weights and activations, as it was trained to have them.
        calibration_images: None; neither of these presets calibrates.
        labels: None, or one name an output; written into the file as `labels.txt`.
        overwrite: bool, whether an existing file may be replaced. Default False.
        verify_images: None, or an array (N, H, W, C) of pixels 0...255 on which file and model must agree; by
            default synthetic images, on which top-1 agreement is reported but not required.
        pixel_input: bool. True (default): the file takes 0...255, the normalisation folded into the patch
            embedding. False: it takes what the model takes, and `verify_images` too.
        num_threads: int >= 1, for the check's run. Default 2.

    Returns:
        `ExportReport`.

    Raises:
        ExportError: if a check fails; it names the rule and the received value.
        FileExistsError, FileNotFoundError, PermissionError: for a path that must not or cannot be written.
        ImportError: if TensorFlow, LiteRT or the quantizer is missing; the extra is named.
        ValueError: for an unknown preset, or a model or images that do not fit.

    Example:
        >>> report = to_tflite(model, "photos.tflite", preset="int8_dynamic")      # doctest: +SKIP
    """
    path = os.fspath(path)
    if preset not in PRESETS:
        nearest = difflib.get_close_matches(str(preset), PRESETS, n=1, cutoff=0)[0]
        raise ValueError(f"preset must be one of {tuple(PRESETS)}, received {preset!r}; nearest: {nearest!r}.")
    if calibration_images is not None:
        raise ValueError(f"calibration_images must be None: preset {preset!r} needs no calibration.")
    check_output(path, overwrite)
    _require_tools(PRESETS[preset])
    source, learned = (model, None) if preset != QAT else _learned(model, pixel_input)
    check_model(source)
    if labels is not None:
        labels = labels_module.check_labels(labels, model.output_shape[-1])
    images = _images(model, verify_images, pixel_input)
    rule = PRESETS[preset]
    with written_aside(path) as aside:
        make_file(export_model(source, pixel_input), rule, aside, learned)
        if labels is not None:
            labels_module.append_labels(aside, labels)
        return _check(aside, path, model, preset, images, verify_images is None, pixel_input, num_threads)


def _require_tools(rule):
    """Raises ImportError before any work if a package is missing."""
    tensorflow()
    require("ai_edge_litert.interpreter", "ai-edge-litert", "exporting", extra="export")
    if rule.quantize is not None:
        require("ai_edge_quantizer.quantizer", "ai-edge-quantizer", "int8 export", extra="export")


def _learned(model, pixel_input):
    """(float model, ranges) of a model from `prepare_qat`."""
    if not isinstance(model, keras.Model) or not fake_quantizers(model):
        raise ValueError(f"preset {QAT!r} is for a model of prepare_qat, received {getattr(model, 'name', model)!r}.")
    if not pixel_input:
        raise ValueError(f"pixel_input must be True for preset {QAT!r}, which takes pixels without rounding them.")
    return baked_model(model), activation_ranges(model)


def make_file(model, rule, path, ranges=None):
    """Writes the file of a model from `export_model`: float first, then the preset's quantization of it."""
    if rule.quantize is None:
        convert(model, path)
        return
    with tempfile.TemporaryDirectory() as folder:
        float_path = os.path.join(folder, "float.tflite")
        convert(model, float_path)
        rule.quantize(float_path, path, *(() if ranges is None else (ranges,)))


def convert(model, path):
    """Writes the float32 file: batch 1, a named signature, builtin operators only."""
    tf = tensorflow()
    with tempfile.TemporaryDirectory() as folder, quiet():
        module, _ = serving_module(model, batch_size=1)
        tf.saved_model.save(module, folder, signatures={"serving_default": module.serve})
        converter = tf.lite.TFLiteConverter.from_saved_model(folder)
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
        data = converter.convert()
    with open(path, "wb") as file:
        file.write(data)


def weight_bytes(model, bytes_a_weight):
    """The least that the model's matrices take in a file; vectors may be folded away or stay float."""
    return int(bytes_a_weight * sum(np.prod(v.shape) for v in _matrices(model)))


def zero_weights(model):
    """float, the share of the matrices' weights that is zero."""
    arrays = [keras.ops.convert_to_numpy(v) for v in _matrices(model)]
    return float(sum(np.count_nonzero(array == 0) for array in arrays) / sum(array.size for array in arrays))


def _matrices(model):
    return [v for v in model.weights if len(v.shape) > 1 and min(v.shape) > 1]


def synthetic_images(shape, count=8):
    """Deterministic images (count, *shape), pixels 0...255: smooth colour fields with a little noise."""
    rng = np.random.default_rng(0)
    height, width, channels = shape
    rows = np.linspace(0, 3.99, height).astype(int)
    columns = np.linspace(0, 3.99, width).astype(int)
    fields = rng.uniform(0, 255, (count, 4, 4, channels))[:, rows][:, :, columns]
    return np.clip(np.rint(fields + rng.normal(0, 20, fields.shape)), 0, 255).astype("float32")


def _images(model, verify_images, pixel_input):
    shape = tuple(model.inputs[0].shape[1:])
    if verify_images is None:
        images = synthetic_images(shape)
        return images if pixel_input else images / 127.5 - 1
    images = np.asarray(verify_images)
    if images.ndim != 4 or images.shape[1:] != shape or not len(images):
        raise ValueError(f"verify_images must have shape (N, {', '.join(map(str, shape))}), received {images.shape}.")
    images = images.astype("float32")
    if pixel_input and (not np.isfinite(images).all() or images.min() < 0 or images.max() > 255):
        raise ValueError(f"verify_images must be pixels in 0...255, received {images.min()}...{images.max()}.")
    if pixel_input and images.max() <= 1:
        raise ValueError(f"verify_images must be pixels in 0...255, received at most {images.max()}: already scaled?")
    return images


def keras_outputs(model, images, pixel_input, batch_size=8):
    """float32 outputs of the Keras model for images as the file takes them.

    A model with a reduced-precision policy is compared in float32, as the file computes.
    """
    if any(layer.compute_dtype != "float32" for layer in model.layers):
        model = export_model(model, pixel_input=False)
    inputs = images / 127.5 - 1 if pixel_input else images
    parts = [inputs[i : i + batch_size] for i in range(0, len(inputs), batch_size)]
    return np.concatenate([keras.ops.convert_to_numpy(model(part, training=False)).astype("float32") for part in parts])


def _check(file, path, model, preset, images, synthetic, pixel_input, num_threads):
    rule = PRESETS[preset]
    size, least = os.path.getsize(file), weight_bytes(model, rule.bytes_a_weight)
    operators = checks.check_graph(file)
    checks.check_size(size, least)
    runner = TFLiteRunner(file, num_threads)
    partitions, accelerated = runner.partitions(), is_fully_accelerated(file)
    checks.check_acceleration(partitions, accelerated)
    reference = keras_outputs(model, images, pixel_input)
    comparison = checks.compare(reference, runner(images))
    # On made-up images, and of features, the highest output means nothing: it is reported, not required.
    checks.check_numbers(
        comparison, reference, rule, needs_agreement=not synthetic and output_name(model) != "features"
    )
    with open(file, "rb") as stream:
        data = stream.read()
    return ExportReport(
        path=path,
        preset=preset,
        output=output_name(model),
        size_bytes=size,
        weight_bytes=least,
        gzip_bytes=len(gzip.compress(data)),
        zero_weights=zero_weights(model),
        partitions=partitions,
        fully_accelerated=accelerated,
        operators=operators,
        images=len(images),
        synthetic=synthetic,
        latency_ms=runner.latency(images[0]),
        num_threads=num_threads,
        sha256=hashlib.sha256(data).hexdigest(),
        versions=_versions(),
        **comparison,
    )


def _versions():
    names = ("tensorflow", "tensorflow-cpu", "keras", "ai-edge-litert", "ai-edge-quantizer", "vitkeras")
    found = {d.metadata["Name"]: d.version for name in names for d in metadata.distributions(name=name)}
    return dict(sorted(found.items()))
