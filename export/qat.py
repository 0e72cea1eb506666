"""Quantization-aware training: a model that computes as its int8 file will, to be fine-tuned in that state.

Legend: N images.
"""

import hashlib

import keras
import numpy as np

from vitkeras import layers

from .fake_quant import QUANTIZE, fake_quantizers, quantized_kernel, set_mode
from .graph import check_model
from .qat_calibrate import calibrate, norm_sites
from .qat_layers import QUANTIZED, FloatMixEncoderBlock

_PLAIN = {quantized: plain for plain, quantized in QUANTIZED.items()} | {FloatMixEncoderBlock: layers.EncoderBlock}
FINGERPRINT = "weights_sha256"  # the name in ranges.json
_RATES = ("dropout_rate", "attention_dropout_rate", "stochastic_depth_rate", "rate")
# Layers without a matrix product, which stay as they are.
_FLOAT = (
    keras.layers.InputLayer,
    keras.layers.Reshape,
    keras.layers.Dropout,
    layers.ClassToken,
    layers.PositionEmbedding,
    layers.PositionEmbedding2D,
    layers.LayerNorm,
    layers.TokenPooling,
)


def prepare_qat(model, calibration_images=None, ranges=None, batch_size=8, float_mix=False):
    """Builds a copy of a trained model that rounds where an int8 file rounds.

    Kernels are rounded to int8 with one scale a channel, and activations around every matrix product to int8 with one
    scale a tensor, by the quantizers of tensorflow-model-optimization. Layers, weights and their names are those of
    `model`, so that the same checkpoints and the training engine serve both, with three changes: the scale and bias of
    each block's LayerNorms are multiplied into the projections behind them and frozen, as the converter does it; with
    images, the values' mean moves from `value`'s bias to that of `out`, which int8 attention is better for, and the
    channels behind a LayerNorm, between `value` and `out` and before the head are equalised where that pays, as for
    `int8_static`; dropout and stochastic depth are off. Fine-tune it with `vitkeras.training.Engine`, best with
    `vitkeras.training.Distillation`, then export it with `to_tflite(..., preset="qat_int8")`.

    Args:
        model: a `VisionTransformer` for images of a fixed size, trained; it is left untouched.
        calibration_images: array (N, H, W, C), -1...1 as the model takes them, from which the ranges of the activations
            are read: a few dozen that look like those to come.
        ranges: instead of images, what `activation_ranges` gave for the model whose `baked_model` this is, or the
            `ranges.json` of a `vitkeras-qat` run. A model whose kernels are not on an int8 grid is refused, and one
            with other weights than those that `ranges.json` was saved with.
        batch_size: int >= 1, images at a time in the calibration. Default 8.
        float_mix: bool, whether the attention's weighted sum of the values stays in float, in the file too: its
            rounding costs most, see docs/quantization-aware-training.md. With `ranges` they tell. Default False.

    Returns:
        A functional `keras.Model` in float32.

    Raises:
        ImportError: if tensorflow-model-optimization is missing.
        ValueError: for a model with other layers, images that don't fit or aren't finite, or ranges of another model.

    Example:
        >>> qat_model = prepare_qat(model, vitkeras.preprocess_input(images))      # doctest: +SKIP
    """
    check_model(model)
    if (calibration_images is None) == (ranges is None):
        raise ValueError("prepare_qat takes either calibration_images or ranges, received both or neither.")
    for layer in model.layers:
        _check_layer(model, layer)
    images = (
        None
        if calibration_images is None
        else check_images(model, "calibration_images", calibration_images, batch_size)
    )
    if ranges is not None:
        ranges = _own_ranges(model, ranges)
        float_mix = not rounds_mix(ranges)
    kinds = QUANTIZED | ({layers.EncoderBlock: FloatMixEncoderBlock} if float_mix else {})
    quantized = _convert(model, lambda layer: kinds.get(type(layer), type(layer)))
    for norm, projections in norm_sites(quantized).values():
        _fold(norm, projections)
    if ranges is not None:
        _set_ranges(quantized, ranges)
        _check_grid(quantized)
        set_mode(quantized, QUANTIZE)
    else:
        calibrate(quantized, images, batch_size)
    return quantized


