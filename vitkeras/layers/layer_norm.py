"""Layer normalisation with the original's epsilon and float32 statistics.

Legend: B batch, N tokens, D hidden dimension.
"""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="vitkeras")
class LayerNorm(keras.layers.Layer):
    """Normalises the last axis: `(x - mean) / sqrt(var + epsilon) * scale + bias`.

    The paper's LN of Eq. 2 to 4. The mean, the variance and the affine part are computed in
    float32 whatever the dtype policy is. It is written as centre, square, rsqrt so that a
    converted graph holds seven builtin TFLite ops, all of which XNNPACK runs.

    Args:
        epsilon: float >= 0, added to the variance inside the root. Default 1e-6, the
            original's; Keras' own default is 1e-3.

    Call arguments:
        x: floating tensor (..., D).

    Returns:
        Tensor of the same shape, in the compute dtype.

    Raises:
        ValueError: if `epsilon` is negative.

    Example:
        >>> tuple(LayerNorm()(keras.ops.ones((2, 5, 48))).shape)
        (2, 5, 48)
    """

    def __init__(self, epsilon=1e-6, **kwargs):
        super().__init__(**kwargs)
        if epsilon < 0:
            raise ValueError(f"epsilon must be >= 0, received {epsilon}.")
        self.epsilon = epsilon

    def build(self, input_shape):
        dim = input_shape[-1]
        # autocast=False: scale and bias stay float32 under mixed policies, as the statistics do.
        self.scale = self.add_weight(name="scale", shape=(dim,), initializer="ones", autocast=False)
        self.bias = self.add_weight(name="bias", shape=(dim,), initializer="zeros", autocast=False)

    def call(self, x):
        y = self.standardise(ops.cast(x, "float32")) * self.scale + self.bias
        return ops.cast(y, self.compute_dtype)

    def standardise(self, x):
        """`(x - mean) / sqrt(var + epsilon)`, float32 (..., D): what comes before `scale` and `bias`."""
        centred = x - ops.mean(x, axis=-1, keepdims=True)
        variance = ops.mean(centred * centred, axis=-1, keepdims=True)
        return centred * ops.rsqrt(variance + self.epsilon)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {**super().get_config(), "epsilon": self.epsilon}
