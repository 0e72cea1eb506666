"""From a Keras model to a function of pixels: float32 clone, normalisation inside, named output.

Legend: B batch, H W image size, C channels.
"""

import keras
import numpy as np

from vitkeras import layers
from vitkeras._optional import require

from .outputs import named_outputs


def tensorflow():
    """TensorFlow, or an error naming the extras."""
    return require("tensorflow", "TensorFlow", "exporting", extra="tf-cpu")


def functional(model):
    """The functional form of a `keras.Sequential` that knows its input, and any other model as it is."""
    if isinstance(model, keras.Sequential) and model.built and model.inputs:
        return keras.Model(model.inputs[0], model.outputs[0], name=model.name)
    return model


def check_model(model):
    """Raises ValueError, in the user's terms, for a model that cannot be exported."""
    if not isinstance(model, keras.Model):
        raise ValueError(f"model must be a keras.Model, received {type(model).__name__}.")
    inputs = getattr(model, "inputs", None) or ()  # a Sequential that isn't built has no such attribute
    if len(inputs) != 1 or not model.outputs:
        raise ValueError(f"model must be functional with one input, {model.name!r} has {len(inputs)} inputs.")
    if any(hasattr(layer, "fake_quantizers") for layer in model.layers):
        raise ValueError(
            f"model {model.name!r} comes from prepare_qat: export it with to_tflite(preset='qat_int8'), or take its "
            "float model, baked_model(model)."
        )
    shape = tuple(model.inputs[0].shape)
    if len(shape) != 4 or None in shape[1:]:
        raise ValueError(f"model must take images of a fixed size (batch, height, width, channels), received {shape}.")
    for variable in model.weights:
        if not np.isfinite(keras.ops.convert_to_numpy(variable).astype("float32")).all():
            raise ValueError(f"model weight {variable.path!r} holds NaN or infinite values.")


class ScalePixels(keras.layers.Layer):
    """0...255 to -1...1. A layer, whose operations' names can't be those of the model's own."""

    def call(self, x):
        return x * (1 / 127.5) - 1.0


def export_model(model, scale):
    """Clones `model` in float32, with what is constant computed once and, with `scale`, the normalisation inside.

    The model takes -1...1; the clone takes 0...255. `x = pixel / 127.5 - 1` before a `PatchEmbedding`, a convolution
    without padding, is a convolution with `kernel / 127.5` and `bias - sum(kernel)`, exactly, and costs nothing. A
    ResNet's root pads its input with zeros after the normalisation, which no kernel can express at the border; there,
    and before any other layer, the clone begins with the product and the difference themselves.

    Standardised convolutions hold their standardised kernels.

    Args:
        model: a model that passed `check_model`; it is left untouched.
        scale: bool.

    Returns:
        A `keras.Model`.
    """
    image = keras.Input(model.inputs[0].shape[1:], name="image")
    folded, scale_pixels = [], ScalePixels(name="scale_pixels")

    def call(layer, *args, **kwargs):
        if not scale or not any(x is image for x in keras.tree.flatten((args, kwargs))):
            return layer(*args, **kwargs)
        if isinstance(layer, layers.PatchEmbedding):
            folded.append(layer)
            return layer(*args, **kwargs)
        scaled = scale_pixels(image)
        args, kwargs = keras.tree.map_structure(lambda x: scaled if x is image else x, (args, kwargs))
        return layer(*args, **kwargs)

    inputs = keras.tree.map_structure(lambda _: image, model.input)  # the model's own structure: a tensor or a list
    clone = keras.models.clone_model(model, inputs, clone_function=_float32, call_function=call)
    for old, new in zip(model.variables, clone.variables, strict=True):
        new.assign(keras.ops.cast(old, new.dtype))
    for layer in folded:
        _fold_normalisation(layer.projection)
    for layer in clone._flatten_layers():
        if isinstance(layer, layers.StdConv):
            _bake_kernel(layer)
    return clone


def _fold_normalisation(convolution):
    kernel = keras.ops.convert_to_numpy(convolution.kernel).astype("float64")  # (P, P, C, D)
    bias = keras.ops.convert_to_numpy(convolution.bias).astype("float64")
    convolution.kernel.assign((kernel / 127.5).astype("float32"))
    convolution.bias.assign((bias - kernel.sum(axis=(0, 1, 2))).astype("float32"))


def _bake_kernel(layer):
    """Standardises the kernel once and for all; converters fold constants only up to a size."""
    layer.kernel.assign(layer.standardised_kernel())
    layer.standardised_kernel = lambda: layer.kernel


def _float32(layer):
    config = layer.get_config()
    if "dtype" in config:
        config["dtype"] = "float32"
    return type(layer).from_config(config)


def serving_module(model, input_dtype="float32"):
    """Wraps `model` as a `tf.Module` whose `serve` takes `image` and returns a dict of named outputs.

    Args:
        model: from `export_model` or `with_output`.
        input_dtype: "float32" (default) or "uint8".

    Returns:
        `tf.Module`.
    """
    tf = tensorflow()
    module = tf.Module()
    module.model_variables = [variable.value for variable in model.variables]  # else the weights are not saved
    signature = [tf.TensorSpec((None, *model.inputs[0].shape[1:]), input_dtype, name="image")]
    module.serve = tf.function(lambda image: named_outputs(model, tf.cast(image, "float32")), signature)
    return module
