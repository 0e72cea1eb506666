"""Keras to TFLite: float file, quantization, checks, and only then the name the user asked for."""

import dataclasses
import functools
import gc
import os
import tempfile

import keras
import numpy as np

from vitkeras._optional import require

from . import images as images_module
from . import labels as labels_module
from . import outputs
from .about import check_about
from .agreement import check_image_labels
from .card import add_card
from .checks import check_buffers
from .convert import convert
from .even_rows import even_mixes
from .fake_quant import fake_quantizers
from .files import check_output, written_aside
from .graph import check_model, export_model, functional, tensorflow
from .input_values import check_input_values
from .layer_snr import layer_snr
from .metadata import add_metadata
from .post_training import Quantized, quantize_post_training
from .presets import find_preset
from .progress import progress
from .qat import activation_ranges, baked_model, rounds_mix, take_scales
from .qat_ranges import quantize_learned
from .runtime import check_threads
from .uint8_input import check_input_dtype, take_uint8
from .verify import verify
from .wide_norm import widen_norms


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
    verify_labels=None,
    input_values="scaled",
):
    """Exports a model to a `.tflite` file that takes pixels and, on CPUs, runs as one XNNPACK partition.

    The file is run in LiteRT against the Keras model before it gets its name; a failed check writes nothing. It holds
    TFLite Metadata, as MediaPipe and the Android task library read it, and a model card (`read_card`).

    Args:
        model: a functional `keras.Model` of this library, with a fixed image size. It is left untouched.
        path: str, the file to write.
        preset: one of `PRESETS`; docs/export.md says what each costs. Default "int8_dynamic".

            - "fp32", "fp16": float32 or float16 weights.
            - "int8_dynamic": int8 weights per channel, activations rounded on the fly, a range a row.
            - "int8_static": int8 with measured ranges where that costs little, the attention's products among it.
            - "int8_static_safe": dense layers and convolutions in measured ranges, the noisiest ones in float.
            - "int8_full": integers only, int8 in and out, for NPUs; not one XNNPACK partition.
            - "int16x8": int16 activations and int8 weights, float in and out, for DSPs; no XNNPACK.
            - "int4_weights": 4-bit weights in blocks of 32, patches and head int8.
            - "qat_int8": for a model of `prepare_qat`, int8 as it was trained.
        calibration_images: pixels as `verify_images`, 128 or more that look like those to come: an array
            (N, H, W, C), a spec such as "folder:photos", or a `tf.data.Dataset` of images or of (images, labels). The
            static presets, "int16x8" and "int8_full" need it for their ranges; "int8_dynamic" equalises channels with
            it where that helps; the others take none. Default None.
        labels: None, or one name an output; written into the file as `labels.txt`.
        overwrite: bool, whether an existing file may be replaced. Default False.
        verify_images: None, or an array (N, H, W, C) of pixels 0...255 on which file and model must agree; by
            default synthetic images, on which top-1 agreement is reported but not required.
        pixel_input: bool. True (default): the file takes 0...255, the normalisation folded into the patch
            embedding, or two operators before a ResNet's root. False: it takes what the model takes, and
            `verify_images` too.
        num_threads: int in 1...256, for the check's run. Default 2.
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
        verify_labels: None, or int array (N,), the classes of `verify_images`: accuracies are reported. Default None.
        input_values: "scaled" (default), the model takes -1...1, or "pixels", it takes 0...255 and scales them itself,
            as many Keras models do by a `Rescaling` layer; nothing is then scaled before it.

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
    rule = find_preset(preset)
    check_output(path, overwrite)
    check_threads(num_threads)
    _require_tools(rule)
    model = functional(model)
    source, learned = _learned(model, pixel_input, input_values, output) if rule.learned else (model, None)
    check_model(source)
    outputs.check_output_choice(model, output, k)
    scale = check_input_values(source, pixel_input, input_values)
    check_input_dtype(input_dtype, pixel_input)
    if input_dtype == "uint8" and rule.everything == 8:
        raise ValueError(f"input_dtype must be 'float32' for preset {preset!r}, whose input is int8: pixel - 128.")
    if labels is not None:
        labels = labels_module.check_labels(labels, outputs.label_count(model, output))
    about = check_about(about, model.name)
    shape = tuple(source.inputs[0].shape[1:])
    images = images_module.verify_images(shape, verify_images, pixel_input)
    images = np.rint(images) if input_dtype == "uint8" or rule.everything == 8 and pixel_input else images
    if verify_labels is not None:
        if verify_images is None:
            raise ValueError("verify_labels needs verify_images, received none.")
        verify_labels = check_image_labels(
            verify_labels, len(images), outputs.label_count(model, output), "verify_labels"
        )
    calibration = _calibration(preset, rule, shape, calibration_images, pixel_input)
    with written_aside(path) as aside, progress(show_progress, stages=10) as bar:
        bar.stage("preparing the graph")
        build = functools.partial(_graph_model, source, scale, output, k, rule, learned)
        found = make_file(build, rule, aside, calibration, learned, images, pixel_input, num_threads, bar)
        check_buffers(aside)  # before a rewriting would hide weights outside the flatbuffer
        if input_dtype == "uint8":
            take_uint8(aside)
        add_metadata(aside, about, pixel_input, labels is not None)
        if labels is not None:
            labels_module.append_labels(aside, labels)
        if output is not None:  # of "top_k" the model's side is all probabilities
            model = outputs.with_output(export_model(model, False), "softmax" if output == "top_k" else output)
        bar.stage("checking")
        report = verify(
            aside,
            path,
            model,
            preset,
            rule,
            images,
            verify_images is None,
            pixel_input,
            num_threads,
            labels,
            verify_labels,
            bar,
            scale,
        )
        bar.stage("writing the card")
        return add_card(aside, about, dataclasses.replace(report, **found), pixel_input, images[0])


def _require_tools(rule):
    """Raises ImportError before any work if a package is missing."""
    tensorflow()
    require("ai_edge_litert.interpreter", "ai-edge-litert", "exporting", extra="export")
    if rule.weights != "float":
        require("ai_edge_quantizer.quantizer", "ai-edge-quantizer", "int8 export", extra="export")


def _calibration(name, rule, shape, source, pixel_input):
    """The checked calibration images of a preset, or None."""
    if source is None:
        if rule.images == "needed":
            raise ValueError(f"calibration_images must be given for preset {name!r}: it measures ranges on them.")
        return None
    if rule.images == "none":
        raise ValueError(f"calibration_images must be None: preset {name!r} needs no calibration.")
    return images_module.calibration_images(shape, source, pixel_input)


def _learned(model, pixel_input, input_values, output):
    """(float model, (ranges, scales)) of a model from `prepare_qat`."""
    if not isinstance(model, keras.Model) or not fake_quantizers(model):
        raise ValueError(
            f"preset 'qat_int8' is for a model of prepare_qat, received {getattr(model, 'name', model)!r}."
        )
    if not pixel_input:
        raise ValueError("pixel_input must be True for preset 'qat_int8', which takes pixels without rounding them.")
    if input_values != "scaled":
        raise ValueError(f"input_values must be 'scaled' for preset 'qat_int8', received {input_values!r}.")
    if output is not None:
        raise ValueError(f"output must be None for preset 'qat_int8', which was trained as it is; received {output!r}.")
    baked = baked_model(model)
    return baked, (activation_ranges(model), take_scales(baked))


def _graph_model(model, scale, output, k, rule, learned):
    """The model whose graph the file holds, its layers written as the preset's integers need them."""
    model = export_model(model, scale)
    if rule.everything == 16:
        widen_norms(model)
    if rule.modes.get("mix") == "static" or learned and rounds_mix(learned[0]):
        even_mixes(model)
    return outputs.with_output(model, output, k)


