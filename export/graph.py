"""From a Keras model to a function of pixels: float32 clone, normalisation folded, named output.

Legend: B batch, H W image size, C channels.
"""

import keras
import numpy as np

from vitkeras import layers
from vitkeras._optional import require

OUTPUT_NAMES = {"linear": "logits", "softmax": "probabilities", "sigmoid": "probabilities"}


def tensorflow():
    """TensorFlow, or an error naming the extras."""
    return require("tensorflow", "TensorFlow", "exporting", extra="tf-cpu")


def output_name(model):
    """ "logits", "probabilities" or "features", after the last layer of `model`."""
    activation = getattr(model.layers[-1], "activation", None)
    if activation is None or not isinstance(model.layers[-1], keras.layers.Dense):
        return "features"
    return OUTPUT_NAMES.get(activation.__name__, "features")


def check_model(model):
    """Raises ValueError, in the user's terms, for a model that cannot be exported."""
    if not isinstance(model, keras.Model):
        raise ValueError(f"model must be a keras.Model, received {type(model).__name__}.")
    if len(model.inputs or ()) != 1 or len(model.outputs) != 1:
        raise ValueError(
            f"model must be functional with one input and one output, {model.name!r} has "
            f"{len(model.inputs or ())} and {len(model.outputs or ())}."
        )
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


def export_model(model, pixel_input):
    """Clones `model` in float32 and, for pixel input, folds the normalisation into its patch embedding.

    The model takes -1...1; the clone takes 0...255. `x = pixel / 127.5 - 1` before a convolution without padding is a
    convolution with `kernel / 127.5` and `bias - sum(kernel)`, exactly.

    Args:
        model: a model that passed `check_model`; it is left untouched.
        pixel_input: bool.

    Returns:
        A `keras.Model`.

    Raises:
        ValueError: if the normalisation cannot be folded, because the input does not go straight into a
            `PatchEmbedding`.
    """
    clone = keras.models.clone_model(model, clone_function=_float32)
    for old, new in zip(model.variables, clone.variables, strict=True):
        new.assign(keras.ops.cast(old, new.dtype))
    if not pixel_input:
        return clone
    first = [layer for layer in clone.layers if isinstance(layer, layers.PatchEmbedding)]
    if len(first) != 1 or first[0].input is not clone.inputs[0]:
        raise ValueError(
            f"model {model.name!r} must feed its input straight into one PatchEmbedding for pixel input; "
            "export it with pixel_input=False, and it takes what the Keras model takes."
        )
    projection = first[0].projection
    kernel = keras.ops.convert_to_numpy(projection.kernel).astype("float64")  # (P, P, C, D)
    bias = keras.ops.convert_to_numpy(projection.bias).astype("float64")
    projection.kernel.assign((kernel / 127.5).astype("float32"))
    projection.bias.assign((bias - kernel.sum(axis=(0, 1, 2))).astype("float32"))
    return clone


def _float32(layer):
    config = layer.get_config()
    if "dtype" in config:
        config["dtype"] = "float32"
    return type(layer).from_config(config)


def serving_module(model, batch_size):
    """Wraps `model` as a `tf.Module` whose `serve` takes `image` and returns a dict with the named output.

    Args:
        model: from `export_model`.
        batch_size: int, or None for any.

    Returns:
        (module, name of the output).
    """
    tf = tensorflow()
    name = output_name(model)
    module = tf.Module()
    module.model_variables = [variable.value for variable in model.variables]  # else the weights are not saved
    signature = [tf.TensorSpec((batch_size, *model.inputs[0].shape[1:]), tf.float32, name="image")]
    module.serve = tf.function(lambda image: {name: model(image, training=False)}, input_signature=signature)
    return module, name
