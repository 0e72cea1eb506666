"""Rounding to int8 inside a float graph, by tfmot's quantizers, as the file will do it.

Legend: D output channels.
"""

import keras
from keras import ops

from vitkeras._tfmot import tfmot

from .graph import tensorflow

FLOAT, OBSERVE, QUANTIZE = "float", "observe", "quantize"
PURPOSE = "quantization-aware training"


def quantizers():
    """The module of tfmot's quantizers."""
    return tfmot(PURPOSE).quantization.keras.quantizers


class FakeQuantizer(keras.layers.Layer):
    """Rounds one activation to 256 levels of one scale; gradients pass inside the range, and are zero outside.

    The range is set once and stays as it is while training: tfmot's `AllValuesQuantizer` is only ever asked to round.
    tfmot's moving average starts at -6...6 and moves by a thousandth a batch: after the few batches of a calibration it
    would still be there.

    Args:
        zero_centred: bool, whether zero has the integer 0 (range -128 s...127 s), which XNNPACK asks of the right
            operand of a batch matrix product. Default False: the range as observed, zero included.

    Attributes:
        mode: "float" (passes its input on, at first), "observe" (that, and shows it to the observer) or "quantize".
        observer: None, or a function of one batch, called outside of graphs.
    """

    def __init__(self, zero_centred=False, **kwargs):
        super().__init__(dtype="float32", **kwargs)
        self.zero_centred = zero_centred
        self.mode, self.observer = FLOAT, None
        self.quantizer = quantizers().AllValuesQuantizer(8, per_axis=False, symmetric=zero_centred, narrow_range=False)

    def build(self, input_shape):
        self.minimum = self.add_weight(name="minimum", shape=(), initializer="zeros", trainable=False)
        self.maximum = self.add_weight(name="maximum", shape=(), initializer="zeros", trainable=False)

    def call(self, x):
        if self.mode == OBSERVE and self.observer is not None:
            self.observer(x)
        if self.mode != QUANTIZE:
            return x
        return self.quantizer(x, False, weights={"min_var": self.minimum.value, "max_var": self.maximum.value})

    def set_range(self, least, greatest):
        """Sets the ends of the range, which must hold 0."""
        self.minimum.assign(least)
        self.maximum.assign(greatest)

    def compute_output_shape(self, input_shape):
        return input_shape


class _Computed:
    """In the place of the variable that tfmot would store a kernel's range in.

    It stores the range and uses what the assignment returns. Computed anew from the kernel in each call, the range is
    never out of step with it, on any replica, in evaluation and after a resume.
    """

    def __init__(self, stop_gradient):
        self._stop_gradient = stop_gradient

    def assign(self, value, name=None):
        return self._stop_gradient(value)


def quantized_kernel(kernel):
    """Rounds a kernel (..., D) to -127...127 times one scale for each of the D channels; gradients pass."""
    quantizer = quantizers().LastValueQuantizer(8, per_axis=True, symmetric=True, narrow_range=True)
    ranges = {name: _Computed(keras.ops.stop_gradient) for name in ("min_var", "max_var")}
    return quantizer(tensorflow().convert_to_tensor(kernel), True, weights=ranges)


def fake_quantizers(model):
    """dict of name such as "encoder_block_00/key" -> `FakeQuantizer`, in the order of the layers."""
    found = {}
    for layer in model.layers:
        for inner in layer._flatten_layers():
            if isinstance(inner, FakeQuantizer):
                found[f"{layer.name}/{inner.name}"] = inner
    return found


def rounded_rows(x):
    """Rounds each row (the last axis) to 256 levels of its own range, as dynamic int8 kernels do; gradients pass."""
    least = ops.minimum(ops.min(x, axis=-1, keepdims=True), 0.0)
    greatest = ops.maximum(ops.max(x, axis=-1, keepdims=True), 0.0)
    scale = ops.maximum(greatest - least, 1e-9) / 255
    zero = ops.round(-least / scale)
    rounded = (ops.clip(ops.round(x / scale) + zero, 0, 255) - zero) * scale
    return x + ops.stop_gradient(rounded - x)


def set_mode(model, mode):
    """Sets the mode of every rounding layer; compiled functions that were traced before keep theirs."""
    for layer in model.layers:
        if hasattr(layer, "fake_quantizers"):
            layer.mode = mode
            for quantizer in layer.fake_quantizers:
                quantizer.mode = mode
