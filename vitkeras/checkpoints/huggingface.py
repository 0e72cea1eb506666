"""Hugging Face's layout: a folder with `model.safetensors` and `config.json`, in both generations of names.

Source of the names: github.com/huggingface/transformers, models/vit, before and since version 5.
Legend: D hidden dimension, P patch, C channels.
"""

import re
from dataclasses import dataclass

from vitkeras.checkpoints.settings import check_described, normalisation, read_settings
from vitkeras.checkpoints.torch_layout import (
    ATTENTION,
    BLOCK,
    bias_entry,
    convolution_entry,
    dense_entry,
    heads_first,
    heads_last,
)
from vitkeras.checkpoints.view import POSITION_KEY, CheckpointView, EntryTable, SourceFacts, plain

PREFIX = "vit."  # of models with a head; a bare backbone is saved without
_STEM = {
    "embeddings.cls_token": "cls",
    "embeddings.position_embeddings": POSITION_KEY,
    "embeddings.patch_embeddings.projection.weight": "embedding/kernel",
    "embeddings.patch_embeddings.projection.bias": "embedding/bias",
    "layernorm.weight": "Transformer/encoder_norm/scale",
    "layernorm.bias": "Transformer/encoder_norm/bias",
}
_HEAD = {"classifier.weight": "head/kernel", "classifier.bias": "head/bias"}


@dataclass(frozen=True)
class _Generation:
    """The names of one generation: where blocks are, and the modules in a block."""

    block: str
    modules: dict


_NORMS = {"layernorm_before": "LayerNorm_0", "layernorm_after": "LayerNorm_2"}
_GENERATIONS = (
    _Generation(
        "encoder.layer.",
        {
            **_NORMS,
            "attention.attention.query": ATTENTION + "query",
            "attention.attention.key": ATTENTION + "key",
            "attention.attention.value": ATTENTION + "value",
            "attention.output.dense": ATTENTION + "out",
            "intermediate.dense": "MlpBlock_3/Dense_0",
            "output.dense": "MlpBlock_3/Dense_1",
        },
    ),
    _Generation(
        "layers.",
        {
            **_NORMS,
            "attention.q_proj": ATTENTION + "query",
            "attention.k_proj": ATTENTION + "key",
            "attention.v_proj": ATTENTION + "value",
            "attention.o_proj": ATTENTION + "out",
            "mlp.fc1": "MlpBlock_3/Dense_0",
            "mlp.fc2": "MlpBlock_3/Dense_1",
        },
    ),
)
_GELUS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh"}
_PATCH = "embeddings.patch_embeddings.projection.weight"


def is_huggingface(names):
    """Whether array names are those of a ViT saved by Hugging Face's library."""
    return _PATCH in names or PREFIX + _PATCH in names


def huggingface_view(file):
    """Returns the `CheckpointView` of a Hugging Face ViT.

    The pooler (a tanh layer on the class token) is ignored: the library's own classifier does not read it.

    Args:
        file: an open `SafetensorsFile` with a `config.json` beside it; `preprocessor_config.json` is read if there.

    Raises:
        ValueError: if `config.json` is missing, is for another kind of model, or contradicts the arrays.
    """
    prefix = PREFIX if PREFIX + _PATCH in file.headers else ""
    generation = next(
        (g for g in _GENERATIONS if any(source.startswith(prefix + g.block) for source in file.headers)),
        _GENERATIONS[0],
    )
    block = re.compile(re.escape(prefix + generation.block) + r"(\d+)\.(.+)\.(weight|bias)")
    entries = EntryTable(file.path)
    for source, header in file.headers.items():
        if source in (f"{prefix}pooler.dense.weight", f"{prefix}pooler.dense.bias"):
            continue
        name, match = source.removeprefix(prefix), block.fullmatch(source)
        if source in _HEAD:
            key = _HEAD[source]
            entries[key] = plain(source, header) if key.endswith("bias") else dense_entry(source, header, heads_last)
        elif source.startswith(prefix) and name in _STEM:
            entries[_STEM[name]] = (convolution_entry if name == _PATCH else plain)(source, header)
        elif match and match[2] in generation.modules:
            target = generation.modules[match[2]]
            key = f"{BLOCK.format(int(match[1]))}{target}/{_leaf(target, match[3])}"
            entries[key] = _block_entry(source, header, target, match[3])
        else:
            entries[source] = plain(source, header)
    return CheckpointView(file, entries, _naming(prefix, generation), _facts(file, entries))


def _leaf(target, kind):
    """The original's name of a module's "weight" or "bias"."""
    return "bias" if kind == "bias" else "scale" if target.startswith("LayerNorm") else "kernel"


def _block_entry(source, header, target, kind):
    if target.startswith("LayerNorm"):
        return plain(source, header)
    if kind == "bias":
        return bias_entry(source, header)
    return dense_entry(source, header, heads_first if target == ATTENTION + "out" else heads_last)


