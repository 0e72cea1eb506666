"""timm's layout: fused query, key and value, kernels as PyTorch keeps them, LayerScale folded away.

Source of the names: github.com/huggingface/pytorch-image-models. Legend: D hidden dimension, N tokens.
"""

import re

from vitkeras.checkpoints.timm_settings import timm_facts
from vitkeras.checkpoints.timm_stem import PREFIX, stem_entry, stem_key, stem_name
from vitkeras.checkpoints.torch_layout import (
    ATTENTION,
    BLOCK,
    bias_entry,
    convolution_entry,
    dense_entry,
    fused_entries,
    heads_first,
    heads_last,
)
from vitkeras.checkpoints.view import POSITION_KEY, CheckpointView, EntryTable, plain

# file's name <-> original's name, where the array is stored as it is
_STEM = {
    "cls_token": "cls",
    "pos_embed": POSITION_KEY,
    "patch_embed.proj.weight": "embedding/kernel",
    "patch_embed.proj.bias": "embedding/bias",
    "norm.weight": "Transformer/encoder_norm/scale",
    "norm.bias": "Transformer/encoder_norm/bias",
    "pre_logits.fc.weight": "pre_logits/kernel",
    "pre_logits.fc.bias": "pre_logits/bias",
    "head.weight": "head/kernel",
    "head.bias": "head/bias",
}
_IN_BLOCK = {
    "norm1.weight": "LayerNorm_0/scale",
    "norm1.bias": "LayerNorm_0/bias",
    "attn.proj.weight": ATTENTION + "out/kernel",
    "attn.proj.bias": ATTENTION + "out/bias",
    "norm2.weight": "LayerNorm_2/scale",
    "norm2.bias": "LayerNorm_2/bias",
    "mlp.fc1.weight": "MlpBlock_3/Dense_0/kernel",
    "mlp.fc1.bias": "MlpBlock_3/Dense_0/bias",
    "mlp.fc2.weight": "MlpBlock_3/Dense_1/kernel",
    "mlp.fc2.bias": "MlpBlock_3/Dense_1/bias",
}
# LayerScale multiplies a branch's output, so its factor folds into that branch's last dense layer.
_SCALES = {"attn.proj": "ls1.gamma", "mlp.fc2": "ls2.gamma"}
_NAME = re.compile(r"blocks\.(\d+)\.(.+)")
_KEY = re.compile(r"Transformer/encoderblock_(\d+)/(.+)")
# What can't be computed exactly by the paper's architecture, and why; anything else unknown is simply unexpected.
_REFUSED = {
    r"fc_norm\..*": "a norm after the pooling (fc_norm); here the norm stands before it, which gives other numbers",
    r"reg_token": "register tokens, which this architecture does not have",
    r"dist_token|head_dist\..*": "a distillation token, which this architecture does not have",
    r"norm_pre\..*": "a norm before the blocks, which this architecture does not have",
    r"attn_pool\..*": "attention pooling, which this architecture does not have",
    r"blocks\.\d+\.attn\.[qk]_norm\..*": "normalised queries and keys, which this architecture does not have",
}


def is_timm(names):
    """Whether array names are those of a timm ViT."""
    return "patch_embed.proj.weight" in names or any(_NAME.fullmatch(name) for name in names)


def timm_view(file):
    """Returns the `CheckpointView` of a timm ViT.

    Args:
        file: an open `SafetensorsFile`. A `config.json` of timm beside it is read too: kind of GELU, heads, image
            size, normalisation of the input.

    Raises:
        ValueError: for what this architecture does not compute exactly (registers, `fc_norm`, ...), by name.
    """
    for source in file.headers:
        for pattern, reason in _REFUSED.items():
            if re.fullmatch(pattern, source):
                raise ValueError(f"checkpoint {file.path!r}, array {source!r}: the model has {reason}.")
    entries, scales = EntryTable(file.path), _find_scales(file)
    for source, header in file.headers.items():
        match = _NAME.fullmatch(source)
        if match is None and source.startswith(PREFIX):
            entries[_paper_key(file, source)] = stem_entry(source, header)
            continue
        if match is None:
            entries[_STEM.get(source, source)] = _stem_entry(source, header)
            continue
        block, part = BLOCK.format(int(match[1])), match[2]
        module, _, kind = part.rpartition(".")
        if part in ("attn.qkv.weight", "attn.qkv.bias"):
            name = "kernel" if kind == "weight" else "bias"
            for projection, entry in fused_entries(source, header, name == "kernel"):
                entries[f"{block}{ATTENTION}{projection}/{name}"] = entry
        elif part in _IN_BLOCK:
            entries[block + _IN_BLOCK[part]] = _block_entry(source, header, module, kind, scales)
        elif source not in scales.values():
            entries[source] = plain(source, header)
    has_stages = any(source.startswith(f"{PREFIX}stages.") for source in file.headers)
    return CheckpointView(file, entries, lambda key: _name(key, has_stages), timm_facts(file, entries))


def _paper_key(file, source):
    """The original's name of a hybrid's stem array; stems of other kinds are refused."""
    key = stem_key(source)
    if key is None:
        raise ValueError(
            f"checkpoint {file.path!r}, array {source!r}: the model has another stem than the paper's ResNet "
            "(GroupNorm and standardised convolutions)."
        )
    return key


def _find_scales(file):
    """{dense layer's name: name of its LayerScale} for the layers that have one."""
    found = {}
    for source in file.headers:
        match = _NAME.fullmatch(source)
        for module, scale in _SCALES.items():
            if match and match[2] == scale:
                found[f"blocks.{match[1]}.{module}"] = source
    blocks = {match[1] for match in map(_NAME.fullmatch, file.headers) if match}
    wanted = {
        f"blocks.{block}.{module}": f"blocks.{block}.{scale}" for block in blocks for module, scale in _SCALES.items()
    }
    missing = sorted(source for module, source in wanted.items() if module not in found)
    if found and missing:
        raise ValueError(f"checkpoint {file.path!r} has LayerScale in some blocks only: missing {missing[0]!r}.")
    return found


def _stem_entry(source, header):
    if source == "patch_embed.proj.weight":
        return convolution_entry(source, header)
    if source in ("head.weight", "pre_logits.fc.weight"):
        return dense_entry(source, header, heads_last)
    return plain(source, header)


def _block_entry(source, header, module, kind, scales):
    if module.startswith("norm"):
        return plain(source, header)
    if kind == "weight":
        entry = dense_entry(source, header, heads_first if module == "attn.proj" else heads_last)
    else:
        entry = bias_entry(source, header)
    scale = scales.get(source.removesuffix("." + kind))
    return entry if scale is None else entry.scaled(scale)


def _name(key, has_stages=True):
    """What timm calls the original's `key`."""
    match = _KEY.fullmatch(key)
    if match is None:
        return next((name for name, original in _STEM.items() if original == key), stem_name(key, has_stages) or key)
    index, part = match.groups()
    if part.startswith(ATTENTION) and "/out/" not in part:
        return f"blocks.{index}.attn.qkv.{'weight' if part.endswith('kernel') else 'bias'}"
    return f"blocks.{index}." + next((name for name, original in _IN_BLOCK.items() if original == part), part)
