"""The original's `.npz` layout: which array belongs to which weight.

Source of the names: github.com/google-research/vision_transformer, released files of 2020 and 2021.
Legend: N tokens, D hidden dimension, H heads, d = D / H.
"""

import re
from dataclasses import dataclass

import keras

from vitkeras import layers
from vitkeras.checkpoints.view import POSITION_KEY


@dataclass(frozen=True)
class Slot:
    """One array of the file and the variable that it fills.

    Attributes:
        key: str, name in the file.
        shape: shape in the file; the variable holds the same numbers in C order, in its own shape.
        variable: `keras.Variable`.
    """

    key: str
    shape: tuple
    variable: keras.Variable


def google_slots(model):
    """Lists the `Slot`s of a ViT, plain or hybrid, in the order of the model's layers.

    Args:
        model: a model built by `VisionTransformer` or one of the variants.

    Returns:
        List of `Slot`.

    Raises:
        ValueError: if it is no Keras model, or holds a layer with weights that the layout has no name for.
    """
    if not isinstance(model, keras.Model):
        raise ValueError(f"model must be a keras.Model, received {model!r}.")
    slots, block = [], 0
    for layer in model.layers:
        before = len(slots)
        if isinstance(layer, layers.PatchEmbedding):
            slots += _dense("embedding", layer.projection)
        elif isinstance(layer, layers.ClassToken):
            slots.append(Slot("cls", tuple(layer.token.shape), layer.token))
        elif isinstance(layer, layers.PositionEmbedding):
            slots.append(Slot(POSITION_KEY, tuple(layer.embedding.shape), layer.embedding))
        elif isinstance(layer, layers.EncoderBlock):
            slots += _block(f"Transformer/encoderblock_{block}", layer)
            block += 1
        elif isinstance(layer, layers.StdConv):
            slots.append(_kernel("conv_root", layer))
        elif isinstance(layer, layers.GroupNorm):
            slots += _norm("gn_root", layer)
        elif isinstance(layer, layers.ResidualUnit):
            slots += _unit(*re.fullmatch(r"block(\d+)_unit(\d+)", layer.name).groups(), layer)
        elif layer.name == "encoder_norm":
            slots += _norm("Transformer/encoder_norm", layer)
        elif layer.name in ("pre_logits", "head"):
            slots += _dense(layer.name, layer)
        # What is left: foreign layers, relative positions, axial attention, 2-d and repeated position embeddings.
        if len(slots) - before != len(layer.weights) or _is_repeated(model, layer):
            raise ValueError(
                f"model {model.name!r}: layer {layer.name!r} ({type(layer).__name__}) has weights without a place in "
                "the original's layout, which knows a ViT with 1-d positions at the stem, a hybrid or a ResNet: "
                "compose after loading, and keep another model in Keras' own files (model.save, "
                "keras.saving.load_model)."
            )
    return slots


def _is_repeated(model, layer):
    """Whether a position embedding is one of several additions, where the layout knows one before the blocks."""
    if not isinstance(layer, layers.PositionEmbedding):
        return False
    calls = (node for nodes in model._nodes_by_depth.values() for node in nodes if node.operation is layer)
    return layer.name != "position_embedding" or len(list(calls)) > 1


def _block(prefix, block):
    attention, heads = block.attention, block.num_heads
    dim = attention.out.units
    slots = _norm(f"{prefix}/LayerNorm_0", block.attention_norm)
    prefix_attention = f"{prefix}/MultiHeadDotProductAttention_1"
    for name in ("query", "key", "value"):
        dense = getattr(attention, name)
        slots.append(Slot(f"{prefix_attention}/{name}/kernel", (dim, heads, dim // heads), dense.kernel))
        slots.append(Slot(f"{prefix_attention}/{name}/bias", (heads, dim // heads), dense.bias))
    slots.append(Slot(f"{prefix_attention}/out/kernel", (heads, dim // heads, dim), attention.out.kernel))
    slots.append(Slot(f"{prefix_attention}/out/bias", (dim,), attention.out.bias))
    slots += _norm(f"{prefix}/LayerNorm_2", block.mlp_norm)
    slots += _dense(f"{prefix}/MlpBlock_3/Dense_0", block.mlp.expand)
    slots += _dense(f"{prefix}/MlpBlock_3/Dense_1", block.mlp.project)
    return slots


def _unit(block, unit, layer):
    slots = []
    for part in ("1", "2", "3", "_proj"):
        conv, norm = getattr(layer, f"conv{part}"), getattr(layer, f"gn{part}")
        if isinstance(conv, layers.StdConv):
            slots.append(_kernel(f"block{block}/unit{int(unit)}/conv{part}", conv))
            slots += _norm(f"block{block}/unit{int(unit)}/gn{part}", norm)
    return slots


def _kernel(prefix, layer):
    return Slot(f"{prefix}/kernel", tuple(layer.kernel.shape), layer.kernel)


def _dense(prefix, layer):
    return [Slot(f"{prefix}/{part}", tuple(v.shape), v) for part, v in (("kernel", layer.kernel), ("bias", layer.bias))]


def _norm(prefix, layer):
    return [Slot(f"{prefix}/{part}", tuple(v.shape), v) for part, v in (("scale", layer.scale), ("bias", layer.bias))]
