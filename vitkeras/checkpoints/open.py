"""Opening a checkpoint of any known layout as one `CheckpointView`."""

import os

from vitkeras.checkpoints.huggingface import huggingface_view, is_huggingface
from vitkeras.checkpoints.keras_file import keras_model_view, weights_file_view
from vitkeras.checkpoints.npz import NpzFile
from vitkeras.checkpoints.original import original_view
from vitkeras.checkpoints.safetensors import SafetensorsFile
from vitkeras.checkpoints.timm import is_timm, timm_view

WEIGHTS_NAME = "model.safetensors"
SUFFIXES = (".npz", ".safetensors", ".keras", ".weights.h5")


def is_checkpoint(path):
    """Whether `path` is an existing file, or a folder with `model.safetensors`."""
    return os.path.isfile(path) or os.path.isfile(os.path.join(path, WEIGHTS_NAME))


def open_checkpoint(path, model=None):
    """Opens a checkpoint; its suffix tells the format, its array names the layout.

    Args:
        path: str or path-like: `.npz`, `.safetensors`, `.keras` or `.weights.h5`, or a Hugging Face folder.
        model: the model to be loaded; only `.weights.h5`, which doesn't say what it belongs to, needs it.

    Returns:
        `CheckpointView`, a context manager.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: for another suffix, a damaged file, or arrays of no known layout.
    """
    path = os.fspath(path)
    if os.path.isdir(path) and not path.endswith(SUFFIXES):
        path = _in_folder(path)
    if path.endswith(".npz"):
        return _view(NpzFile(path), original_view)
    if path.endswith(".safetensors"):
        file = SafetensorsFile(path)
        return _view(file, _safetensors_layout(file))
    if path.endswith(".keras"):
        return keras_model_view(path)
    if path.endswith(".weights.h5"):
        return weights_file_view(path, model)
    raise ValueError(
        f"checkpoint must be a file that ends in one of {SUFFIXES}, or a folder with {WEIGHTS_NAME}, received {path!r}."
    )


def _in_folder(path):
    weights = os.path.join(path, WEIGHTS_NAME)
    if os.path.isfile(weights):
        return weights
    if os.path.isfile(weights + ".index.json"):
        raise ValueError(
            f"checkpoint folder {path!r} holds its weights in several files; save it as one {WEIGHTS_NAME} first."
        )
    raise FileNotFoundError(f"checkpoint folder {path!r} has no {WEIGHTS_NAME}.")


def _view(file, layout):
    try:
        return layout(file)
    except BaseException:
        file.close()
        raise


def _safetensors_layout(file):
    if is_timm(file.headers):
        return timm_view
    if is_huggingface(file.headers):
        return huggingface_view
    if any("/" in name for name in file.headers):
        return original_view
    file.close()
    raise ValueError(
        f"checkpoint {file.path!r} has array names of no known layout (timm, Hugging Face ViT, the original), such as "
        f"{sorted(file.headers)[:3]}."
    )
