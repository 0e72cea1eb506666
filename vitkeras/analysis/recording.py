"""Taking numbers out of layers while a model runs.

Legend: B batch, H heads, N tokens, P prefix tokens, h w patch grid.
"""

import contextlib
from dataclasses import dataclass

import keras
import numpy as np

from vitkeras.layers import ClassToken, MultiHeadSelfAttention, PatchEmbedding

# Images that go through the model together. Nothing frees what an uncompiled model has computed before it is through;
# with a few images at a time that stays small beside the maps, and the products are large enough to be as fast.
_AT_ONCE = 4


@dataclass(frozen=True)
class Attention:
    """What one run of a model attended to.

    Attributes:
        maps: list of float32 arrays (B, H, N, N), one a layer in the order in which they ran.
        grid: (h, w), the patch grid, or None without a `PatchEmbedding`.
        num_prefix_tokens: int, P, tokens before the patches.
        output: what the model returned.
    """

    maps: list
    grid: tuple | None
    num_prefix_tokens: int
    output: object = None


def record_attention(model, images):
    """Runs `model` on `images` and returns the `Attention` of every attention layer that ran.

    Raises:
        ValueError: if `model` is no `keras.Model`, or holds no attention layer; or if an image holds nan or inf.
    """
    check_model(model)
    inside = list(model._flatten_layers())
    attentions = [layer for layer in inside if isinstance(layer, MultiHeadSelfAttention)]
    if not attentions:
        raise ValueError(f"model must hold a MultiHeadSelfAttention layer, {model.name!r} holds none.")
    for array in map(keras.ops.convert_to_numpy, keras.tree.flatten(images)):
        if bad := array.size - np.count_nonzero(np.isfinite(array)):
            raise ValueError(f"images must be finite, received {bad} of {array.size} values with nan or inf.")
    count = keras.tree.flatten(images)[0].shape[0]
    maps, grids, outputs = _Maps(count), [], []
    with contextlib.ExitStack() as hooks:
        for layer in attentions:
            hooks.enter_context(_recorded(layer, "attention_weights", maps.add))
        for layer in inside:
            if isinstance(layer, PatchEmbedding):
                hooks.enter_context(_recorded(layer, "call", lambda x: grids.append(tuple(x.shape[1:3]))))
        for start in range(0, max(1, count), _AT_ONCE):
            maps.begin(start)
            chunk = keras.tree.map_structure(lambda x, a=start: x[a : a + _AT_ONCE], images)
            # Called, not predicted: nothing is traced, so each value is there.
            outputs.append(model(chunk, training=False))
    output = keras.tree.map_structure(lambda *parts: keras.ops.concatenate(parts), *outputs)
    prefix = sum(isinstance(layer, ClassToken) for layer in inside)
    return Attention(maps.arrays, grids[0] if grids else None, prefix, output)


class _Maps:
    """Fills one array a layer, a few images at a time, so that no map is held twice."""

    def __init__(self, count):
        self.count, self.arrays = count, []
        self._start = self._layer = 0

    def begin(self, start):
        """The model starts with the images from `start` on."""
        self._start, self._layer = start, 0

    def add(self, weights):
        """The next layer's weights of these images."""
        weights = np.asarray(keras.ops.convert_to_numpy(weights))
        lines = len(weights) // max(1, min(_AT_ONCE, self.count - self._start))  # 1, but for axial models
        if not self._start:
            self.arrays.append(np.empty((lines * self.count, *weights.shape[1:]), weights.dtype))
        row = lines * self._start
        self.arrays[self._layer][row : row + len(weights)] = weights
        self._layer += 1


def check_model(model):
    """Raises ValueError unless `model` is a `keras.Model`."""
    if not isinstance(model, keras.Model):
        raise ValueError(f"model must be a keras.Model, received {model!r}.")


@contextlib.contextmanager
def _recorded(layer, method, record):
    """While it is open, what `layer.method` returns is handed to `record`, too."""
    original = getattr(layer, method)

    def recording(*args, **kwargs):
        result = original(*args, **kwargs)
        record(result)
        return result

    # Past Keras' own attribute tracking, which has nothing to do with a function.
    object.__setattr__(layer, method, recording)
    try:
        yield
    finally:
        vars(layer).pop(method, None)  # the method of the class shows again
