"""Group normalisation (arXiv 1803.08494) with the original's epsilon and float32 statistics.

Legend: B batch, H W map height and width, C channels, G groups.
"""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="vitkeras")
class GroupNorm(keras.layers.Layer):
    """Normalises each image's channels in groups, over height, width and the channels of the group.

    The paper's replacement of batch normalisation in the ResNet (section 3.1, appendix B.1). Height and width
    are reduced first and the groups on what is left, so that every tensor has rank 4 and no map is reshaped.

    Args:
        groups: int > 0, divides C. Default 32, the original's.
        epsilon: float >= 0, added to the variance inside the root. Default 1e-6.
        scale_initializer: Keras initializer of the scale. Default "ones".

    Call arguments:
        x: floating tensor (B, H, W, C).

    Returns:
        Tensor of the same shape, in the compute dtype.

    Raises:
        ValueError: if C is not a multiple of `groups`, or an argument is out of range.

    Example:
        >>> tuple(GroupNorm(groups=4)(keras.ops.ones((2, 5, 7, 12))).shape)
        (2, 5, 7, 12)
    """

    def __init__(self, groups=32, epsilon=1e-6, scale_initializer="ones", **kwargs):
        super().__init__(**kwargs)
        if not isinstance(groups, int) or groups < 1:
            raise ValueError(f"groups must be a positive int, received {groups!r}.")
        if epsilon < 0:
            raise ValueError(f"epsilon must be >= 0, received {epsilon}.")
        self.groups = groups
        self.epsilon = epsilon
        keras.initializers.get(scale_initializer)  # an unknown one is refused here, not at the first call
        self.scale_initializer = scale_initializer

    def build(self, input_shape):
        channels = input_shape[-1]
        if channels % self.groups:
            raise ValueError(f"channels must be a multiple of groups {self.groups}, received {channels}.")
        shape = (channels,)
        self.scale = self.add_weight(name="scale", shape=shape, initializer=self.scale_initializer, autocast=False)
        self.bias = self.add_weight(name="bias", shape=shape, initializer="zeros", autocast=False)

    def _group_mean(self, x):
        """(B, H, W, C) -> (B, 1, 1, C): the mean of each channel's group."""
        channels = x.shape[-1]
        size = channels // self.groups
        mean = ops.reshape(ops.mean(x, axis=(1, 2), keepdims=True), (-1, 1, self.groups, size))
        mean = ops.mean(mean, axis=-1, keepdims=True) * ops.ones((size,), "float32")  # (B, 1, G, C / G)
        return ops.reshape(mean, (-1, 1, 1, channels))

    def call(self, x):
        x = ops.cast(x, "float32")
        centred = x - self._group_mean(x)
        variance = self._group_mean(centred * centred)
        y = centred * (ops.rsqrt(variance + self.epsilon) * self.scale) + self.bias
        return ops.cast(y, self.compute_dtype)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {
            **super().get_config(),
            "groups": self.groups,
            "epsilon": self.epsilon,
            "scale_initializer": self.scale_initializer,
        }
