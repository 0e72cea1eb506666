"""The original's `.npz` layout: which array belongs to which weight of a plain ViT.

Source of the names: github.com/google-research/vision_transformer, released files of 2020 and 2021.
Legend: N tokens, D hidden dimension, H heads, d = D / H.
"""

from dataclasses import dataclass

import keras

from vitkeras import layers

POSITION_KEY = "Transformer/posembed_input/pos_embedding"


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
    """Lists the `Slot`s of a plain ViT, in the order of the model's layers.

    Args:
        model: a model built by `VisionTransformer` or one of the variants.

    Returns:
        List of `Slot`.

    Raises:
        ValueError: if the model holds a layer with weights that the layout has no name for.
    """
    slots, block = [], 0
    for layer in model.layers:
        if isinstance(layer, layers.PatchEmbedding):
            slots += _dense("embedding", layer.projection)
        elif isinstance(layer, layers.ClassToken):
            slots.append(Slot("cls", tuple(layer.token.shape), layer.token))
        elif isinstance(layer, layers.PositionEmbedding):
            slots.append(Slot(POSITION_KEY, tuple(layer.embedding.shape), layer.embedding))
        elif isinstance(layer, layers.EncoderBlock):
            slots += _block(f"Transformer/encoderblock_{block}", layer)
            block += 1
        elif layer.name == "encoder_norm":
            slots += _norm("Transformer/encoder_norm", layer)
        elif layer.name in ("pre_logits", "head"):
            slots += _dense(layer.name, layer)
        elif layer.weights:
            raise ValueError(
                f"model {model.name!r}: layer {layer.name!r} ({type(layer).__name__}) has weights but no place in the "
                "original layout; load the plain ViT first and compose afterwards."
            )
    return slots


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


def _dense(prefix, layer):
    return [Slot(f"{prefix}/{part}", tuple(v.shape), v) for part, v in (("kernel", layer.kernel), ("bias", layer.bias))]


def _norm(prefix, layer):
    return [Slot(f"{prefix}/{part}", tuple(v.shape), v) for part, v in (("scale", layer.scale), ("bias", layer.bias))]
