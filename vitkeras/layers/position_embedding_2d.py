"""Learned two-dimensional position embedding (paper appendix D.4).

Legend: B batch, P prefix tokens, h w patch grid, D hidden dimension.
"""

import keras
from keras import ops

from vitkeras.layers.patch_embedding import pair
from vitkeras.layers.position_embedding import bilinear_tensor, check_token_count, resize_position_embedding


@keras.saving.register_keras_serializable(package="vitkeras")
class PositionEmbedding2D(keras.layers.Layer):
    """Adds to each patch the concatenation of a learned X-embedding and a learned Y-embedding, D / 2 each.

    Appendix D.4: columns share the X half, rows the Y half. Prefix tokens keep a vector of D each.

    Args:
        grid_size: int or (h, w), the patch grid that the embedding belongs to.
        num_prefix_tokens: int >= 0, P. Default 1.

    Call arguments:
        tokens: floating tensor (B, P + h * w, D).
        grid: optional tensor (B, h', w', D) of the patches in `tokens`; both halves are then resized to this grid
            inside the graph (align-corners linear).

    Returns:
        Tensor of the same shape.

    Raises:
        ValueError: if D is odd, or the number of tokens does not match the grid.

    Example:
        >>> tuple(PositionEmbedding2D(grid_size=(2, 3))(keras.ops.ones((2, 7, 48))).shape)
        (2, 7, 48)
    """

    def __init__(self, grid_size, num_prefix_tokens=1, **kwargs):
        super().__init__(**kwargs)
        self.grid_size = pair(grid_size, "grid_size")
        self.num_prefix_tokens = num_prefix_tokens

    def build(self, tokens_shape, grid_shape=None):
        dim, (height, width) = tokens_shape[-1], self.grid_size
        if dim % 2:
            raise ValueError(f"hidden_dim must be even for two-dimensional position embeddings, received {dim}.")
        if grid_shape is None:
            check_token_count(tokens_shape, self.grid_size, self.num_prefix_tokens)
        shapes = {"x_embedding": (width, dim // 2), "y_embedding": (height, dim // 2)}
        if self.num_prefix_tokens:
            shapes["prefix_embedding"] = (self.num_prefix_tokens, dim)
        for name, shape in shapes.items():
            weight = self.add_weight(name=name, shape=shape, initializer=keras.initializers.RandomNormal(stddev=0.02))
            setattr(self, name, weight)

    def call(self, tokens, grid=None):
        height, width = self.grid_size if grid is None else ops.shape(grid)[1:3]
        x, y = (ops.cast(weight, "float32") for weight in (self.x_embedding, self.y_embedding))
        if grid is not None:
            x = ops.matmul(bilinear_tensor(self.grid_size[1], width), x)
            y = ops.matmul(bilinear_tensor(self.grid_size[0], height), y)
        half = x.shape[-1]
        x = ops.broadcast_to(x[None], (height, width, half))
        y = ops.broadcast_to(y[:, None], (height, width, half))
        embedding = ops.reshape(ops.concatenate([x, y], axis=-1), (-1, 2 * half))  # (h * w, D)
        if self.num_prefix_tokens:
            embedding = ops.concatenate([ops.cast(self.prefix_embedding, "float32"), embedding], axis=0)
        return tokens + ops.cast(embedding[None], tokens.dtype)

    def resized_weights(self, grid_size, method="bilinear"):
        """Returns this layer's weights for another grid, as `resize_position_embedding` interpolates each half."""
        weights = {}
        for name, axis in (("x_embedding", 1), ("y_embedding", 0)):
            old, new = (self.grid_size[axis], 1), (pair(grid_size, "grid_size")[axis], 1)
            array = ops.convert_to_numpy(getattr(self, name))[None]
            weights[name] = resize_position_embedding(array, old, new, 0, method)[0]
        if self.num_prefix_tokens:
            weights["prefix_embedding"] = ops.convert_to_numpy(self.prefix_embedding)
        return weights

    def compute_output_shape(self, tokens_shape, grid_shape=None):
        return tokens_shape

    def get_config(self):
        return {
            **super().get_config(),
            "grid_size": self.grid_size,
            "num_prefix_tokens": self.num_prefix_tokens,
        }
