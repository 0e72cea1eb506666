"""The same model at another resolution, or with another head (paper section 3.2)."""

import keras

from vitkeras import layers
from vitkeras.layers.patch_embedding import pair
from vitkeras.layers.position_embedding import RESIZE_METHODS
from vitkeras.models.parts import check_model, check_sizes, zero_head

POSITION_LAYERS = (layers.PositionEmbedding, layers.PositionEmbedding2D)


def at_resolution(model, image_size, method="bilinear"):
    """Builds `model` anew for another image size, weights copied, position embeddings resized.

    Paper section 3.2: the patch size stays, so the sequence grows with the image.

    Args:
        model: a functional `keras.Model` whose input is (B, height, width, C).
        image_size: int or (height, width) in pixels, multiples of the patch size.
        method: "bilinear" (default, align-corners as the original) or "bicubic" (as timm).

    Returns:
        A new `keras.Model`; the old one is untouched.

    Raises:
        ValueError: if the size does not fit the patches, for an unknown method, or a model inside another one.

    Example:
        >>> import vitkeras
        >>> model = vitkeras.ViTTi16(weights=None, classes=7)
        >>> vitkeras.at_resolution(model, (384, 256)).input_shape
        (None, 384, 256, 3)
    """
    check_model(model)
    image_size = pair(image_size, "image_size")
    if method not in RESIZE_METHODS:
        raise ValueError(f"method must be one of {tuple(RESIZE_METHODS)}, received {method!r}.")
    image = keras.Input((*image_size, model.input_shape[-1]), name=model.inputs[0].name, dtype=model.inputs[0].dtype)
    inputs = keras.tree.pack_sequence_as(model.input, [image])
    nested = [layer.name for layer in model.layers if isinstance(layer, keras.Model)]
    if nested:
        raise ValueError(
            f"model {model.name!r} holds another model: rebuild that one, model.get_layer({nested[0]!r}), and "
            "compose anew."
        )
    grid = _patch_grid(model, image_size, inputs)

    def clone_layer(layer):
        config = layer.get_config()
        if isinstance(layer, POSITION_LAYERS):
            config["grid_size"] = grid
        return type(layer).from_config(config)

    new = keras.models.clone_model(model, input_tensors=inputs, clone_function=clone_layer)
    for old_layer, new_layer in zip(model.layers, new.layers, strict=True):
        if isinstance(old_layer, POSITION_LAYERS):
            for name, weight in old_layer.resized_weights(grid, method).items():
                getattr(new_layer, name).assign(weight)
            new_layer.trainable = old_layer.trainable
        else:
            _copy_weights(old_layer, new_layer)
    return new


def with_new_head(model, classes, classifier_activation="softmax"):
    """Builds `model` anew with a linear classifier that starts at zero, for fine-tuning.

    Paper section 3.2 and appendix B.1.1: `pre_logits` and `head` are dropped, a zero D x K layer is attached.

    Args:
        model: a model of this library, built with `include_top=True` or with a `pooling`.
        classes: int > 0, K.
        classifier_activation: "softmax" (default), or None for logits.

    Returns:
        A new `keras.Model` with copied weights; the old one is untouched.

    Raises:
        ValueError: if `classes` isn't a positive int, or the model's features are not one vector an image.

    Example:
        >>> import vitkeras
        >>> model = vitkeras.ViTTi16(weights=None, input_shape=(32, 32, 3))
        >>> vitkeras.with_new_head(model, 7).output_shape
        (None, 7)
    """
    check_model(model)
    check_sizes(classes=classes)
    classes = int(classes)
    names = [layer.name for layer in model.layers]
    head = next((name for name in ("pre_logits", "head") if name in names), None)
    features = model.output if head is None else model.get_layer(head).input
    if len(model.outputs) != 1:
        raise ValueError(f"model must have one output to carry a head, {model.name!r} has {len(model.outputs)}.")
    if len(features.shape) != 2:
        raise ValueError(
            f"model must give one vector an image to carry a head, its features have shape {tuple(features.shape)}; "
            "build it with a pooling, such as 'avg'."
        )
    old = keras.Model(model.input, features, name=model.name)
    new = keras.models.clone_model(old)
    for old_layer, new_layer in zip(old.layers, new.layers, strict=True):
        _copy_weights(old_layer, new_layer)
    outputs = zero_head(classes, classifier_activation, new.layers[-1].dtype_policy)(new.output)
    return keras.Model(new.input, outputs, name=model.name)


def _patch_grid(model, image_size, inputs):
    """The patch grid (h, w) that `model` would have on `inputs`, or None for a model without patches."""
    for layer in model._flatten_layers():
        if isinstance(layer, layers.RelativePositionLogits):
            raise ValueError(
                f"model {model.name!r} has relative position embeddings: their offsets belong to one number of "
                "positions and have no grid to resize."
            )
    patches = [layer for layer in model.layers if isinstance(layer, layers.PatchEmbedding)]
    if not patches:
        return None
    if len(patches) > 1:
        raise ValueError(f"model must hold one PatchEmbedding layer, {model.name!r} holds {len(patches)}.")
    # The map that patches are cut from: the image, or what a hybrid's stem makes of it.
    stem = keras.models.clone_model(keras.Model(model.input, patches[0].input), input_tensors=inputs)
    sides, patch_size = tuple(stem.output_shape[1:3]), patches[0].patch_size
    if any(size % side for size, side in zip(sides, patch_size)):
        what = "image_size" if sides == image_size else f"image_size makes a map of {sides}, which"
        raise ValueError(f"{what} must be a multiple of the patch size {patch_size}, received {image_size}.")
    return tuple(size // side for size, side in zip(sides, patch_size))


def _copy_weights(old_layer, new_layer):
    """Copies device to device, one variable at a time, so that no second copy of the model is made."""
    for old, new in zip(old_layer.variables, new_layer.variables, strict=True):
        new.assign(old)
    new_layer.trainable = old_layer.trainable
