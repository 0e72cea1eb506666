"""Intermediate feature maps of a backbone, for detection, segmentation and probing."""

import re

import keras

from vitkeras import layers as vit_layers
from vitkeras.models.parts import check_model

BLOCKS = (vit_layers.EncoderBlock, vit_layers.AxialEncoderBlock)


def features(model, layers, as_maps=True, norm=False):
    """Builds a backbone with several outputs that shares the weights of `model`.

    Args:
        model: a model of this library, with or without head. To look into a larger model, pass the ViT inside it
            (`model.get_layer(name)`).
        layers: sequence of ints: encoder blocks of a ViT from 0 (negative ones count from the end), or stages of a
            ResNet. Such as (3, 7, 11).
        as_maps: bool; True (default) gives maps (B, h, w, D) without class token, False a ViT's tokens (B, N, D).
        norm: bool, whether a ViT's last LayerNorm is applied to each output. Default False.

    Returns:
        A `keras.Model` from images to a list, one output for each of `layers`, in their order; for a single one, to
        the output itself, as Keras has it.

    Raises:
        ValueError: if `layers` is empty or names a block that the model doesn't have, or for an option that a ResNet
            doesn't have.

    Example:
        >>> import vitkeras
        >>> model = vitkeras.ViTTi16(weights=None, input_shape=(32, 48, 3))
        >>> [tuple(output.shape) for output in features(model, (3, -1)).outputs]
        [(None, 2, 3, 192), (None, 2, 3, 192)]
    """
    check_model(model)
    blocks = [layer for layer in model.layers if isinstance(layer, BLOCKS)]
    is_resnet = not blocks
    if is_resnet:
        blocks = _stages(model)
    if not blocks:
        raise ValueError(f"model must hold encoder blocks or ResNet stages, {model.name!r} holds none.")
    chosen = tuple(layers) if isinstance(layers, (tuple, list, range)) else ()
    if not chosen or not all(type(i) is int and -len(blocks) <= i < len(blocks) for i in chosen):
        raise ValueError(
            f"layers must be a sequence of ints in -{len(blocks)}...{len(blocks) - 1}, received {layers!r}."
        )
    for argument, value in (("as_maps", as_maps), ("norm", norm)):
        if not isinstance(value, bool):
            raise ValueError(f"{argument} must be True or False, received {value!r}.")
    if is_resnet and (norm or not as_maps):
        raise ValueError(f"as_maps=False and norm=True are for ViTs, received them for {model.name!r}.")
    outputs = [blocks[i].output for i in chosen]
    if norm:
        outputs = [model.get_layer("encoder_norm")(x) for x in outputs]
    if not is_resnet:
        outputs = [_as_map(model, x) if as_maps else _as_tokens(x) for x in outputs]
    return keras.Model(model.input, outputs, name=f"{model.name}_features")


def _stages(model):
    """The last unit of each stage."""
    units = [layer for layer in model.layers if isinstance(layer, vit_layers.ResidualUnit)]
    return list({re.match(r"block\d+", unit.name).group(): unit for unit in units}.values())


def _as_map(model, x):
    if len(x.shape) == 4:  # axial: a map already
        return x
    prefix = sum(isinstance(layer, vit_layers.ClassToken) for layer in model.layers)
    grid = next(layer for layer in model.layers if isinstance(layer, vit_layers.PatchEmbedding)).output
    return vit_layers.TokenMap(prefix)(x, grid)


def _as_tokens(x):
    return x if len(x.shape) == 3 else keras.layers.Reshape((-1, x.shape[-1]))(x)