def make_file(
    build, rule, path, calibration=None, learned=None, images=None, pixel_input=True, num_threads=2, bar=None
):
    """Writes the file of a model from `export_model`: float first, then the preset's quantization of it.

    Args:
        build: function that makes a model of its own, from `export_model`; nothing else holds it, so that its weights
            are gone before the quantizer needs memory.
        rule: `Preset`.
        path: str, the file to write.
        calibration: None, or images for ranges and equalisation.
        learned: None, or the ranges and scales of a model from `prepare_qat`.
        images: None, or images on which the layers of both files are compared.
        pixel_input, num_threads, bar: as in `quantize_post_training`.

    Returns:
        dict of what was done, as `ExportReport` names it.
    """
    if bar:
        bar.stage("converting")
    if rule.weights == "float":
        convert(build(), path)
        return {}
    with tempfile.TemporaryDirectory() as folder:
        float_path = os.path.join(folder, "float.tflite")
        convert(build(), float_path)
        gc.collect()  # a Keras model holds itself in cycles
        if learned is not None:
            quantize_learned(float_path, path, *learned)
            done = Quantized(float_path=float_path)  # its channels are scaled in place
        else:
            done = quantize_post_training(float_path, path, rule, calibration, pixel_input, num_threads, bar)
        snr = () if images is None else layer_snr(done.float_path, path, images, num_threads)
    return {"layer_snr": snr, "equalized": done.equalized, "centred": done.centred, "kept_float": done.kept_float}
