"""The original's layout and its relatives: newer names, prefixes, stacked blocks, optimiser state beside the weights.

Sources of the names: github.com/google-research/vision_transformer (released files of 2020 to 2022) and
github.com/google-research/big_vision. Legend: N tokens, D hidden dimension, C channels, L blocks.
"""

import re
from dataclasses import replace

from vitkeras.checkpoints.view import (
    MAX_BLOCKS,
    POSITION_KEY,
    CheckpointView,
    EntryTable,
    SourceFacts,
    plain,
    unstacked,
)

# Where training programs put the weights, the most specific first.
PREFIXES = ("opt/target/", "params/img/", "params/", "img/", "target/", "")
ROOTS = ("embedding/kernel", "conv_root/kernel")
# What such a file holds besides: optimiser state, counters, and the text half of an image-text model.
BESIDES = {
    "opt/target/": ("opt/state/",),
    "params/img/": ("opt/", "extra/", "params/txt/", "params/t", "params/b"),
    "params/": ("opt/", "extra/"),
    "img/": ("txt/", "t", "b"),
    "target/": ("state/",),
    "": ("opt/state/",),
}
# The linen names of a block's parts, and the first release's.
NEWER = {"MultiHeadDotProductAttention_0": "MultiHeadDotProductAttention_1", "MlpBlock_0": "MlpBlock_3"}
NEWER_NORM = {"LayerNorm_1": "LayerNorm_2"}
_BLOCK = re.compile(r"Transformer/encoderblock(?:_(\d+))?/([^/]+)(/.+)")
_GROUP_NORM = re.compile(r"(?:.*/)?gn(?:_root|_proj|\d)/(?:scale|bias)")


def original_view(file):
    """Returns the `CheckpointView` of a file in the original's layout or one of its relatives.

    Args:
        file: an open `NpzFile` or `SafetensorsFile`.

    Returns:
        `CheckpointView`. Its facts tell neither the kind of GELU nor the epsilon, because the layout doesn't.

    Raises:
        ValueError: if two arrays of the file mean the same one.
    """
    prefix = next((p for p in PREFIXES if any(p + root in file.headers for root in ROOTS)), "")
    entries = EntryTable(file.path)
    newer = stacked = False
    for source, header in file.headers.items():
        if _is_beside(source, prefix):
            continue
        entry = plain(source, header)
        if not source.startswith(prefix):
            entries[source] = entry
            continue
        name = source.removeprefix(prefix)
        match = _BLOCK.fullmatch(name)
        if match is None:
            entries[POSITION_KEY if name == "pos_embedding" else name] = _as_map(entry, name)
            continue
        index, part, rest = match.groups()
        newer |= part in NEWER
        part = {**NEWER, **NEWER_NORM}.get(part, part)
        if index is not None:
            entries[f"Transformer/encoderblock_{index}/{part}{rest}"] = entry
        elif header.shape and 0 < header.shape[0] <= MAX_BLOCKS:
            stacked = True
            for i in range(header.shape[0]):
                entries[f"Transformer/encoderblock_{i}/{part}{rest}"] = unstacked(entry, i)
        else:
            entries[source] = entry
    # Position embeddings at top level are big_vision's, which adds them before the class token.
    facts = SourceFacts(position_prefixes=(0, 1) if prefix + "pos_embedding" in file.headers else (1,))
    return CheckpointView(file, entries, lambda key: prefix + _name(key, newer, stacked), facts)


def _is_beside(source, prefix):
    """Whether an array belongs to the training program and not to the model."""
    return any(source.startswith(p) if p.endswith("/") else source == p for p in BESIDES[prefix])


def _as_map(entry, name):
    """The oldest files keep GroupNorm's vectors as maps (1, 1, 1, C)."""
    if len(entry.file_shape) == 4 and entry.file_shape[:3] == (1, 1, 1) and _GROUP_NORM.fullmatch(name):
        return replace(entry, shape=entry.shape[3:], expected=lambda shape: (1, 1, 1, *shape))
    return entry


def _name(key, newer, stacked):
    """What a file of this generation calls the original's `key`."""
    match = _BLOCK.fullmatch(key)
    if match is None:
        return key
    index, part, rest = match.groups()
    if newer:
        part = {old: new for new, old in {**NEWER, **NEWER_NORM}.items()}.get(part, part)
    if stacked:
        return f"Transformer/encoderblock/{part}{rest}[{index}]"
    return f"Transformer/encoderblock_{index}/{part}{rest}"
