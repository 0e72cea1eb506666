"""The building blocks, one public layer a file, in `keras.ops` only."""

from vitkeras.layers.attention import MultiHeadSelfAttention
from vitkeras.layers.axial_attention import AxialAttention
from vitkeras.layers.axial_block import AxialEncoderBlock
from vitkeras.layers.class_token import ClassToken
from vitkeras.layers.corrupt_patches import CorruptPatches
from vitkeras.layers.encoder_block import EncoderBlock
from vitkeras.layers.group_norm import GroupNorm
from vitkeras.layers.layer_norm import LayerNorm
from vitkeras.layers.mlp import MlpBlock
from vitkeras.layers.patch_embedding import PatchEmbedding
from vitkeras.layers.pick_tokens import PickTokens
from vitkeras.layers.position_embedding import PositionEmbedding
from vitkeras.layers.position_embedding_2d import PositionEmbedding2D
from vitkeras.layers.relative_position import RelativePositionLogits
from vitkeras.layers.residual_unit import ResidualUnit
from vitkeras.layers.std_conv import StdConv
from vitkeras.layers.stochastic_depth import StochasticDepth
from vitkeras.layers.token_map import TokenMap
from vitkeras.layers.token_pooling import TokenPooling

__all__ = [
    "AxialAttention",
    "AxialEncoderBlock",
    "ClassToken",
    "CorruptPatches",
    "EncoderBlock",
    "GroupNorm",
    "LayerNorm",
    "MlpBlock",
    "MultiHeadSelfAttention",
    "PatchEmbedding",
    "PickTokens",
    "PositionEmbedding",
    "PositionEmbedding2D",
    "RelativePositionLogits",
    "ResidualUnit",
    "StdConv",
    "StochasticDepth",
    "TokenMap",
    "TokenPooling",
]
