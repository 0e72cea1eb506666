"""Keras to TFLite: float file, quantization, checks, and only then the name the user asked for."""

import difflib
import importlib.metadata as metadata
import os
import tempfile
from dataclasses import dataclass

import keras
import numpy as np

from vitkeras._optional import require

from . import checks, outputs
from . import labels as labels_module
from .about import check_about
from .card import add_card
from .disagreements import find_disagreements
from .files import check_output, sha256, written_aside
from .graph import check_model, export_model, serving_module, tensorflow
from .metadata import add_metadata
from .progress import progress
from .quantize import quantize_dynamic
from .quiet import quiet
from .report import ExportReport
from .runtime import TFLiteRunner, is_fully_accelerated
from .uint8_input import check_input_dtype, take_uint8


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
    input_dtype="float32",
    output=None,
    k=None,
    about=None,
    show_progress=False,
):
    """Exports a model to a `.tflite` file that takes pixels and runs as one XNNPACK partition.

    The file is run in LiteRT against the Keras model before it gets its name; a failed check writes nothing. It holds
    TFLite Metadata, as MediaPipe and the Android task library read it, and a model card (`read_card`).

    Args:
        model: a functional `keras.Model` of this library, with a fixed image size. It is left untouched.
        path: str, the file to write.
        preset: "fp32", or "int8_dynamic" (default): int8 weights per channel, float activations.
        calibration_images: None; neither of these presets calibrates.
        labels: None, or one name an output; written into the file as `labels.txt`.
        overwrite: bool, whether an existing file may be replaced. Default False.
        verify_images: None, or an array (N, H, W, C) of pixels 0...255 on which file and model must agree; by
            default synthetic images, on which top-1 agreement is reported but not required.
        pixel_input: bool. True (default): the file takes 0...255, the normalisation folded into the patch
            embedding, or two operators before a ResNet's root. False: it takes what the model takes, and
            `verify_images` too.
        num_threads: int >= 1, for the check's run. Default 2.
        input_dtype: "float32" (default), which also takes the fractions of a resized photo, or "uint8": whole pixels,
            a quarter of the bytes to hand over; it needs `pixel_input`, loses nothing and stays in the one partition.
        output: None (default), what the model returns; several outputs, as of `vitkeras.features`, are named
            `features_00`, `features_01`, ... Or what is read off the model's Dense head: "logits", "softmax"
            (`probabilities`), "embedding" (what enters the head), or "top_k": `scores` and `indices` of the best
            classes. The operator that finds these runs outside XNNPACK, after its one partition.
        k: None, or int in 1...5, how many classes "top_k" returns; by default 5, or all if there are fewer.
        about: None, or a dict of text for the metadata and the card: "name" (default: the model's), "description",
            "version" (default "1"), "author", "license", "training_data".
        show_progress: bool, whether a terminal shows a bar over the stages and the images. Default False.

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
    check_model(model)
    outputs.check_output_choice(model, output, k)
    check_input_dtype(input_dtype, pixel_input)
    if labels is not None:
        labels = labels_module.check_labels(labels, outputs.label_count(model, output))
    about = check_about(about, model.name)
    images = _images(model, verify_images, pixel_input)
    images = np.rint(images) if input_dtype == "uint8" else images
    rule = PRESETS[preset]
    with written_aside(path) as aside, progress(show_progress, stages=4) as bar:
        bar.stage("preparing the graph")
        made = outputs.with_output(export_model(model, pixel_input), output, k)
        bar.stage("converting")
        make_file(made, rule, aside)
        checks.check_buffers(aside)  # here: rewriting the file, as below, would pull weights in
        if input_dtype == "uint8":
            take_uint8(aside)
        add_metadata(aside, about, pixel_input, labels is not None)
        if labels is not None:
            labels_module.append_labels(aside, labels)
        names = outputs.output_names(made)
        if output is not None:  # of "top_k" the model's side is all probabilities
            model = outputs.with_output(export_model(model, False), "softmax" if output == "top_k" else output)
        bar.stage("checking")
        report = _check(
            aside, path, model, preset, images, verify_images is None, pixel_input, num_threads, names, labels, bar
        )
        bar.stage("writing the card")
        return add_card(aside, about, report, pixel_input, images[0])


def _require_tools(rule):
    """Raises ImportError before any work if a package is missing."""
    tensorflow()
    require("ai_edge_litert.interpreter", "ai-edge-litert", "exporting", extra="export")
    if rule.quantize is not None:
        require("ai_edge_quantizer.quantizer", "ai-edge-quantizer", "int8 export", extra="export")


def make_file(model, rule, path):
    """Writes the file of a model from `export_model`: float first, then the preset's quantization of it."""
    if rule.quantize is None:
        convert(model, path)
        return
    with tempfile.TemporaryDirectory() as folder:
        float_path = os.path.join(folder, "float.tflite")
        convert(model, float_path)
        rule.quantize(float_path, path)