def activation_ranges(qat_model):
    """Returns the ranges that a model of `prepare_qat` rounds its activations in.

    Args:
        qat_model: from `prepare_qat`.

    Returns:
        dict of name, such as "encoder_block_00/key", -> (least, greatest) as floats, ready for JSON.

    Raises:
        ValueError: for a model of another kind.

    Example:
        >>> activation_ranges(qat_model)["encoder_block_00/even_weights"]          # doctest: +SKIP
        (0.0, 0.97)
    """
    return {name: (float(q.minimum), float(q.maximum)) for name, q in _quantizers(qat_model).items()}


def ranges_record(qat_model, baked):
    """`activation_ranges` and the fingerprint of the model that they belong to, ready for JSON.

    Args:
        qat_model: from `prepare_qat`.
        baked: its `baked_model`.

    Returns:
        dict, which `prepare_qat(baked, ranges=...)` takes.
    """
    return {FINGERPRINT: _weights_sha256(baked), **activation_ranges(qat_model)}


def _weights_sha256(model):
    """Hexadecimal SHA-256 of a model's weights, by their paths; random states don't count."""
    digest = hashlib.sha256()
    for path, variable in sorted((v.path, v) for v in model.weights):
        digest.update(path.encode())
        digest.update(np.ascontiguousarray(keras.ops.convert_to_numpy(variable)).tobytes())
    return digest.hexdigest()


def _own_ranges(model, ranges):
    """Ranges without their fingerprint; ValueError if that is of another model."""
    saved, own = ranges.get(FINGERPRINT), {name: ends for name, ends in ranges.items() if name != FINGERPRINT}
    if saved is not None and saved != (received := _weights_sha256(model)):
        raise ValueError(
            f"ranges must be of this model: they were saved with weights of SHA-256 {str(saved)[:12]!r}..., "
            f"{model.name!r} has {received[:12]!r}..."
        )
    return own


def rounds_mix(ranges):
    """Whether ranges, from `activation_ranges`, are of a model that rounds the attention's mix of the values."""
    return any(str(name).endswith("/even_weights") for name in ranges)


def take_scales(baked):
    """Takes the scales off the LayerNorms whose channels are equalised; the file multiplies by them instead.

    The converter would multiply them into the kernels, which would leave their grid.

    Args:
        baked: from `baked_model`; its LayerNorms change.

    Returns:
        dict of the quantizer behind each such norm, such as "encoder_block_00/mlp_input", -> float32 array (D,).
    """
    found = {}
    for name, (norm, _) in norm_sites(baked).items():
        scale = keras.ops.convert_to_numpy(norm.scale)
        if (scale != 1).any():
            found[name] = scale
            norm.scale.assign(np.ones_like(scale))
    return found


def baked_model(qat_model):
    """Returns the float model of a model of `prepare_qat`, its kernels rounded to the int8 values of the file.

    It has the layers that the library's functions know, and no fake quantization: save this one.

    Args:
        qat_model: from `prepare_qat`.

    Returns:
        A `keras.Model` that `prepare_qat(..., ranges=activation_ranges(qat_model))` turns into `qat_model` again.

    Raises:
        ValueError: for a model of another kind.

    Example:
        >>> baked_model(qat_model).save("model.keras")                             # doctest: +SKIP
    """
    _quantizers(qat_model)
    model = _convert(qat_model, lambda layer: _PLAIN.get(type(layer), type(layer)))
    for layer in model._flatten_layers():
        if isinstance(layer, (keras.layers.Dense, keras.layers.Conv2D)):
            layer.kernel.assign(quantized_kernel(layer.kernel))
    return model


def _quantizers(model):
    found = fake_quantizers(model)
    if not found:
        raise ValueError(f"model must come from prepare_qat, {model.name!r} has no fake quantizers.")
    return found


def _check_layer(model, layer):
    relative = getattr(layer, "relative_positions", False)
    if type(layer) in (*_FLOAT, *QUANTIZED) and not relative:
        return
    what = "has relative positions" if relative else "is of no kind that it knows"
    raise ValueError(
        f"quantization-aware training is for a VisionTransformer without a stem and relative positions: layer "
        f"{layer.name!r} ({type(layer).__name__}) of {model.name!r} {what}."
    )


