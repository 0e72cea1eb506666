"""The learnable [class] token (paper Eq. 1).

Legend: B batch, N tokens, D hidden dimension.
"""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="vitkeras")
class ClassToken(keras.layers.Layer):
    """Puts one learnable token before the sequence: x_class of paper Eq. 1, zero at initialisation.

    Call arguments:
        tokens: floating tensor (B, N, D).

    Returns:
        Tensor (B, N + 1, D), the class token at index 0.

    Example:
        >>> tuple(ClassToken()(keras.ops.ones((2, 5, 48))).shape)
        (2, 6, 48)
    """

    def build(self, input_shape):
        self.token = self.add_weight(name="token", shape=(1, 1, input_shape[-1]), initializer="zeros")

    def call(self, tokens):
        batch, dim = ops.shape(tokens)[0], tokens.shape[-1]
        token = ops.broadcast_to(ops.cast(self.token, tokens.dtype), (batch, 1, dim))
        return ops.concatenate([token, tokens], axis=1)

    def compute_output_shape(self, input_shape):
        batch, count, dim = input_shape
        return batch, None if count is None else count + 1, dim
