"""Learned one-dimensional position embedding (paper Eq. 1 and appendix D.4), and its resize (section 3.2).

Legend: B batch, N tokens, h w patch grid, D hidden dimension.
"""

import keras
import numpy as np
from keras import ops

from vitkeras.layers.patch_embedding import pair


@keras.saving.register_keras_serializable(package="vitkeras")
class PositionEmbedding(keras.layers.Layer):
    """Adds one learned vector to each token, the class token's slot included.

    Paper Eq. 1: E_pos, raster order, drawn from N(0, 0.02).

    Args:
        grid_size: int or (h, w), the patch grid that the embedding belongs to.
        num_prefix_tokens: int >= 0, tokens before the patches (1 with a class token, default).

    Call arguments:
        tokens: floating tensor (B, num_prefix_tokens + h * w, D).

    Returns:
        Tensor of the same shape.

    Raises:
        ValueError: if the number of tokens does not match the grid.

    Example:
        >>> tuple(PositionEmbedding(grid_size=(2, 3))(keras.ops.ones((2, 7, 48))).shape)
        (2, 7, 48)
    """

    def __init__(self, grid_size, num_prefix_tokens=1, **kwargs):
        super().__init__(**kwargs)
        self.grid_size = pair(grid_size, "grid_size")
        self.num_prefix_tokens = num_prefix_tokens

    def build(self, input_shape):
        expected = self.num_prefix_tokens + self.grid_size[0] * self.grid_size[1]
        if input_shape[1] != expected:
            raise ValueError(
                f"tokens must number {expected} ({self.num_prefix_tokens} prefix + grid {self.grid_size}), "
                f"received shape {tuple(input_shape)}."
            )
        self.embedding = self.add_weight(
            name="embedding",
            shape=(1, expected, input_shape[-1]),
            initializer=keras.initializers.RandomNormal(stddev=0.02),
        )

    def call(self, tokens):
        return tokens + ops.cast(self.embedding, tokens.dtype)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {
            **super().get_config(),
            "grid_size": self.grid_size,
            "num_prefix_tokens": self.num_prefix_tokens,
        }


def _bilinear_matrix(old, new):
    """(new, old) weights of align-corners linear interpolation: the end points stay end points."""
    positions = np.linspace(0, old - 1, new)
    return np.maximum(0, 1 - np.abs(positions[:, None] - np.arange(old)[None, :]))


def _bicubic_matrix(old, new):
    """(new, old) weights of half-pixel cubic interpolation (a = -0.5), widened when shrinking (antialias)."""
    scale = max(old / new, 1.0)
    centres = (np.arange(new) + 0.5) * old / new - 0.5
    x = np.abs(centres[:, None] - np.arange(old)[None, :]) / scale
    near, far = 1.5 * x**3 - 2.5 * x**2 + 1, -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2
    weights = np.where(x < 1, near, np.where(x < 2, far, 0))
    return weights / weights.sum(axis=1, keepdims=True)


RESIZE_METHODS = {"bilinear": _bilinear_matrix, "bicubic": _bicubic_matrix}


def resize_position_embedding(embedding, old_grid, new_grid, num_prefix_tokens=1, method="bilinear"):
    """Interpolates a position embedding to another patch grid, in NumPy (paper section 3.2).

    Args:
        embedding: float array (1, num_prefix_tokens + h * w, D).
        old_grid: (h, w) of `embedding`.
        new_grid: (h, w) wanted; either may be rectangular.
        num_prefix_tokens: int >= 0, leading slots that are copied and never interpolated.
        method: "bilinear" (default; align-corners, what the original's `scipy.ndimage.zoom` does) or
            "bicubic" (half-pixel centres with antialias, what timm does).

    Returns:
        float32 array (1, num_prefix_tokens + new_h * new_w, D).

    Raises:
        ValueError: for an unknown method or an embedding that does not fit `old_grid`.

    Example:
        >>> tuple(resize_position_embedding(np.ones((1, 5, 8)), (2, 2), (3, 5)).shape)
        (1, 16, 8)
    """
    if method not in RESIZE_METHODS:
        raise ValueError(f"method must be one of {tuple(RESIZE_METHODS)}, received {method!r}.")
    old_grid, new_grid = pair(old_grid, "old_grid"), pair(new_grid, "new_grid")
    embedding = np.asarray(embedding)
    expected = num_prefix_tokens + old_grid[0] * old_grid[1]
    if embedding.ndim != 3 or embedding.shape[1] != expected:
        raise ValueError(
            f"embedding must have shape (1, {expected}, D) for grid {old_grid} and {num_prefix_tokens} prefix tokens, "
            f"received {embedding.shape}."
        )
    if old_grid == new_grid:
        return embedding.astype("float32")
    prefix, patches = np.split(embedding.astype("float64"), [num_prefix_tokens], axis=1)
    grid = patches.reshape(*old_grid, -1)  # (h, w, D)
    rows, columns = (RESIZE_METHODS[method](old, new) for old, new in zip(old_grid, new_grid))
    grid = np.einsum("Hh,Ww,hwd->HWd", rows, columns, grid, optimize=True)
    patches = grid.reshape(1, new_grid[0] * new_grid[1], -1)
    return np.concatenate([prefix, patches], axis=1).astype("float32")