def _naming(prefix, generation):
    def name(key):
        for table, start in ((_STEM, prefix), (_HEAD, "")):
            for theirs, original in table.items():
                if original == key:
                    return start + theirs
        match = re.fullmatch(r"Transformer/encoderblock_(\d+)/(.+)/(\w+)", key)
        for theirs, original in generation.modules.items():
            if match and match[2] == original:
                kind = "bias" if match[3] == "bias" else "weight"
                return f"{prefix}{generation.block}{match[1]}.{theirs}.{kind}"
        return key

    return name


def _facts(file, entries):
    settings = read_settings(file.path, "config.json")
    if settings.get("model_type") != "vit":
        raise ValueError(
            f"checkpoint {file.path!r} needs its config.json beside it, with model_type 'vit', received "
            f"{settings.get('model_type')!r}."
        )
    act = settings.get("hidden_act", "gelu")
    if act not in _GELUS:
        raise ValueError(
            f"checkpoint {file.path!r}: hidden_act of its config.json must be one of {tuple(_GELUS)}, received {act!r}."
        )
    values = {"num_attention_heads": int, "layer_norm_eps": float}
    for key, kind in values.items():
        value = settings.get(key)
        if type(value) not in (int, kind) or not 0 < value < float("inf"):
            raise ValueError(
                f"checkpoint {file.path!r}: {key} of its config.json must be a positive {kind.__name__}, received "
                f"{value!r}."
            )
    _check_sizes(file, entries, settings)
    size = _image_size(file.path, settings.get("image_size"))
    processor = read_settings(file.path, "preprocessor_config.json")
    for key in ("do_normalize", "do_rescale"):
        if type(processor.get(key, True)) is not bool:
            raise ValueError(
                f"checkpoint {file.path!r}: {key} of its preprocessor_config.json must be true or false, received "
                f"{processor[key]!r}."
            )
    if not processor.get("do_rescale", True):
        raise ValueError(
            f"checkpoint {file.path!r}: do_rescale of its preprocessor_config.json must be true: weights for pixels of "
            "0...255 are not read."
        )
    mean = std = None
    if not processor.get("do_normalize", True):  # pixels of 0...1 as they are
        mean, std = (0.0,), (1.0,)
    else:  # the library's default
        factor = processor.get("rescale_factor", 1 / 255)
        if type(factor) not in (int, float) or not abs(255 * factor - 1) < 1e-5:
            raise ValueError(
                f"checkpoint {file.path!r}: rescale_factor of its preprocessor_config.json must be 1/255, received "
                f"{factor!r}; give input_mean and input_std for pixels of 0...1 to a copy without that file."
            )
        keys, kernel = ("image_mean", "image_std"), entries.get("embedding/kernel")
        mean, std = normalisation(file.path, "preprocessor_config.json", processor, keys, kernel)
    return SourceFacts(
        "Hugging Face weights",
        activation=_GELUS[act],
        layer_norm_epsilon=float(settings["layer_norm_eps"]),
        num_heads=settings["num_attention_heads"],
        image_size=size,
        input_mean=mean,
        input_std=std,
        resize_method="bicubic",
    )


def _image_size(path, size):
    """(height, width) as config.json has it, or None."""
    sides = size if isinstance(size, list) else [size, size]
    if size is not None and (len(sides) != 2 or not all(type(side) is int and side > 0 for side in sides)):
        raise ValueError(
            f"checkpoint {path!r}: image_size of its config.json must be a positive int or a pair of them, received "
            f"{size!r}."
        )
    return None if size is None else tuple(sides)


def _check_sizes(file, entries, settings):
    """`config.json` must describe these arrays."""
    kernel = entries.get("embedding/kernel")
    expand = entries.get(BLOCK.format(0) + "MlpBlock_3/Dense_0/kernel")
    head = entries.get("head/kernel")
    blocks = {key.split("/")[1] for key in entries if key.startswith("Transformer/encoderblock_")}
    found = {"num_hidden_layers": len(blocks)}
    if kernel is not None and len(kernel.shape) == 4:
        found |= {"patch_size": kernel.shape[0], "num_channels": kernel.shape[2], "hidden_size": kernel.shape[3]}
    if expand is not None and len(expand.shape) == 2:
        found["intermediate_size"] = expand.shape[1]
    found["qkv_bias"] = any(key.endswith("/query/bias") for key in entries)
    check_described(file.path, "config.json", settings, found)
    labels = settings.get("id2label")
    if head is not None and len(head.shape) == 2 and isinstance(labels, dict) and len(labels) != head.shape[1]:
        raise ValueError(
            f"checkpoint {file.path!r}: its head has {head.shape[1]} classes, id2label of its config.json has "
            f"{len(labels)}."
        )