def convert(model, path):
    """Writes the float32 file: batch 1, a named signature, builtin operators only."""
    tf = tensorflow()
    with tempfile.TemporaryDirectory() as folder, quiet():
        module = serving_module(model, batch_size=1)
        tf.saved_model.save(module, folder, signatures={"serving_default": module.serve})
        converter = tf.lite.TFLiteConverter.from_saved_model(folder)
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
        data = converter.convert()
    with open(path, "wb") as file:
        file.write(data)


def weight_bytes(model, bytes_a_weight):
    """The least that the model's matrices take in a file; vectors may be folded away or stay float."""
    return int(bytes_a_weight * sum(np.prod(v.shape) for v in model.weights if len(v.shape) > 1 and min(v.shape) > 1))


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
    """float32 outputs of the Keras model for images as the file takes them; a dict of them if it has several.

    A model with a reduced-precision policy is compared in float32, as the file computes.
    """
    if any(layer.compute_dtype != "float32" for layer in model.layers):
        model = export_model(model, pixel_input=False)
    inputs = images / 127.5 - 1 if pixel_input else images
    parts = [inputs[i : i + batch_size] for i in range(0, len(inputs), batch_size)]
    rows = [keras.tree.map_structure(_float_array, outputs.named_outputs(model, part)) for part in parts]
    joined = {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}
    return joined if len(joined) > 1 else next(iter(joined.values()))


def _float_array(x):
    return keras.ops.convert_to_numpy(x).astype("float32")


def _check(file, path, model, preset, images, synthetic, pixel_input, num_threads, names, labels, bar):
    rule = PRESETS[preset]
    size, least = os.path.getsize(file), weight_bytes(model, rule.bytes_a_weight)
    operators = checks.check_graph(file)
    checks.check_size(size, least)
    runner = TFLiteRunner(file, num_threads)
    partitions, accelerated = runner.partitions(), is_fully_accelerated(file)
    checks.check_acceleration(partitions, accelerated or ("scores" in names and runner.outside() == ["TOPK_V2"]))
    # On made-up images, and of features, the highest output means nothing: it is reported, not required.
    needs_agreement = not synthetic and bool({"logits", "probabilities", "scores"} & set(names))
    comparisons, found = [], ()
    modelled, received = keras_outputs(model, images, pixel_input), runner(bar.images(images))
    for reference, answers in outputs.pairs(modelled, received):
        comparisons.append(checks.compare(reference, answers))
        checks.check_numbers(comparisons[-1], reference, rule, needs_agreement)
    if names in (["logits"], ["probabilities"]) and received.ndim == 2:
        found = tuple(find_disagreements(images, modelled, received, labels, pixel_input))
    comparison = checks.worst(comparisons)
    return ExportReport(
        path=path,
        preset=preset,
        output=", ".join(names),
        disagreements=found,
        input_dtype=str(np.dtype(runner.input["dtype"])),
        size_bytes=size,
        weight_bytes=least,
        partitions=partitions,
        fully_accelerated=accelerated,
        operators=operators,
        images=len(images),
        synthetic=synthetic,
        latency_ms=runner.latency(images[0]),
        num_threads=num_threads,
        sha256=sha256(file),
        versions=_versions(),
        **comparison,
    )


def _versions():
    names = ("tensorflow", "tensorflow-cpu", "keras", "ai-edge-litert", "ai-edge-quantizer", "vitkeras")
    found = {d.metadata["Name"]: d.version for name in names for d in metadata.distributions(name=name)}
    return dict(sorted(found.items()))
