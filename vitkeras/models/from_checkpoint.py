"""A file in, the ready model out: the configuration is read off the arrays."""

import warnings

from vitkeras.checkpoints.facts import read_facts
from vitkeras.checkpoints.keras_file import load_keras_model
from vitkeras.checkpoints.load import load_view
from vitkeras.checkpoints.open import as_path, open_checkpoint
from vitkeras.models.resnet import ResNet
from vitkeras.models.vit import VisionTransformer
from vitkeras.models.weights import local_path, settle_constants


def from_checkpoint(
    path,
    input_shape=None,
    include_top=None,
    classes=None,
    classifier_activation="softmax",
    pooling=None,
    activation=None,
    layer_norm_epsilon=None,
    num_heads=None,
    position_grid=None,
    input_mean=None,
    input_std=None,
    name=None,
    **kwargs,
):
    """Builds the model that a checkpoint belongs to, and loads it.

    Depth, widths, heads, patch, stem, classes and resolution are read off the arrays, and off the settings file beside
    them if the layout has one (`config.json` of Hugging Face and timm). GELU and LayerNorm epsilon follow the source:
    erf for timm, `config.json` for Hugging Face, the original's constants for its own layout, which doesn't say them.

    Args:
        path: str or path-like, a file or folder as in `load_checkpoint`, or an http(s) address. A `.keras` file
            gives the model that was saved, without the other arguments.
        input_shape: (height, width, channels) or None (default): the file's own. Another size resizes the position
            embedding; other than 3 channels sum (1) or repeat and rescale (C) the first kernel.
        include_top: bool or None (default): whether there is a head; as the file has it.
        classes: int or None (default): the file's own. Another number keeps the backbone and makes a head of zeros.
        classifier_activation: "softmax" (default), or None for logits.
        pooling: None (default), "token", "avg" or "max"; used without the head.
        activation: "gelu_tanh", "gelu" or None (default): the source's.
        layer_norm_epsilon: float or None (default): the source's.
        num_heads: int or None; needed for timm files whose width is none of the known models'.
        position_grid: (h, w) or None; the file's patch grid, needed where it isn't square. As many positions as a
            square has are taken for one: 36 are 6 x 6, unless 4 x 9 is said here.
        input_mean, input_std: as in `load_checkpoint`.
        name: str or None, the model's name.
        **kwargs: any other argument of `VisionTransformer` or `ResNet` that no file tells, such as `dropout_rate`.

    Returns:
        A functional `keras.Model` from (B, height, width, channels) to (B, K), or to features.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: for a file that `load_checkpoint` refuses, one that doesn't tell its configuration (`.weights.h5`),
            or an argument that contradicts it.

    Example:
        >>> import vitkeras
        >>> model = vitkeras.VisionTransformer((32, 48, 3), 16, 2, 48, 3, 96, include_top=False)
        >>> path = vitkeras.save_checkpoint(model, "tall.npz")
        >>> from_checkpoint(path, position_grid=(2, 3)).input_shape
        (None, 32, 48, 3)
    """
    path = local_path(as_path(path) if not hasattr(path, "url") else path)
    if path.endswith(".weights.h5"):
        raise ValueError(
            f"checkpoint {path!r} holds weights without a configuration: build the model, then use "
            "vitkeras.load_checkpoint(model, path)."
        )
    if path.endswith(".keras"):
        given = dict(input_shape=input_shape, include_top=include_top, classes=classes, pooling=pooling, name=name)
        given |= dict(activation=activation, layer_norm_epsilon=layer_norm_epsilon, num_heads=num_heads)
        given |= dict(position_grid=position_grid, input_mean=input_mean, input_std=input_std, **kwargs)
        changed = [(argument, value) for argument, value in given.items() if value is not None]
        if classifier_activation != "softmax":
            changed.append(("classifier_activation", classifier_activation))
        for argument, value in changed:
            raise ValueError(
                f"{argument} is not for a .keras file, which is a whole model and comes as it was saved, received "
                f"{value!r} with checkpoint {path!r}; use vitkeras.with_new_head or vitkeras.at_resolution on it."
            )
        return load_keras_model(path)
    with open_checkpoint(path) as view:
        facts = read_facts(view, position_grid, num_heads)
        has_head = facts.classes is not None
        include_top = has_head or classes is not None if include_top is None else include_top
        if include_top and not has_head and classes is None:
            raise ValueError(
                f"checkpoint {view.path!r} has no head; use include_top=False, or give classes for a new one."
            )
        loads_head = include_top and classes in (None, facts.classes)
        arguments = dict(
            input_shape=_input_shape(view, facts, input_shape),
            include_top=include_top,
            classes=facts.classes if classes is None else classes,
            classifier_activation=classifier_activation,
            pooling=pooling,
            name=name,
        )
        if "weights" in kwargs:
            raise ValueError(
                f"weights must not be given: they are those of {view.path!r}, received {kwargs['weights']!r}."
            )
        if facts.is_resnet:
            builder = ResNet
            for_vits = dict(activation=activation, layer_norm_epsilon=layer_norm_epsilon, num_heads=num_heads)
            for argument, value in (for_vits | {"position_grid": position_grid}).items():
                if value is not None:
                    raise ValueError(f"{argument} is for ViTs, and {view.path!r} is a ResNet; received {value!r}.")
        else:
            builder = VisionTransformer
            arguments |= settle_constants(view.facts, activation, layer_norm_epsilon)
            if loads_head:
                arguments["representation_size"] = facts.representation_size
        twice = sorted(set(kwargs) & {*facts.arguments, *arguments})
        if twice:
            raise ValueError(f"{twice[0]} is read off checkpoint {view.path!r}, received {kwargs[twice[0]]!r}.")
        model = builder(**arguments, **facts.arguments, **kwargs)
        notes = []
        load_view(model, view, notes, loads_head, position_grid, input_mean, input_std, same_size=True)
    for note in notes:
        warnings.warn(note, stacklevel=2)
    return model


def _input_shape(view, facts, input_shape):
    if input_shape is not None:
        return input_shape
    if facts.is_resnet:
        return (None, None, facts.channels)
    if facts.image_size is None:
        raise ValueError(
            f"checkpoint {view.path!r} has no position embedding that tells its image size: pass input_shape."
        )
    return (*facts.image_size, facts.channels)
