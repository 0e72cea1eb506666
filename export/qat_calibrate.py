"""What a model of `prepare_qat` knows from images: its values' means, which are taken off, and its ranges."""

import keras

from vitkeras import layers

from .calibrate import Statistics
from .fake_quant import OBSERVE, QUANTIZE, fake_quantizers, set_mode
from .presets import MIN_MAX, RANGES
from .quantize import around_zero

# How each range is chosen, as in `int8_static`: of the attention's mix of values, and of the patches.
METHODS = dict.fromkeys(("weights", "value", "context"), RANGES["mix"]) | {"output": RANGES["patch"]}


def calibrate(model, images, batch_size):
    """Centres the values and sets all ranges; the model then rounds.

    Args:
        model: from `prepare_qat`, before it rounds.
        images: array (N, H, W, C), as the model takes them.
        batch_size: int.
    """
    quantizers = fake_quantizers(model)
    methods = {name: METHODS.get(name.split("/")[-1], MIN_MAX) for name in quantizers}
    sums = {name: 0.0 for name in quantizers if name.endswith("/value")}

    def add(name, values):  # (B, H, N, d)
        sums[name] = sums[name] + values.mean(axis=2, dtype="float64").sum(axis=0).reshape(-1)

    _observe(model, sums, add, images, batch_size)
    for layer in model.layers:
        if isinstance(layer, layers.EncoderBlock):
            _centre(layer.attention, sums[f"{layer.name}/value"] / len(images))
    found = {name: Statistics() for name in quantizers}
    _observe(model, quantizers, lambda name, values: found[name].see_extremes(values), images, batch_size)
    counted = [name for name, method in methods.items() if method != MIN_MAX]
    _observe(model, counted, lambda name, values: found[name].see_values(values), images, batch_size)
    for name, quantizer in quantizers.items():
        low, high = found[name].range(methods[name])
        quantizer.set_range(*(around_zero(low, high) if quantizer.zero_centred else (low, high)))
    set_mode(model, QUANTIZE)


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


def _centre(attention, mean):
    """Takes the mean (D,) off the values and adds what it gives behind `out`: the function is the same."""
    kernel = keras.ops.convert_to_numpy(attention.out.kernel).astype("float64")
    attention.value.bias.assign((keras.ops.convert_to_numpy(attention.value.bias) - mean).astype("float32"))
    attention.out.bias.assign((keras.ops.convert_to_numpy(attention.out.bias) + mean @ kernel).astype("float32"))
