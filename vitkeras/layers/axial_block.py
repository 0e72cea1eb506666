"""An encoder block along the rows, then one along the columns of a map (paper appendix D.6).

Legend: B batch, h w patch grid, D hidden dimension.
"""

import keras

from vitkeras.layers.axial_attention import AXES, along_axis, line_shape
from vitkeras.layers.encoder_block import EncoderBlock


@keras.saving.register_keras_serializable(package="vitkeras")
class AxialEncoderBlock(keras.layers.Layer):
    """An encoder block on each row, then one on each column: attention and MLP both times.

    Appendix D.6, Axial-ViT: two steps reach every position, at (h + w) instead of h w products a token.

    Args:
        num_heads: int > 0, must divide D.
        mlp_dim: int > 0.
        dropout_rate, attention_dropout_rate, stochastic_depth_rate, activation, layer_norm_epsilon: as in
            `EncoderBlock`, the same in both. Stochastic depth drops a branch for a whole row or column.

    Call arguments:
        x: floating tensor (B, h, w, D).
        training: bool or None.

    Returns:
        Tensor (B, h, w, D).

    Raises:
        ValueError: as `EncoderBlock`.

    Example:
        >>> tuple(AxialEncoderBlock(num_heads=3, mlp_dim=96)(keras.ops.ones((2, 3, 5, 48))).shape)
        (2, 3, 5, 48)
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
        for axis in AXES:
            setattr(self, axis, EncoderBlock(**self._block_arguments(), dtype=self.dtype_policy, name=axis))

    def _block_arguments(self):
        return {
            "num_heads": self.num_heads,
            "mlp_dim": self.mlp_dim,
            "dropout_rate": self.dropout_rate,
            "attention_dropout_rate": self.attention_dropout_rate,
            "stochastic_depth_rate": self.stochastic_depth_rate,
            "activation": self.activation,
            "layer_norm_epsilon": self.layer_norm_epsilon,
        }

    def build(self, input_shape):
        for axis in AXES:
            getattr(self, axis).build(line_shape(input_shape, axis))

    def call(self, x, training=None):
        for axis in AXES:
            x = along_axis(getattr(self, axis), x, axis, training=training)
        return x

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {**super().get_config(), **self._block_arguments()}
