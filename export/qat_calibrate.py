"""What a model of `prepare_qat` knows from images: its values' means, its channels' sizes, and its ranges."""

import keras
import numpy as np

from vitkeras import layers

from .calibrate import Statistics
from .equalize import LEAST_GAIN, ROWS, best_strength
from .fake_quant import OBSERVE, QUANTIZE, fake_quantizers, set_mode
from .presets import MIN_MAX, RANGES
from .quantize import around_zero

# How each range is chosen, as in `int8_static`: of the attention's mix of values, and of the patches.
METHODS = dict.fromkeys(("weights", "value", "context"), RANGES["mix"]) | {"output": RANGES["patch"]}


def calibrate(model, images, batch_size):
    """Centres the values, equalises channels behind LayerNorms and sets all ranges; the model then rounds.

    Args:
        model: from `prepare_qat`, before it rounds.
        images: array (N, H, W, C), as the model takes them.
        batch_size: int.
    """
    quantizers = fake_quantizers(model)
    methods = {name: METHODS.get(name.split("/")[-1], MIN_MAX) for name in quantizers}
    sums = {name: 0.0 for name in quantizers if name.endswith("/value")}
    sites, rng = norm_sites(model), np.random.default_rng(0)
    rows, tops = {name: [] for name in sites}, dict.fromkeys(sites, 0.0)

    def add(name, values):
        if name in sums:  # (B, H, N, d)
            sums[name] = sums[name] + values.mean(axis=2, dtype="float64").sum(axis=0).reshape(-1)
        else:  # (B * N, D)
            rows[name].append(values[rng.choice(len(values), min(ROWS * batch_size, len(values)), replace=False)])
            tops[name] = np.maximum(tops[name], np.abs(values).max(axis=0))

    _observe(model, [*sums, *sites], add, images, batch_size)
    for layer in model.layers:
        if isinstance(layer, layers.EncoderBlock):
            _centre(layer.attention, sums[f"{layer.name}/value"] / len(images))
    for name, (norm, projections) in sites.items():
        _equalize(norm, projections, np.concatenate(rows[name]), tops[name])
    found = {name: Statistics() for name in quantizers}
    _observe(model, quantizers, lambda name, values: found[name].see_extremes(values), images, batch_size)
    counted = [name for name, method in methods.items() if method != MIN_MAX]
    _observe(model, counted, lambda name, values: found[name].see_values(values), images, batch_size)
    for name, quantizer in quantizers.items():
        low, high = found[name].range(methods[name])
        quantizer.set_range(*(around_zero(low, high) if quantizer.zero_centred else (low, high)))
    set_mode(model, QUANTIZE)


def norm_sites(model):
    """Where channels behind LayerNorms can be scaled: dict of quantizer -> (norm, [dense layers that read it])."""
    found = {}
    for layer in model.layers:
        if isinstance(layer, layers.EncoderBlock):
            projections = [getattr(layer.attention, name) for name in ("query", "key", "value")]
            found[f"{layer.name}/attention_input"] = layer.attention_norm, projections
            found[f"{layer.name}/mlp_input"] = layer.mlp_norm, [layer.mlp.expand]
    return found


def _observe(model, names, see, images, batch_size):
    """Runs the model on images; `see` gets the name and what passes of each named quantizer."""
    quantizers = fake_quantizers(model)
    for name in names:
        quantizers[name].observer = lambda values, name=name: see(name, keras.ops.convert_to_numpy(values))
    set_mode(model, OBSERVE)
    for start in range(0, len(images), batch_size):
        model(images[start : start + batch_size], training=False)
    for name in names:
        quantizers[name].observer = None


def _equalize(norm, projections, rows, tops):
    """Divides the channels by scales in the norm and multiplies them in the kernels, where the products gain by it."""
    kernels = [keras.ops.convert_to_numpy(dense.kernel) for dense in projections]
    _, scales, before, after = best_strength(rows, tops, np.concatenate(kernels, axis=1).T, static=True)
    if after - before < LEAST_GAIN["norm"]:
        return
    norm.scale.assign(keras.ops.convert_to_numpy(norm.scale) / scales)
    for dense, kernel in zip(projections, kernels):
        dense.kernel.assign(kernel * scales[:, None])


def _centre(attention, mean):
    """Takes the mean (D,) off the values and adds what it gives behind `out`: the function is the same."""
    kernel = keras.ops.convert_to_numpy(attention.out.kernel).astype("float64")
    attention.value.bias.assign((keras.ops.convert_to_numpy(attention.value.bias) - mean).astype("float32"))
    attention.out.bias.assign((keras.ops.convert_to_numpy(attention.out.bias) + mean @ kernel).astype("float32"))
