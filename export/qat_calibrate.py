"""What a model of `prepare_qat` knows from images: its keys' and values' means, its channels' sizes, and its ranges.

Legend: N images, R rows (tokens), D inputs of a dense layer, F outputs.
"""

from dataclasses import dataclass, field

import keras
import numpy as np

from vitkeras import layers

from .calibrate import Statistics
from .equalize import LEAST_GAIN, ROWS, best_strength
from .fake_quant import OBSERVE, QUANTIZE, fake_quantizers, set_mode
from .presets import MIN_MAX, RANGES
from .quantize import around_zero
from .unseen import seen_by_gelu

# How each range is chosen, as in `int8_static`: of the attention's mix of values, and of the patches.
METHODS = dict.fromkeys(("even_weights", "value", "context"), RANGES["mix"]) | {"output": RANGES["patch"]}


def calibrate(model, images, batch_size):
    """Centres keys and values, equalises channels and sets all ranges; the model then rounds.

    Args:
        model: from `prepare_qat`, before it rounds.
        images: array (N, H, W, C), as the model takes them.
        batch_size: int.
    """
    quantizers = fake_quantizers(model)
    methods = {name: METHODS.get(name.split("/")[-1], MIN_MAX) for name in quantizers}
    sums = {name: 0.0 for name in quantizers if name.endswith(("/key", "/value"))}
    sites, channels, rng = norm_sites(model), {}, np.random.default_rng(0)

    def add(name, values):
        if name in sums:  # (B, H, N, d)
            sums[name] = sums[name] + values.mean(axis=2, dtype="float64").sum(axis=0).reshape(-1)
        else:  # (R, D)
            channels.setdefault(name, Channels()).see(values, ROWS * batch_size, rng)

    _observe(model, [*sums, *sites], add, images, batch_size)
    for layer in model.layers:
        if isinstance(layer, layers.EncoderBlock):
            _centre(layer.attention, *(sums[f"{layer.name}/{name}"] / len(images) for name in ("key", "value")))
    for name, (norm, projections) in sites.items():
        if (scales := _scales(projections, channels[name], "norm", static=True)) is not None:
            _divide(scales, projections, norm.scale)
    _observe_dynamic(model, add, images, batch_size)  # of the centred values
    for before, dense in dynamic_sites(model):
        is_norm = isinstance(before, layers.LayerNorm)
        if (scales := _scales([dense], channels[dense.kernel.path], "value", static=False)) is not None:
            _divide(scales, [dense], *((before.scale, before.bias) if is_norm else (before.kernel, before.bias)))
    found = {name: Statistics() for name in quantizers}
    _observe(model, quantizers, lambda name, values: found[name].see_extremes(values), images, batch_size)
    counted = [name for name, method in methods.items() if method != MIN_MAX]
    _observe(model, counted, lambda name, values: found[name].see_values(values), images, batch_size)
    for name, quantizer in quantizers.items():
        low, high = found[name].range(methods[name])
        if name.endswith("/hidden"):
            low, high = seen_by_gelu((low, high))
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


def dynamic_sites(model):
    """Where channels before a dynamic product can be scaled for nothing: list of (what makes them, dense layer).

    `value` makes those of `out`; the last LayerNorm, whose scale and bias stay its own in the file, those of the first
    dense layer of the head.
    """
    blocks = [layer for layer in model.layers if isinstance(layer, layers.EncoderBlock)]
    found = [(block.attention.value, block.attention.out) for block in blocks]
    norms = [layer for layer in model.layers if isinstance(layer, layers.LayerNorm)]
    heads = [layer for layer in model.layers if isinstance(layer, keras.layers.Dense)]
    alone = len(model.outputs) == 1  # nobody but the head reads the norm
    return found + list(zip(norms[-1:], heads[:1])) * alone


@dataclass
class Channels:
    """What is kept of the rows that enter a product: some of them, and the largest size of each channel."""

    rows: list = field(default_factory=list)
    tops: np.ndarray = 0.0

    def see(self, values, most, rng):
        """Adds rows (R, D), `most` of them at random."""
        self.rows.append(values[rng.choice(len(values), min(most, len(values)), replace=False)])
        self.tops = np.maximum(self.tops, np.abs(values).max(axis=0))


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


def _observe_dynamic(model, see, images, batch_size):
    """Runs the model on images; `see` gets the path of each dynamic dense layer's kernel and the rows that enter it."""
    rounding = [layer for layer in model.layers if hasattr(layer, "fake_quantizers")]

    def rows_of(dense, x):
        x = keras.ops.convert_to_numpy(x)
        see(dense.kernel.path, x.reshape(-1, x.shape[-1]))

    for layer in rounding:
        layer.observer = rows_of
    _observe(model, (), None, images, batch_size)
    for layer in rounding:
        layer.observer = None


def _scales(projections, channels, kind, static):
    """Scales (D,) of the channels that dense layers read, or None where their products gain too little."""
    kernels = np.concatenate([keras.ops.convert_to_numpy(dense.kernel) for dense in projections], axis=1)
    _, scales, before, after = best_strength(np.concatenate(channels.rows), channels.tops, kernels.T, static)
    return scales if after - before >= LEAST_GAIN[kind] else None


def _divide(scales, projections, *sources):
    """Divides what makes the channels, its last axis being theirs, and multiplies the kernels that read them."""
    for variable in sources:
        variable.assign(keras.ops.convert_to_numpy(variable) / scales)
    for dense in projections:
        dense.kernel.assign(keras.ops.convert_to_numpy(dense.kernel) * scales[:, None])


def _centre(attention, key_mean, value_mean):
    """Takes means (D,) off keys and values and adds what the latter gives behind `out`: the function is the same."""
    kernel = keras.ops.convert_to_numpy(attention.out.kernel).astype("float64")
    changes = (attention.key, -key_mean), (attention.value, -value_mean), (attention.out, value_mean @ kernel)
    for dense, change in changes:
        dense.bias.assign((keras.ops.convert_to_numpy(dense.bias) + change).astype("float32"))
