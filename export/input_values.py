"""What the model takes: -1...1, as this library's do, or pixels that it scales itself."""

import warnings

from vitkeras.models.own_scaling import scaling_operation

INPUT_VALUES = ("scaled", "pixels")


def check_input_values(model, pixel_input, input_values):
    """Raises ValueError for a choice that does not fit, and warns of a model that looks as if it took pixels.

    Args:
        model: functional `keras.Model`.
        pixel_input, input_values: as in `to_tflite`.

    Returns:
        bool, whether pixels must be scaled before the model.
    """
    if not isinstance(pixel_input, bool):
        raise ValueError(f"pixel_input must be True or False, received {pixel_input!r}.")
    if input_values not in INPUT_VALUES:
        raise ValueError(f"input_values must be one of {INPUT_VALUES}, received {input_values!r}.")
    if input_values == "pixels" and not pixel_input:
        raise ValueError("input_values must be 'scaled' without pixel_input: nothing is scaled then.")
    scale = pixel_input and input_values == "scaled"
    if scale and (name := scaling_operation(model)):
        warnings.warn(
            f"model {model.name!r} seems to scale pixels itself by {name!r}, but its file scales them to -1...1 before "
            "the model: pass input_values='pixels' (--input-values pixels) if the model takes 0...255.",
            stacklevel=3,
        )
    return scale
