"""Stochastic depth on a residual branch (Huang et al., arXiv 1603.09382; used by AugReg, arXiv 2106.10270)."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="vitkeras")
class StochasticDepth(keras.layers.Layer):
    """Drops a residual branch for whole examples while training, and rescales the ones that stay.

    Args:
        rate: float in [0, 1), the probability that an example's branch is zeroed. Default 0.
        seed: int or None.

    Call arguments:
        x: floating tensor (B, ...).
        training: bool or None.

    Returns:
        `x` unchanged outside training or with rate 0; else each example is 0 or `x / (1 - rate)`.

    Raises:
        ValueError: if `rate` is outside [0, 1).

    Example:
        >>> tuple(StochasticDepth(0.1)(keras.ops.ones((2, 5, 48)), training=True).shape)
        (2, 5, 48)
    """

    def __init__(self, rate=0.0, seed=None, **kwargs):
        super().__init__(**kwargs)
        if not 0 <= rate < 1:
            raise ValueError(f"rate must be in [0, 1), received {rate}.")
        self.rate = rate
        self.seed = seed
        if rate:
            self.seed_generator = keras.random.SeedGenerator(seed)

    def call(self, x, training=None):
        if not training or not self.rate:
            return x
        shape = (ops.shape(x)[0],) + (1,) * (len(x.shape) - 1)
        kept = keras.random.uniform(shape, seed=self.seed_generator) >= self.rate
        return x * ops.cast(kept, x.dtype) / (1 - self.rate)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {**super().get_config(), "rate": self.rate, "seed": self.seed}
