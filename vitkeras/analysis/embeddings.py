"""What the first layers have learned (paper section 4.5: Figure 7 left and centre, and Figure 10).

Legend: h w patch grid, D hidden dimension, P patch or kernel side, C channels.
"""

import keras
import numpy as np

from vitkeras import layers
from vitkeras.analysis.recording import check_model

COUNT = 28  # the filters in the paper's Figure 7


def embedding_filters(model, count=None):
    """Returns the principal components of the first kernel's filters (paper Figure 7, left).

    The D filters are points in the space of the patch's pixels; the components are the directions in which they differ
    most, the first explaining most. For a hybrid or a ResNet they are those of the root convolution.

    Args:
        model: a `keras.Model` that holds a `PatchEmbedding` or a `StdConv`.
        count: int > 0, how many; None (default) for 28, the paper's, or as many as there are: around their mean D
            points differ in D - 1 directions at most.

    Returns:
        float32 array (count, P, P, C) of unit vectors; the largest value of each is positive.

    Raises:
        ValueError: if the model has no such kernel, or fewer filters or pixels than `count`.

    Example:
        >>> import vitkeras
        >>> model = vitkeras.VisionTransformer((32, 48, 3), 16, 2, 48, 3, 96, classes=7)
        >>> embedding_filters(model, count=5).shape
        (5, 16, 16, 3)
    """
    kernel = first_kernel(model)
    points = kernel.reshape(-1, kernel.shape[-1]).T.astype("float64")  # (D, P * P * C)
    if count is None:
        count = max(1, min(COUNT, points.shape[0] - 1, points.shape[1]))
    if not isinstance(count, int) or not 0 < count <= min(points.shape):
        raise ValueError(f"count must be an int in 1...{min(points.shape)}, received {count!r}.")
    components = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)[2][:count]
    peaks = np.take_along_axis(components, np.abs(components).argmax(axis=1)[:, None], axis=1)
    return (components * np.sign(peaks)).reshape(count, *kernel.shape[:3]).astype("float32")


def first_kernel(model):
    """The kernel that sees the pixels, as an array (P, P, C, D); ValueError if the model has none."""
    inside = list(_in_order(model))
    roots = [layer.kernel for layer in inside if isinstance(layer, layers.StdConv)]
    roots += [layer.projection.kernel for layer in inside if isinstance(layer, layers.PatchEmbedding)]
    if not roots:
        raise ValueError(f"model must hold a PatchEmbedding or a StdConv, {model.name!r} holds neither.")
    return keras.ops.convert_to_numpy(roots[0])


def position_similarity(model, layer=0):
    """Returns the cosine similarity of every two patches' position embeddings (paper Figure 7, centre; Figure 10).

    Args:
        model: a `keras.Model` that holds a learned position embedding of any kind.
        layer: int; which one, where there are several (`position_embedding_at="every_layer"`, relative positions).
            Default 0, the first.

    Returns:
        float32 array. Learned 1-d and 2-d embeddings: (h, w, h, w), entry (i, j, k, l) compares patches (i, j) and
        (k, l). Relative ones: (2 L - 1, 2 L - 1) over the offsets 1 - L ... L - 1 of L positions.

    Raises:
        ValueError: if the model has no position embedding, or not so many.

    Example:
        >>> import vitkeras
        >>> model = vitkeras.VisionTransformer((32, 48, 3), 16, 2, 48, 3, 96, classes=7)
        >>> position_similarity(model).shape
        (2, 3, 2, 3)
    """
    found = position_layers(model)
    if not found:
        raise ValueError(f"model must have a learned position embedding, {model.name!r} has none.")
    if not isinstance(layer, int) or not -len(found) <= layer < len(found):
        raise ValueError(f"layer must be an int in -{len(found)}...{len(found) - 1}, received {layer!r}.")
    vectors, shape = _position_vectors(found[layer])
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    unit = vectors / np.where(norms > 0, norms, 1)
    return (unit @ unit.T).reshape(*shape, *shape).astype("float32")


def position_layers(model):
    """list of the layers of `model` that hold learned positions, in the model's order."""
    kinds = (layers.PositionEmbedding, layers.PositionEmbedding2D, layers.RelativePositionLogits)
    return [x for x in _in_order(model) if isinstance(x, kinds)]


def _position_vectors(layer):
    """(float64 array (positions, D), the shape that the positions form)."""
    if isinstance(layer, layers.RelativePositionLogits):
        array = keras.ops.convert_to_numpy(layer.embedding).astype("float64")
        return array, array.shape[:1]
    if isinstance(layer, layers.PositionEmbedding):
        array = keras.ops.convert_to_numpy(layer.embedding).astype("float64")
        return array[0, layer.num_prefix_tokens :], layer.grid_size
    height, width = layer.grid_size
    x, y = (keras.ops.convert_to_numpy(v).astype("float64") for v in (layer.x_embedding, layer.y_embedding))
    x, y = np.broadcast_to(x[None], (height, *x.shape)), np.broadcast_to(y[:, None], (height, width, y.shape[-1]))
    return np.concatenate([x, y], axis=-1).reshape(height * width, -1), layer.grid_size


def _in_order(model):
    """Yields the layers as the model has them, those inside a layer or a nested model in its place."""
    check_model(model)
    for layer in model.layers:
        yield from _in_order(layer) if isinstance(layer, keras.Model) else layer._flatten_layers()
