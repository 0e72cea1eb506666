"""What every model begins and ends with: argument checks, the image input, the head."""

import math
import numbers

import keras


def zero_head(classes, activation, dtype=None):
    """The linear classifier of fine-tuning: D x K, zero at initialisation (paper section 3.2)."""
    check_activation(classifier_activation=activation)
    # The variable dtype: logits and softmax are float32 under mixed policies.
    dtype = keras.dtype_policies.get(dtype or keras.config.dtype_policy()).variable_dtype
    return keras.layers.Dense(classes, activation=activation, kernel_initializer="zeros", dtype=dtype, name="head")


def check_choice(argument, value, allowed):
    """Raises ValueError unless `value` is one of `allowed`."""
    if not isinstance(value, (str, bool, type(None))) or value not in allowed:
        raise ValueError(f"{argument} must be one of {allowed}, received {value!r}.")


def check_sizes(**sizes):
    """Raises ValueError unless each value is a positive int."""
    for argument, value in sizes.items():
        if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{argument} must be a positive int, received {value!r}.")


def check_units(**stages):
    """Raises ValueError unless each value is a sequence of positive ints."""
    for argument, units in stages.items():
        if not isinstance(units, (tuple, list)) or not all(type(n) is int and n > 0 for n in units):
            raise ValueError(f"{argument} must be a tuple of positive ints, units a stage, received {units!r}.")


def check_top(include_top, classes, pooling, poolings):
    """Raises ValueError unless `classes` fits a head, or `pooling` a model without one."""
    check_choice("include_top", include_top, (True, False))
    check_choice("pooling", pooling, poolings)
    if include_top:
        check_sizes(classes=classes)
        if pooling is not None:
            raise ValueError(f"pooling is for include_top=False, received {pooling!r} with include_top=True.")


def check_rates(**rates):
    """Raises ValueError unless each value is in [0, 1)."""
    for argument, value in rates.items():
        if not isinstance(value, (int, float)) or not 0 <= value < 1:
            raise ValueError(f"{argument} must be in [0, 1), received {value!r}.")


def check_activation(**activations):
    """Raises ValueError unless each value is None, a name that Keras knows or a function."""
    for argument, value in activations.items():
        try:
            keras.activations.get(value)
        except (TypeError, ValueError):
            raise ValueError(
                f"{argument} must be None or an activation of Keras, such as 'softmax', received {value!r}."
            ) from None


def check_epsilon(epsilon):
    """Raises ValueError unless `epsilon` is a finite number of at least 0."""
    if not isinstance(epsilon, (int, float)) or isinstance(epsilon, bool) or not 0 <= epsilon < math.inf:
        raise ValueError(f"layer_norm_epsilon must be a finite number >= 0, received {epsilon!r}.")


def check_model(model):
    """Raises ValueError unless `model` is a `keras.Model` that was built from an input."""
    if not isinstance(model, keras.Model):
        raise ValueError(f"model must be a keras.Model, received {model!r}.")
    if isinstance(model, keras.Sequential):
        inner = next((layer.name for layer in model.layers if isinstance(layer, keras.Model)), None)
        advice = "" if inner is None else f": pass the model inside it, model.get_layer({inner!r})"
        raise ValueError(f"model must be functional, {model.name!r} is a Sequential{advice}.")
    try:
        known = model.input is not None
    except (AttributeError, ValueError):  # Keras' two ways to say that there is none
        known = False
    if not known:
        raise ValueError(f"model must be built from a keras.Input, {model.name!r} ({type(model).__name__}) is not.")


def check_image(input_shape, input_tensor):
    """Returns the shape (height, width, channels) of the images, or None without both arguments."""
    if input_tensor is not None and not keras.backend.is_keras_tensor(input_tensor):
        raise ValueError(f"input_tensor must be a Keras tensor, such as keras.Input(...), received {input_tensor!r}.")
    shape = input_shape if input_tensor is None else tuple(input_tensor.shape[1:])
    if shape is None:
        return None
    sides = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    if len(sides) != 3 or sides[-1] is None or not all(s is None or type(s) is int and s > 0 for s in sides):
        raise ValueError(
            "input_shape must be (height, width, channels), all positive ints, or None for any height and width, "
            f"received {shape!r}."
        )
    if None not in (input_tensor, input_shape) and tuple(input_shape) != sides:
        raise ValueError(f"input_tensor has shape {sides}, which contradicts input_shape {tuple(input_shape)}.")
    return sides


def image_input(input_shape, input_tensor):
    """Returns the Keras tensor (B, height, width, channels) that a model is built on."""
    shape = check_image(input_shape, input_tensor)
    if shape is None:
        raise ValueError("input_shape must be (height, width, channels), received None.")
    return keras.Input(shape, name="image") if input_tensor is None else input_tensor


def model_input(image):
    """Returns what `keras.Model` takes as inputs for outputs computed from `image`."""
    inputs = keras.utils.get_source_inputs(image)
    # A list of one would make Keras warn whenever the model gets a plain array.
    return inputs[0] if isinstance(inputs, list) and len(inputs) == 1 else inputs
