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
        tokens: floating tensor (B, num_prefix_tokens + h * w, D), or without prefix tokens the map (B, h, w, D).
        grid: optional tensor (B, h', w', D) of the patches in `tokens`: the embedding is resized to this grid inside
            the graph (align-corners bilinear, paper section 3.2), so that one model takes images of any size.

    Returns:
        Tensor of the same shape.

    Raises:
        ValueError: if the tokens or the map do not match the grid.

    Example:
        >>> tuple(PositionEmbedding(grid_size=(2, 3))(keras.ops.ones((2, 7, 48))).shape)
        (2, 7, 48)
    """

    def __init__(self, grid_size, num_prefix_tokens=1, **kwargs):
        super().__init__(**kwargs)
        self.grid_size = pair(grid_size, "grid_size")
        self.num_prefix_tokens = num_prefix_tokens

    def build(self, tokens_shape, grid_shape=None):
        if len(tokens_shape) == 4 and self.num_prefix_tokens:
            raise ValueError(
                f"tokens must have shape (batch, tokens, hidden_dim) with {self.num_prefix_tokens} prefix tokens, "
                f"received {tuple(tokens_shape)}."
            )
        expected = self.num_prefix_tokens + self.grid_size[0] * self.grid_size[1]
        if grid_shape is None:
            check_token_count(tokens_shape, self.grid_size, self.num_prefix_tokens)
        self.embedding = self.add_weight(
            name="embedding",
            shape=(1, expected, tokens_shape[-1]),
            initializer=keras.initializers.RandomNormal(stddev=0.02),
        )

    def call(self, tokens, grid=None):
        height, width = self.grid_size if grid is None else ops.shape(grid)[1:3]
        embedding = self.embedding if grid is None else self._resized(height, width)
        if len(tokens.shape) == 4:
            embedding = ops.reshape(embedding, (1, height, width, tokens.shape[-1]))
        return tokens + ops.cast(embedding, tokens.dtype)

    def _resized(self, height, width):
        """The embedding for a (height, width) grid: two matrix products, of sizes known only when the graph runs."""
        prefix, dim = self.num_prefix_tokens, self.embedding.shape[-1]
        old_height, old_width = self.grid_size
        x = ops.cast(self.embedding[0, prefix:], "float32")  # (h * w, D)
        x = ops.matmul(bilinear_tensor(old_height, height), ops.reshape(x, (old_height, old_width * dim)))
        x = ops.transpose(ops.reshape(x, (-1, old_width, dim)), (1, 0, 2))  # (w, h', D)
        x = ops.matmul(bilinear_tensor(old_width, width), ops.reshape(x, (old_width, -1)))
        x = ops.transpose(ops.reshape(x, (width, height, dim)), (1, 0, 2))  # (h', w', D)
        x = ops.reshape(x, (1, -1, dim))
        if not prefix:
            return x
        return ops.concatenate([ops.cast(self.embedding[:, :prefix], "float32"), x], axis=1)

    def resized_weights(self, grid_size, method="bilinear"):
        """Returns this layer's weights for another grid, as `resize_position_embedding` interpolates them."""
        old = ops.convert_to_numpy(self.embedding)
        new = resize_position_embedding(old, self.grid_size, grid_size, self.num_prefix_tokens, method)
        return {"embedding": new}

    def compute_output_shape(self, tokens_shape, grid_shape=None):
        return tokens_shape

    def get_config(self):
        return {
            **super().get_config(),
            "grid_size": self.grid_size,
            "num_prefix_tokens": self.num_prefix_tokens,
        }


def check_token_count(tokens_shape, grid_size, num_prefix_tokens):
    """Raises ValueError unless tokens (B, N, D), or a map (B, h, w, D), fill the grid; unknown sides pass."""
    sides = tuple(tokens_shape[1:-1])
    expected = num_prefix_tokens + grid_size[0] * grid_size[1]
    wanted = grid_size if len(sides) == 2 else (expected,)
    if any(side not in (None, size) for side, size in zip(sides, wanted)):
        raise ValueError(
            f"tokens must number {expected} ({num_prefix_tokens} prefix + grid {grid_size}), "
            f"received shape {tuple(tokens_shape)}."
        )


def _bilinear_matrix(old, new):
    """(new, old) weights of align-corners linear interpolation: the end points stay end points."""
    positions = np.linspace(0, old - 1, new)
    return np.maximum(0, 1 - np.abs(positions[:, None] - np.arange(old)[None, :]))


def bilinear_tensor(old, new):
    """`_bilinear_matrix` in the graph, where `new` may be a scalar tensor."""
    old_positions = ops.cast(ops.arange(old), "float32")
    # Divided last, as linspace does: the last position is exactly old - 1.
    steps = ops.cast(ops.maximum(new - 1, 1), "float32")
    positions = ops.cast(ops.arange(new), "float32") * float(old - 1) / steps
    return ops.maximum(0.0, 1.0 - ops.abs(positions[:, None] - old_positions[None, :]))


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
