"""Writing the original's `.npz` layout, so that its JAX code reads what was trained here."""

import os
import uuid
import warnings
import zipfile

import keras
import numpy as np

from vitkeras import layers
from vitkeras.checkpoints.google import google_slots
from vitkeras.checkpoints.open import as_path


def save_checkpoint(model, path, overwrite=False):
    """Saves a ViT, a hybrid or a ResNet in the original's `.npz` layout.

    The names, shapes and order are those of the published files (GroupNorm's vectors as (1, 1, 1, C) maps), the
    numbers float32: a file that was loaded is saved again bit for bit. One array is in memory at a time.

    Args:
        model: a model built by `VisionTransformer`, `ResNet` or a variant.
        path: str or path-like, ends in `.npz`.
        overwrite: bool, whether an existing file is replaced. Default False.

    Returns:
        The path, str.

    Raises:
        FileNotFoundError: if the path's folder doesn't exist.
        ValueError: if the path has another suffix, or the model has weights that the layout has no name for, or that
            are not finite.
        FileExistsError: if there is such a file and `overwrite` is False, or a folder of that name.
        OSError: if the file can't be written; nothing of it stays.

    Warns:
        UserWarning: if the model computes with another GELU or epsilon than the original's, or has its head on every
            token, which the layout can't say.

    Example:
        >>> import vitkeras
        >>> model = vitkeras.VisionTransformer((32, 32, 3), 16, 2, 48, 3, 96, include_top=False)
        >>> path = save_checkpoint(model, "mine.npz")
        >>> vitkeras.from_checkpoint(path).output_shape
        (None, 5, 48)
    """
    path = as_path(path, "path")
    if not path.endswith(".npz"):
        raise ValueError(f"path must end in .npz, received {path!r}.")
    if not isinstance(overwrite, bool):
        raise ValueError(f"overwrite must be True or False, received {overwrite!r}.")
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"the folder of path must exist, received {path!r}.")
    slots = sorted(google_slots(model), key=lambda slot: slot.key)  # the original's order: its trees are sorted
    if os.path.lexists(path) and (not overwrite or os.path.isdir(path)):
        advice = "it is a folder" if os.path.isdir(path) else "pass overwrite=True to replace it"
        raise FileExistsError(f"{path!r} exists; {advice}.")
    maps = {
        id(weight)
        for layer in model._flatten_layers()
        if isinstance(layer, layers.GroupNorm)
        for weight in layer.weights
    }
    temporary = f"{path}.{uuid.uuid4().hex[:8]}.part"
    try:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
            for slot in slots:
                shape = (1, 1, 1, *slot.shape) if id(slot.variable) in maps else slot.shape
                array = keras.ops.convert_to_numpy(keras.ops.cast(slot.variable, "float32")).reshape(shape)
                if not np.isfinite(array).all():
                    raise ValueError(
                        f"model {model.name!r}: weight {slot.variable.path!r} holds values that are not finite."
                    )
                with archive.open(f"{slot.key}.npy", "w", force_zip64=True) as stream:
                    np.lib.format.write_array(stream, array, allow_pickle=False)
                del array
        os.replace(temporary, os.path.realpath(path))
    except OSError as error:
        raise type(error)(f"{path!r} can't be written ({error.strerror or error}).") from error
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)
    _note_constants(model, path)
    return path


def _note_constants(model, path):
    """What the reader of the file must know because the layout can't say it."""
    names = {layer.name for layer in model.layers}
    if "head" in names and "encoder_norm" in names and "pool" not in names:
        warnings.warn(
            f"checkpoint {path!r} was saved from a model whose head reads every token, which the original's layout "
            "can't say: give its classifier when it is loaded.",
            stacklevel=3,
        )
    for layer in model.layers:
        if isinstance(layer, layers.EncoderBlock):
            own = {"activation": layer.activation, "layer_norm_epsilon": layer.layer_norm_epsilon}
            original = {"activation": "gelu_tanh", "layer_norm_epsilon": 1e-6}
            if own != original:
                warnings.warn(
                    f"checkpoint {path!r} was saved from a model with {own}, which the original's layout can't say: "
                    f"its JAX code computes with {original}, and here both are to be given when it is loaded.",
                    stacklevel=3,
                )
            return
