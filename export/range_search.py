"""Ranges that cost a block the least, where the least and greatest value are not the best ends.

Large negative scores vanish in the softmax and large negative sums in the GELU, and one outlier makes the levels of all
other values coarse. So each end of each range is drawn in while the block's output comes nearer to the float block's.
Clipping errs in one direction, though, and adds up over the blocks where rounding averages out: a block keeps its new
ranges only if the whole model's output comes nearer as well.

Legend: N images.
"""

from dataclasses import dataclass

import keras
import numpy as np

from vitkeras import layers

from .fake_quant import FLOAT, QUANTIZE, set_mode
from .graph import tensorflow
from .qat import check_images

SHARES = (0.85, 0.7, 0.5, 0.35, 0.25, 0.15)  # of an end as it was measured


@dataclass(frozen=True)
class LearnedRanges:
    """What `learn_ranges` did to a block.

    Attributes:
        block: str, the layer's name.
        before_db, after_db: floats, what the float block adds to its input, to the difference of the rounded one, in
            decibels.
        ranges: dict of quantizer -> (least, greatest), those that changed; empty where the model's output didn't gain.
        model_db: float, the model's own output to its difference, in decibels, after this block's turn.
    """

    block: str
    before_db: float
    after_db: float
    ranges: dict
    model_db: float


def learn_ranges(qat_model, images, batch_size=8, progress=None):
    """Draws the ranges of a `prepare_qat` model in where that brings each encoder block nearer to its float self.

    It works block by block on inputs that the float blocks compute once, some forty passes through each block, and
    changes no weight. Call it before fine-tuning, on the calibration's images or others.

    Args:
        qat_model: from `prepare_qat`, not trained yet; its ranges are changed in place.
        images: array (N, H, W, C), as the model takes them; a dozen or more.
        batch_size: int >= 1. Default 8.
        progress: None, or a function that wraps an iterable, such as tqdm.

    Returns:
        list of `LearnedRanges`, one a block.

    Raises:
        ValueError: for a model of another kind, or images that it doesn't take.

    Example:
        >>> for row in learn_ranges(qat_model, images): print(row.block, row.before_db, row.after_db)  # doctest: +SKIP
    """
    blocks = [layer for layer in qat_model.layers if isinstance(layer, layers.EncoderBlock)]
    if not blocks or not all(hasattr(block, "fake_quantizers") for block in blocks):
        raise ValueError(f"model must come from prepare_qat, {qat_model.name!r} has no fake quantizers.")
    images = check_images(qat_model, "images", images, batch_size)
    points = [block.input for block in blocks] + [blocks[-1].output]
    set_mode(qat_model, FLOAT)
    try:
        inner = keras.Model(qat_model.input, [*points, qat_model.output])
        parts = [inner(images[i : i + batch_size], training=False) for i in range(0, len(images), batch_size)]
    finally:
        set_mode(qat_model, QUANTIZE)
    states = [[keras.ops.convert_to_numpy(part[i]) for part in parts] for i in range(len(points) + 1)]
    answer = tensorflow().function(lambda x: qat_model(x, training=False))
    batches, exact = [images[i : i + batch_size] for i in range(0, len(images), batch_size)], states.pop()
    signal = sum(float(np.square(y).sum()) for y in exact)

    def noise():
        received = (keras.ops.convert_to_numpy(answer(x)) for x in batches)
        return sum(float(np.square(a - b).sum()) for a, b in zip(received, exact))

    rows, least = [], noise()
    walk = list(zip(blocks, states, states[1:]))
    for block, inputs, outputs in progress(walk) if progress else walk:
        before = [(end, float(end)) for quantizer in block.fake_quantizers for end in _ends(quantizer)]
        found = _learn(block, inputs, outputs)
        if (now := noise()) < least:
            least = now
        else:
            found = (found[0], found[0], {})
            for end, value in before:
                end.assign(value)
        rows.append(LearnedRanges(block.name, *found, _decibels(signal, least)))
    return rows


def _ends(quantizer):
    return quantizer.minimum, quantizer.maximum


def _learn(block, inputs, outputs):
    """(decibels before and after, ranges that changed) of one block."""
    compute = tensorflow().function(lambda x: block(x, training=False))
    # A token counts by its own size, as the LayerNorms behind see it: a few are a hundred times larger than the others.
    sizes = [np.var(y, axis=-1, keepdims=True) + 1e-6 for y in outputs]
    signal = sum(float((np.square(y - x) / size).sum()) for x, y, size in zip(inputs, outputs, sizes))

    def noise():
        errors = (np.square(keras.ops.convert_to_numpy(compute(x)) - y) for x, y in zip(inputs, outputs))
        return sum(float((error / size).sum()) for error, size in zip(errors, sizes))

    before = least = noise()
    changed = {}
    for quantizer in block.fake_quantizers:
        ends = _ends(quantizer)
        # A zero-centred range keeps its shape: both ends move together.
        for moved in (ends,) if quantizer.zero_centred else ((quantizer.minimum,), (quantizer.maximum,)):
            start = [float(end) for end in moved]
            best = 1.0
            for share in SHARES if any(start) else ():
                _assign(moved, start, share)
                if (now := noise()) >= least:
                    break
                least, best = now, share
            _assign(moved, start, best)
            if best != 1.0:
                changed[quantizer.name] = tuple(float(end) for end in ends)
    return _decibels(signal, before), _decibels(signal, least), changed


def _assign(ends, start, share):
    for end, value in zip(ends, start):
        end.assign(share * value)


def _decibels(signal, noise):
    return float(10 * np.log10(signal / noise)) if noise and signal else float("inf")