def check_images(model, name, images, batch_size):
    """float32 images (N, H, W, C) as the model takes them; ValueError, with the argument's name, for others."""
    if not isinstance(batch_size, int) or batch_size < 1:
        raise ValueError(f"batch_size must be an int >= 1, received {batch_size!r}.")
    images, shape = np.asarray(images, "float32"), tuple(model.inputs[0].shape[1:])
    if images.ndim != 4 or images.shape[1:] != shape or not len(images):
        sides = ", ".join(map(str, shape))
        raise ValueError(f"{name} must have shape (N, {sides}), received {images.shape}.")
    if not np.isfinite(images).all():
        raise ValueError(f"{name} must be finite, received NaN or infinite values.")
    if np.abs(images).max() > 8:  # -1...1, or ImageNet's mean and deviation
        raise ValueError(
            f"{name} must be what the model takes (vitkeras.preprocess_input), "
            f"received {images.min():g}...{images.max():g}."
        )
    return images


def _convert(model, kind):
    """A float32 copy of `model` with each layer of the class that `kind` says, its weights copied by their paths."""

    def convert(layer):
        config = layer.get_config()
        if "dtype" in config:
            config["dtype"] = "float32"
        return kind(layer).from_config(config | {key: 0.0 for key in _RATES if key in config})

    copy = keras.models.clone_model(model, clone_function=convert)
    values = {v.path: v for v in model.weights}
    for variable in copy.weights:
        if variable.path in values:
            variable.assign(keras.ops.cast(values[variable.path], variable.dtype))
    return copy


def _fold(norm, projections):
    """Multiplies the scale and bias of a LayerNorm into the projections that read it, and freezes it at 1 and 0.

    Without a bias it is left alone, for so it is in a model that was folded and equalised before.
    """
    norm.trainable = False
    scale, bias = (keras.ops.convert_to_numpy(v).astype("float64") for v in (norm.scale, norm.bias))
    if not bias.any():
        return
    for dense in projections:
        kernel = keras.ops.convert_to_numpy(dense.kernel).astype("float64")
        dense.bias.assign((keras.ops.convert_to_numpy(dense.bias) + bias @ kernel).astype("float32"))
        dense.kernel.assign((scale[:, None] * kernel).astype("float32"))
    norm.scale.assign(np.ones(scale.shape, "float32"))
    norm.bias.assign(np.zeros(bias.shape, "float32"))


def _check_grid(model):
    """Raises ValueError unless the kernels hold int8 values, as those of a `baked_model` do."""
    for layer in model._flatten_layers():
        if isinstance(layer, (keras.layers.Dense, keras.layers.Conv2D)):
            kernel, rounded = (keras.ops.convert_to_numpy(k) for k in (layer.kernel, quantized_kernel(layer.kernel)))
            if np.abs(kernel - rounded).max() > 1e-5 * np.abs(kernel).max():
                raise ValueError(
                    f"ranges are for the baked_model that they were saved with: {layer.kernel.path!r} of "
                    f"{model.name!r} holds other values than int8 ones."
                )


def _is_end(value):
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return is_number and abs(float(value)) < 1e30


def _set_ranges(model, ranges):
    found = fake_quantizers(model)
    if set(found) != set(ranges):
        missing, more = sorted(set(found) - set(ranges)), sorted(set(ranges) - set(found))
        what = f"lack {missing[0]!r}" if missing else f"have the unexpected {more[0]!r}"
        raise ValueError(f"ranges must be of this model: they {what} ({len(ranges)} names, {len(found)} needed).")
    for name, quantizer in found.items():
        ends = ranges[name]
        if not isinstance(ends, list | tuple | np.ndarray) or len(ends) != 2 or not all(map(_is_end, ends)):
            raise ValueError(f"ranges[{name!r}] must be two numbers below 1e30 in size, received {ends!r}.")
        least, greatest = ends
        if not least <= 0 <= greatest:
            raise ValueError(f"ranges[{name!r}] must hold 0, received {ends!r}.")
        quantizer.set_range(least, greatest)
