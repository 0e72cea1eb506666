"""What every model begins and ends with: argument checks, the image input, the head."""

import keras


def zero_head(classes, activation, dtype=None):
    """The linear classifier of fine-tuning: D x K, zero at initialisation (paper section 3.2)."""
    # The variable dtype: logits and softmax are float32 under mixed policies.
    dtype = keras.dtype_policies.get(dtype or keras.config.dtype_policy()).variable_dtype
    return keras.layers.Dense(classes, activation=activation, kernel_initializer="zeros", dtype=dtype, name="head")


def check_choice(argument, value, allowed):
    """Raises ValueError unless `value` is one of `allowed`."""
    if value not in allowed:
        raise ValueError(f"{argument} must be one of {allowed}, received {value!r}.")


def check_sizes(**sizes):
    """Raises ValueError unless each value is a positive int."""
    for argument, value in sizes.items():
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"{argument} must be a positive int, received {value!r}.")


def check_top(include_top, classes, pooling, poolings):
    """Raises ValueError unless `classes` fits a head, or `pooling` a model without one."""
    check_choice("pooling", pooling, poolings)
    if include_top:
        check_sizes(classes=classes)
        if pooling is not None:
            raise ValueError(f"pooling is for include_top=False, received {pooling!r} with include_top=True.")


def check_rates(**rates):
    """Raises ValueError unless each value is in [0, 1)."""
    for argument, value in rates.items():
        if not 0 <= value < 1:
            raise ValueError(f"{argument} must be in [0, 1), received {value!r}.")


def image_input(input_shape, input_tensor):
    """Returns the Keras tensor (B, height, width, channels) that a model is built on."""
    shape = tuple(input_shape) if input_tensor is None else tuple(input_tensor.shape[1:])
    known = [side for side in shape if side is not None]
    if len(shape) != 3 or shape[-1] is None or not all(isinstance(side, int) and side > 0 for side in known):
        raise ValueError(
            "input_shape must be (height, width, channels), all positive ints, or None for any height and width, "
            f"received {shape}."
        )
    if input_tensor is None:
        return keras.Input(shape, name="image")
    if input_shape is not None and tuple(input_shape) != shape:
        raise ValueError(f"input_tensor has shape {shape}, which contradicts input_shape {tuple(input_shape)}.")
    return input_tensor


def model_input(image):
    """Returns what `keras.Model` takes as inputs for outputs computed from `image`."""
    inputs = keras.utils.get_source_inputs(image)
    # A list of one would make Keras warn whenever the model gets a plain array.
    return inputs[0] if isinstance(inputs, list) and len(inputs) == 1 else inputs
