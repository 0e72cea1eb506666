"""One pre-norm Transformer encoder block (paper Eq. 2 and 3).

Legend: B batch, N tokens, D hidden dimension.
"""

import keras

from vitkeras.layers.attention import MultiHeadSelfAttention
from vitkeras.layers.layer_norm import LayerNorm
from vitkeras.layers.mlp import MlpBlock
from vitkeras.layers.stochastic_depth import StochasticDepth


@keras.saving.register_keras_serializable(package="vitkeras")
class EncoderBlock(keras.layers.Layer):
    """`x + MSA(LN(x))`, then `x + MLP(LN(x))`.

    Args:
        num_heads: int > 0, must divide D.
        mlp_dim: int > 0.
        dropout_rate: float in [0, 1), after the attention's output and both MLP layers. Default 0.
        attention_dropout_rate: float in [0, 1), on the attention weights. Default 0.
        stochastic_depth_rate: float in [0, 1), for both residual branches. Default 0.
        activation: "gelu_tanh" (default) or "gelu".
        layer_norm_epsilon: float >= 0. Default 1e-6.
        relative_positions: bool, for relative position logits in the attention (appendix D.4). Default False.
        num_prefix_tokens: int >= 0, tokens before the patches, which have no relative position. Default 0.

    Call arguments:
        x: floating tensor (B, N, D).
        training: bool or None.

    Returns:
        Tensor (B, N, D).

    Example:
        >>> tuple(EncoderBlock(num_heads=3, mlp_dim=96)(keras.ops.ones((2, 5, 48))).shape)
        (2, 5, 48)
    """

    def __init__(
        self,
        num_heads,
        mlp_dim,
        dropout_rate=0.0,
        attention_dropout_rate=0.0,
        stochastic_depth_rate=0.0,
        activation="gelu_tanh",
        layer_norm_epsilon=1e-6,
        relative_positions=False,
        num_prefix_tokens=0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.mlp_dim = mlp_dim
        self.dropout_rate = dropout_rate
        self.attention_dropout_rate = attention_dropout_rate
        self.stochastic_depth_rate = stochastic_depth_rate
        self.activation = activation
        self.layer_norm_epsilon = layer_norm_epsilon
        self.relative_positions = relative_positions
        self.num_prefix_tokens = num_prefix_tokens

        dtype = self.dtype_policy
        self.attention_norm = LayerNorm(layer_norm_epsilon, dtype=dtype, name="attention_norm")
        self.attention = MultiHeadSelfAttention(
            num_heads, attention_dropout_rate, relative_positions, num_prefix_tokens, dtype=dtype, name="attention"
        )
        self.dropout = keras.layers.Dropout(dropout_rate, dtype=dtype, name="dropout")
        self.mlp_norm = LayerNorm(layer_norm_epsilon, dtype=dtype, name="mlp_norm")
        self.mlp = MlpBlock(mlp_dim, activation, dropout_rate, dtype=dtype, name="mlp")
        self.stochastic_depth = StochasticDepth(stochastic_depth_rate, dtype=dtype, name="stochastic_depth")

    def build(self, input_shape):
        for layer in (self.attention_norm, self.attention, self.mlp_norm, self.mlp):
            layer.build(input_shape)

    def call(self, x, training=None):
        y = self.attention(self.attention_norm(x), training=training)
        y = self.dropout(y, training=training)
        x = x + self.stochastic_depth(y, training=training)
        y = self.mlp(self.mlp_norm(x), training=training)
        return x + self.stochastic_depth(y, training=training)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "mlp_dim": self.mlp_dim,
            "dropout_rate": self.dropout_rate,
            "attention_dropout_rate": self.attention_dropout_rate,
            "stochastic_depth_rate": self.stochastic_depth_rate,
            "activation": self.activation,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "relative_positions": self.relative_positions,
            "num_prefix_tokens": self.num_prefix_tokens,
        }
