"""The encoder's MLP (paper section 3.1, Eq. 3).

Legend: B batch, N tokens, D hidden dimension, M MLP dimension.
"""

import keras
from keras import ops

# The original JAX models use the tanh approximation; timm, Hugging Face and DINO weights the exact erf form.
GELU_KINDS = {"gelu_tanh": True, "gelu": False}


def check_gelu(activation):
    """Returns `activation` if it names a GELU kind, else raises ValueError."""
    if activation not in GELU_KINDS:
        raise ValueError(
            f"activation must be 'gelu_tanh' (original JAX weights) or 'gelu' (erf: timm, Hugging Face, DINO), "
            f"received {activation!r}."
        )
    return activation


@keras.saving.register_keras_serializable(package="vitkeras")
class MlpBlock(keras.layers.Layer):
    """Dense, GELU, dropout, dense, dropout, applied to each token alone.

    Paper section 3.1; dropout after both dense layers as in appendix B.1. Kernels start
    Xavier-uniform, biases N(0, 1e-6).

    Args:
        mlp_dim: int > 0, M.
        activation: "gelu_tanh" (default, the original's approximation) or "gelu" (erf).
        dropout_rate: float in [0, 1). Default 0.

    Call arguments:
        x: floating tensor (B, N, D).
        training: bool or None.

    Returns:
        Tensor (B, N, D).

    Raises:
        ValueError: if `activation` is neither kind of GELU.

    Example:
        >>> tuple(MlpBlock(mlp_dim=96)(keras.ops.ones((2, 5, 48))).shape)
        (2, 5, 48)
    """

    def __init__(self, mlp_dim, activation="gelu_tanh", dropout_rate=0.0, **kwargs):
        super().__init__(**kwargs)
        self.mlp_dim = mlp_dim
        self.activation = check_gelu(activation)
        self.dropout_rate = dropout_rate
        self.dropout = keras.layers.Dropout(dropout_rate, dtype=self.dtype_policy, name="dropout")
        self.dropout_out = keras.layers.Dropout(dropout_rate, dtype=self.dtype_policy, name="dropout_out")

    def build(self, input_shape):
        dim = input_shape[-1]
        # The original's names. TensorFlow's CPU graph fuses matrix product, bias and GELU into one kernel only
        # if the bias node's name sorts before "Gelu", which lower-case layer names do not.
        self.expand = self._dense(self.mlp_dim, "Dense_0")
        self.expand.build((None, dim))
        self.project = self._dense(dim, "Dense_1")
        self.project.build((None, self.mlp_dim))

    def _dense(self, units, name):
        return keras.layers.Dense(
            units,
            kernel_initializer="glorot_uniform",
            bias_initializer=keras.initializers.RandomNormal(stddev=1e-6),
            dtype=self.dtype_policy,
            name=name,
        )

    def call(self, x, training=None):
        # Rank 2 keeps the bias next to the matrix product, where every backend fuses the two.
        y = ops.reshape(x, (-1, x.shape[-1]))  # (B * N, D)
        y = ops.gelu(self.expand(y), approximate=GELU_KINDS[self.activation])  # (B * N, M)
        y = self.project(self.dropout(y, training=training))
        sides = x.shape[1:] if None not in x.shape[1:] else ops.shape(x)[1:]  # ints where known, as converters want
        y = ops.reshape(y, (-1, *sides))  # (B, N, D)
        return self.dropout_out(y, training=training)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {
            **super().get_config(),
            "mlp_dim": self.mlp_dim,
            "activation": self.activation,
            "dropout_rate": self.dropout_rate,
        }
