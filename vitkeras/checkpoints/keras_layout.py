"""Keras' layout of a model's weights: groups of the layers' classes, their attributes, numbered variables.

Keras numbers the groups of one class ("encoder_block", "encoder_block_1", ...) and notes beside each what the layer was
called; that name tells which array of the original's layout a variable is.
Legend: D hidden dimension, H heads, d = D / H.
"""

import re
from dataclasses import replace

from vitkeras.checkpoints.torch_layout import ATTENTION, BLOCK, PARTS, bias_entry, heads_first, heads_last
from vitkeras.checkpoints.view import POSITION_KEY, CheckpointView, EntryTable, SourceFacts, plain

_VARIABLE = re.compile(r"(layers/[^/]+)(?:/(.+))?/vars/(\d+)")
_UNIT = re.compile(r"block(\d+)_unit(\d+)")
_ENCODER = re.compile(r"encoder_block_(\d+)")
_DENSE, _NORM = ("kernel", "bias"), ("scale", "bias")
# Layers of one kind: name -> the original's prefix and the names of its variables.
_SIMPLE = {
    "conv_root": ("conv_root/", _DENSE),
    "gn_root": ("gn_root/", _NORM),
    "patch_embedding/projection": ("embedding/", _DENSE),
    "class_token": ("", ("cls",)),
    "position_embedding": ("", (POSITION_KEY,)),
    "encoder_norm": ("Transformer/encoder_norm/", _NORM),
    "pre_logits": ("pre_logits/", _DENSE),
    "head": ("head/", _DENSE),
}
_IN_BLOCK = {
    **{f"attention/{part}": (f"{ATTENTION}{part}/", _DENSE) for part in (*PARTS, "out")},
    "attention_norm": ("LayerNorm_0/", _NORM),
    "mlp_norm": ("LayerNorm_2/", _NORM),
    "mlp/expand": ("MlpBlock_3/Dense_0/", _DENSE),
    "mlp/project": ("MlpBlock_3/Dense_1/", _DENSE),
}


def keras_view(file, facts=None):
    """Returns the `CheckpointView` of a model's weights as Keras stores them.

    Args:
        file: an open `H5File`.
        facts: `SourceFacts`, or None (default) for what the weights alone tell: nothing.

    Returns:
        `CheckpointView`. An array that no rule knows stands under its own name.
    """
    entries, known = EntryTable(file.path), {}
    for source, header in file.headers.items():
        match = _VARIABLE.fullmatch(source)
        group, inner, index = match.groups() if match else (None, None, 0)
        layer = file.layer_names.get(group)
        key = _original_key(layer, inner, int(index))
        entries[source if key is None else key] = _entry(source, header, key or source)
        known.setdefault((layer, inner), source.rpartition("/")[0])

    def naming(key):
        """Where a missing array would be: beside its layer's others, else by the layer's name alone."""
        layer, inner, index = _keras_place(key)
        place = known.get((layer, inner), "/".join(part for part in (layer, inner, "vars") if part))
        return f"{place}/{index}"

    return CheckpointView(file, entries, naming, facts or SourceFacts("Keras file"))


def _entry(source, header, key):
    """Heads are merged in a `Dense` layer's variables."""
    if ATTENTION not in key:
        return plain(source, header)
    if key.endswith("/kernel"):
        return replace(plain(source, header), expected=heads_first if "/out/" in key else heads_last)
    return bias_entry(source, header) if "/out/" not in key else plain(source, header)


def _original_key(layer, inner, index):
    """The original's name of variable `index` of a layer, or of the layer `inner` in it; None for an unknown one."""
    prefix, parts = "", None
    if layer is not None and (match := _ENCODER.fullmatch(layer)):
        prefix, parts = BLOCK.format(int(match[1])), _IN_BLOCK.get(inner)
    elif layer is not None and (match := _UNIT.fullmatch(layer)) and inner:
        prefix = f"block{match[1]}/unit{int(match[2])}/{inner}/"
        parts = ("", _NORM if inner.startswith("gn") else _DENSE)
    elif layer is not None:
        parts = _SIMPLE.get(f"{layer}/{inner}" if inner else layer)
    if parts is None or index >= len(parts[1]):
        return None
    return prefix + parts[0] + parts[1][index]


def _keras_place(key):
    """The inverse: (layer, inner, index) of an array of the original's layout."""
    prefix, layer, table = "", None, _SIMPLE
    if match := re.match(r"Transformer/encoderblock_(\d+)/", key):
        prefix, layer, table = match[0], f"encoder_block_{int(match[1]):02d}", _IN_BLOCK
    elif match := re.fullmatch(r"block(\d+)/unit(\d+)/(\w+)/(\w+)", key):
        return f"block{match[1]}_unit{int(match[2]):02d}", match[3], (*_DENSE, *_NORM).index(match[4]) % 2
    for place, (start, names) in table.items():
        for index, name in enumerate(names):
            if prefix + start + name == key:
                first, _, rest = place.partition("/")
                return (layer, place, index) if layer else (first, rest or None, index)
    return key, None, 0
