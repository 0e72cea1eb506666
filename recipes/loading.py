"""A trained model from wherever it lies: `model.keras`, a workdir, a checkpoint folder, a weights file."""

import dataclasses
import os
import typing
import zipfile

from .config import PretrainConfig


def load_model(path, ema=False, **reading):
    """Loads a model and the names of its classes.

    Args:
        path: str, a `.keras` file, a run's workdir, a checkpoint folder (`ckpt-120`), or a file or folder for
            `vitkeras.from_checkpoint`.
        ema: bool, take a checkpoint's averaged weights. Default False.
        **reading: what a weights file doesn't tell of itself, for `vitkeras.from_checkpoint`: `activation`,
            `input_mean` and `input_std`.

    Returns:
        (`keras.Model`, tuple of str or () where the names are unknown).

    Raises:
        ValueError: if there is nothing to load, a checkpoint is damaged, it has no averaged weights, or `reading` is
            given for a model that is saved as a whole.
    """
    from vitkeras import models

    whole = any(os.path.exists(os.path.join(path, name)) for name in ("meta.json", "checkpoints", "model.keras"))
    if reading and (whole or path.endswith(".keras")):
        raise ValueError(f"{', '.join(reading)} must not be given for {path!r}, which is a whole model.")
    if os.path.exists(os.path.join(path, "meta.json")):
        return _from_checkpoint(path, ema)
    if os.path.isdir(path) and os.path.exists(os.path.join(path, "model.keras")) and not ema:
        path = os.path.join(path, "model.keras")
    elif os.path.isdir(os.path.join(path, "checkpoints")):
        from vitkeras.training import Checkpointer

        saver = Checkpointer(os.path.join(path, "checkpoints"))
        if (step := saver.latest()) is None:
            raise ValueError(f"--model {path} must hold model.keras or a checkpoint, received neither.")
        return _from_checkpoint(saver.path(step), ema)
    if ema:
        raise ValueError(f"ema=true is for checkpoints of a run with train.ema_decay, received {path!r}.")
    if not os.path.exists(path):
        raise ValueError(f"--model must be a file or folder that exists, received {path!r}.")
    if path.endswith(".keras"):
        return _saved(path), names_beside(path)
    if os.path.isdir(path) and not any(".safetensors" in name for name in os.listdir(path)):
        raise ValueError(
            f"--model {path} must hold model.keras, checkpoints/, meta.json of a checkpoint or model.safetensors, "
            "received a folder with none of them."
        )
    try:
        return models.from_checkpoint(path, classifier_activation=None, **reading), ()
    except ValueError as error:
        raise ValueError(f"--model: {error}") from error


def _saved(path):
    """A model that Keras saved."""
    import keras

    import vitkeras  # noqa: F401  (registers the layers)

    if not zipfile.is_zipfile(path):
        raise ValueError(f"--model {path} must be a model that Keras saved, received a file that is no whole archive.")
    try:
        model = keras.saving.load_model(path, compile=False)
    except (ValueError, TypeError, OSError, KeyError, AttributeError, zipfile.BadZipFile) as error:
        reason = str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
        raise ValueError(f"--model {path} must be a model that Keras saved and can load ({reason}).") from error
    shape = getattr(model, "input_shape", None)
    if not isinstance(shape, tuple) or len(shape) != 4 or shape[-1] != 3:
        raise ValueError(f"--model {path} must take images (height, width, 3), received one of input shape {shape}.")
    if isinstance(model, keras.Sequential):  # which has no `output` after loading, to cut features from
        return keras.Model(model.inputs[0], model.outputs[0], name=model.name)
    return model


def frozen_model(config):
    """The model whose features a recipe takes: that of `config.checkpoint`, else what `config.model` builds."""
    from vitkeras.models.own_scaling import scaling_operation

    from .building import build_model

    if config.checkpoint is not None:
        model = load_model(config.checkpoint)[0]
        if (name := scaling_operation(model)) is not None:
            raise ValueError(
                f"--model {config.checkpoint} must take -1...1, received one that scales its input by the layer "
                f"{name!r}; save the model behind that layer."
            )
        return model
    return build_model(PretrainConfig(data=config.data, model=config.model), classes=1)


def image_size_of(model, choice):
    """(height, width) that a model takes: its own, or `data.image_size` for a model of any size."""
    return own_size_or(model.input_shape[1:3], choice)


def own_size_or(size, choice):
    """`size`, or `data.image_size` where that is of any height or width."""
    return choice.image_size if None in size else size


def _from_checkpoint(path, ema):
    from vitkeras.training.checkpoint_files import read_checkpoint

    from .building import build_model

    found = read_checkpoint(path)
    if found.meta["config"] is None or not found.meta["class_names"]:
        raise ValueError(f"checkpoint {path} must be of a recipe that classifies, received one without classes.")
    config = from_dict(PretrainConfig, found.meta["config"])
    # The weights come from the checkpoint, so that the file that the run began with isn't needed any more.
    config = dataclasses.replace(config, model=dataclasses.replace(config.model, weights=None))
    model = build_model(config, len(found.meta["class_names"]))
    averaged = {v.path for v in model.trainable_variables} if ema else set()
    if ema and not any(name.startswith("ema/") for name in found.arrays):
        raise ValueError(f"checkpoint {path} must have averaged weights (train.ema_decay) for ema=true, received none.")
    for variable in model.variables:
        if variable.path.endswith("seed_generator_state"):
            continue
        name = ("ema/" if variable.path in averaged else "model/") + variable.path
        if name not in found.arrays or found.arrays[name].shape != tuple(variable.shape):
            raise ValueError(f"checkpoint {path} must hold {name} of shape {tuple(variable.shape)}.")
        variable.assign(found.arrays[name])
    return model, tuple(found.meta["class_names"])


def from_dict(kind, values):
    """A configuration from `as_dict`'s nested values after a trip through JSON, where tuples became lists.

    Sections and fields that `kind` doesn't have are left out, so that every recipe's checkpoint can be read.

    Example:
        >>> from_dict(PretrainConfig, {"data": {"image_size": [48, 64]}}).data.image_size
        (48, 64)
    """
    hints, given = typing.get_type_hints(kind), {}
    for field in dataclasses.fields(kind):
        if field.name in values:
            value, of = values[field.name], hints[field.name]
            if dataclasses.is_dataclass(of):
                value = from_dict(of, value)
            given[field.name] = tuple(value) if isinstance(value, list) else value
    return kind(**given)


def names_beside(path):
    """tuple of str, the lines of the `classes.txt` that lies in a model's folder, or ()."""
    names = os.path.join(os.path.dirname(path.rstrip(os.sep)), "classes.txt")
    if not os.path.exists(names):
        return ()
    with open(names, encoding="utf-8") as file:
        return tuple(file.read().splitlines())
