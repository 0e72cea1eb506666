"""Taking numbers out of layers while a model runs.

Legend: B batch, H heads, N tokens, P prefix tokens, h w patch grid.
"""

import contextlib
from dataclasses import dataclass

import keras
import numpy as np

from vitkeras.layers import ClassToken, MultiHeadSelfAttention, PatchEmbedding


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
        ValueError: if `model` is no `keras.Model`, or holds no attention layer.
    """
    check_model(model)
    inside = list(model._flatten_layers())
    attentions = [layer for layer in inside if isinstance(layer, MultiHeadSelfAttention)]
    if not attentions:
        raise ValueError(f"model must hold a MultiHeadSelfAttention layer, {model.name!r} holds none.")
    maps, grids = [], []
    with contextlib.ExitStack() as hooks:
        for layer in attentions:
            hooks.enter_context(_recorded(layer, "attention_weights", maps.append))
        for layer in inside:
            if isinstance(layer, PatchEmbedding):
                hooks.enter_context(_recorded(layer, "call", lambda x: grids.append(tuple(x.shape[1:3]))))
        output = model(images, training=False)  # called, not predicted: nothing is traced, so each value is there
    maps = [np.asarray(keras.ops.convert_to_numpy(weights)) for weights in maps]
    prefix = sum(isinstance(layer, ClassToken) for layer in inside)
    return Attention(maps, grids[0] if grids else None, prefix, output)


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
