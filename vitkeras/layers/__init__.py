"""The building blocks, one public layer a file, in `keras.ops` only."""

from vitkeras.layers.attention import MultiHeadSelfAttention
from vitkeras.layers.class_token import ClassToken
from vitkeras.layers.encoder_block import EncoderBlock
from vitkeras.layers.layer_norm import LayerNorm
from vitkeras.layers.mlp import MlpBlock
from vitkeras.layers.patch_embedding import PatchEmbedding
from vitkeras.layers.position_embedding import PositionEmbedding
from vitkeras.layers.stochastic_depth import StochasticDepth
from vitkeras.layers.token_pooling import TokenPooling

__all__ = [
    "ClassToken",
    "EncoderBlock",
    "LayerNorm",
    "MlpBlock",
    "MultiHeadSelfAttention",
    "PatchEmbedding",
    "PositionEmbedding",
    "StochasticDepth",
    "TokenPooling",
]
