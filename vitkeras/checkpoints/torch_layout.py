"""What timm and Hugging Face share: PyTorch stores kernels the other way round.

Legend: D hidden dimension, H heads, d = D / H, P patch, C channels, I inputs and O outputs of a dense layer.
"""

import math
from dataclasses import replace

from vitkeras.checkpoints.view import Entry, plain

BLOCK = "Transformer/encoderblock_{}/"
ATTENTION = "MultiHeadDotProductAttention_1/"
PARTS = ("query", "key", "value")


def dense_entry(source, header, merged):
    """The `Entry` of a dense kernel: (O, I) in the file, (I, O) here.

    Args:
        source: str, name in the file.
        header: its `ArrayHeader`.
        merged: function from the shape in the original's layout to (I, O), which merges the heads.
    """
    return Entry(
        source,
        header.shape,
        header.dtype,
        header.shape[::-1],
        expected=lambda shape: merged(shape)[::-1],
        part=lambda array: array.T,
        is_turned=True,
    )


def heads_last(shape):
    """(D, H, d) -> (D, D); any two-dimensional shape stays."""
    return (shape[0], math.prod(shape[1:]))


def heads_first(shape):
    """(H, d, D) -> (D, D)."""
    return (math.prod(shape[:-1]), shape[-1])


def merged_bias(shape):
    """(H, d) -> (D,)."""
    return (math.prod(shape),)


def bias_entry(source, header):
    """The `Entry` of a projection's bias, whose heads the original keeps apart."""
    return replace(plain(source, header), expected=merged_bias)


def convolution_entry(source, header):
    """The `Entry` of the patch kernel: (D, C, P, P) in the file, (P, P, C, D) here."""
    old = header.shape
    return Entry(
        source,
        old,
        header.dtype,
        (old[2], old[3], old[1], old[0]) if len(old) == 4 else old[::-1],
        expected=lambda shape: (shape[3], shape[2], shape[0], shape[1]),
        part=lambda array: array.transpose(2, 3, 1, 0),
    )


def fused_entries(source, header, is_kernel):
    """The three `Entry`s of a fused projection: query, key and value, one below the other along the first axis."""
    old = header.shape
    third = old[0] // 3 if old else 0
    for i, part in enumerate(PARTS):
        if is_kernel:
            yield (
                part,
                Entry(
                    source,
                    old,
                    header.dtype,
                    (*old[1:][::-1], third),
                    expected=lambda shape: (3 * math.prod(shape[1:]), shape[0]),
                    parts=3,
                    index=i,
                    part=lambda array: array.T,
                    is_turned=True,
                ),
            )
        else:
            yield (
                part,
                Entry(
                    source,
                    old,
                    header.dtype,
                    (third,),
                    expected=lambda shape: (3 * math.prod(shape),),
                    parts=3,
                    index=i,
                ),
            )
