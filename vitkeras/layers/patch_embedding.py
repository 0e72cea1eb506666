"""Linear embedding of non-overlapping patches (paper Eq. 1).

Legend: B batch, H W image height and width, P patch, h w patch grid, C channels, D hidden dimension.
"""

import numbers

import keras


def pair(value, name):
    """Returns `value` as a (height, width) pair of positive ints, or raises ValueError naming `name`."""
    values = tuple(value) if isinstance(value, (tuple, list)) else (value, value)
    # NumPy's integers count as such, and are turned into Python's, which a configuration can hold.
    values = tuple(int(v) if isinstance(v, numbers.Integral) and not isinstance(v, bool) else v for v in values)
    if len(values) != 2 or not all(type(v) is int and v > 0 for v in values):
        raise ValueError(f"{name} must be a positive int or a pair (height, width) of them, received {value!r}.")
    return values


@keras.saving.register_keras_serializable(package="vitkeras")
class PatchEmbedding(keras.layers.Layer):
    """Cuts an image into P x P patches and maps each to D numbers with one shared linear map.

    Paper section 3.1, Eq. 1: the matrix E. It is a convolution whose kernel and stride are the
    patch size, without padding, with a bias.

    Args:
        patch_size: int or (height, width), in pixels.
        hidden_dim: int > 0, D.

    Call arguments:
        images: floating tensor (B, H, W, C), values in -1...1; H and W are multiples of the patch.

    Returns:
        Tensor (B, H / P, W / P, D): the patch grid as a map.

    Raises:
        ValueError: if the image has another rank, or a side that is not a multiple of the patch.

    Example:
        >>> tuple(PatchEmbedding(patch_size=16, hidden_dim=48)(keras.ops.ones((2, 32, 64, 3))).shape)
        (2, 2, 4, 48)
    """

    def __init__(self, patch_size, hidden_dim, **kwargs):
        super().__init__(**kwargs)
        self.patch_size = pair(patch_size, "patch_size")
        self.hidden_dim = hidden_dim
        self.projection = keras.layers.Conv2D(
            hidden_dim,
            self.patch_size,
            strides=self.patch_size,
            padding="valid",
            data_format="channels_last",
            kernel_initializer="lecun_normal",
            dtype=self.dtype_policy,
            name="projection",
        )

    def build(self, input_shape):
        if len(input_shape) != 4:
            raise ValueError(f"images must have shape (batch, height, width, channels), received {tuple(input_shape)}.")
        self._check_sides(input_shape)
        # Checked here because a functional model lets a single channel pass for any number of them.
        self.input_spec = keras.layers.InputSpec(ndim=4, axes={-1: input_shape[-1]})
        self.projection.build(input_shape)

    def _check_sides(self, shape):
        for side, size, patch in zip(("height", "width"), shape[1:3], self.patch_size):
            if size is not None and (size % patch or size == 0):
                raise ValueError(
                    f"image {side} must be a multiple of the patch {side} {patch}, "
                    f"received {size} (remainder {size % patch})."
                )

    def call(self, images):
        self._check_sides(images.shape)  # again, for models of any size
        return self.projection(images)

    def compute_output_shape(self, input_shape):
        return self.projection.compute_output_shape(input_shape)

    def get_config(self):
        return {**super().get_config(), "patch_size": self.patch_size, "hidden_dim": self.hidden_dim}
