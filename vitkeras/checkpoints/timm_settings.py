"""What timm's `config.json` says of a model, compared with its arrays."""

from vitkeras.checkpoints.settings import check_described, normalisation, read_settings
from vitkeras.checkpoints.sizes import read_sizes
from vitkeras.checkpoints.view import SourceFacts

NAME = "config.json"
LAYER_NORM_EPSILON = 1e-6  # timm's ViTs, its library-wide choice for them
_GELUS = {"gelu": "gelu", "gelu_erf": "gelu", "gelu_tanh": "gelu_tanh"}
_NORMS = (None, "layernorm", "layer_norm", "LayerNorm")
_FLAGS = ("qk_norm", "fc_norm", "pre_norm", "no_embed_class", "class_token", "qkv_bias", "dynamic_img_size")


def timm_facts(file, entries):
    """Returns the `SourceFacts` of a timm file, from the `config.json` beside it if there is one.

    Args:
        file: an open `SafetensorsFile`.
        entries: dict of original name -> `Entry`.

    Raises:
        ValueError: if the settings are of a wrong type, contradict the arrays, or ask for what this architecture does
            not compute.
    """
    settings = read_settings(file.path, NAME, marker="architecture")
    model, pretrained = (_object(file.path, settings, key) for key in ("model_args", "pretrained_cfg"))
    act_layer = model.get("act_layer") or "gelu"
    if act_layer not in _GELUS:
        raise ValueError(
            f"checkpoint {file.path!r}: act_layer of its {NAME} must be one of {tuple(_GELUS)}, received {act_layer!r}."
        )
    _check_architecture(file.path, settings, model, entries)
    _check_sizes(file.path, settings, model, entries)
    heads = model.get("num_heads", settings.get("num_heads"))
    if heads is not None and (type(heads) is not int or heads < 1):
        raise ValueError(
            f"checkpoint {file.path!r}: num_heads of its {NAME} must be a positive int, received {heads!r}."
        )
    mean, std = normalisation(file.path, NAME, pretrained, ("mean", "std"), entries.get("embedding/kernel"))
    return SourceFacts(
        "timm weights",
        activation=_GELUS[act_layer],
        layer_norm_epsilon=LAYER_NORM_EPSILON,
        num_heads=heads,
        input_mean=mean,
        input_std=std,
        position_prefixes=(0,) if model.get("no_embed_class") is True else (1,),
        resize_method="bicubic",
    )


def _object(path, settings, key):
    value = settings.get(key)
    if value is not None and not isinstance(value, dict):
        raise ValueError(f"checkpoint {path!r}: {key} of its {NAME} must be an object, received {value!r}.")
    return value or {}


def _check_architecture(path, settings, model, entries):
    """Refuses what the arrays don't show and this architecture doesn't compute."""
    for key in _FLAGS:
        if type(model.get(key, False)) is not bool and model.get(key) is not None:
            raise ValueError(
                f"checkpoint {path!r}: {key} of its {NAME} must be true or false, received {model[key]!r}."
            )
    for source in (settings, model):
        pooling, wanted = source.get("global_pool"), "token" if "cls" in entries else "avg"
        if pooling not in (None, "", wanted):
            raise ValueError(
                f"checkpoint {path!r}: global_pool of its {NAME} must be {wanted!r} for a model "
                f"{'with' if wanted == 'token' else 'without'} a class token, received {pooling!r}."
            )
    if model.get("norm_layer") not in _NORMS:
        raise ValueError(
            f"checkpoint {path!r}: norm_layer of its {NAME} must be one of {_NORMS[1:]}, received "
            f"{model['norm_layer']!r}."
        )
    for key in ("qk_norm", "pre_norm"):
        if model.get(key):
            raise ValueError(
                f"checkpoint {path!r}: {key} of its {NAME} must be false: this architecture has no such norm."
            )
    has = {"class_token": "cls" in entries}
    check_described(path, NAME, model, has)


def _check_sizes(path, settings, model, entries):
    """The sizes that `config.json` gives must be those of the arrays."""
    sizes = read_sizes({key: entry.shape for key, entry in entries.items()})
    found = {"depth": sizes.num_layers or None, "embed_dim": sizes.hidden_dim}
    kernel, head = entries.get("embedding/kernel"), entries.get("head/kernel")
    is_plain = "conv_root/kernel" not in entries
    if kernel is not None and len(kernel.shape) == 4 and is_plain:
        found |= {"patch_size": kernel.shape[0], "in_chans": kernel.shape[2]}
    check_described(path, NAME, model, found)
    if head is not None and len(head.shape) == 2:
        for source in (settings, model):
            check_described(path, NAME, source, {"num_classes": head.shape[1]})
