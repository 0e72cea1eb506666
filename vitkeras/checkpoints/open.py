"""Opening a checkpoint of any known layout as one `CheckpointView`."""

import os

from vitkeras.checkpoints.h5 import H5File
from vitkeras.checkpoints.huggingface import huggingface_view, is_huggingface
from vitkeras.checkpoints.keras_file import keras_model_view
from vitkeras.checkpoints.keras_layout import keras_view
from vitkeras.checkpoints.npz import NpzFile
from vitkeras.checkpoints.original import original_view
from vitkeras.checkpoints.safetensors import SafetensorsFile
from vitkeras.checkpoints.shards import INDEX_SUFFIX, ShardedFile
from vitkeras.checkpoints.timm import is_timm, timm_view

WEIGHTS_NAME = "model.safetensors"
INDEX_NAME = "model" + INDEX_SUFFIX
SUFFIXES = (".npz", ".safetensors", INDEX_SUFFIX, ".keras", ".weights.h5")


def is_checkpoint(path):
    """Whether `path` is an existing file, or a folder with `model.safetensors` or the index of its shards."""
    return os.path.isfile(path) or any(os.path.isfile(os.path.join(path, name)) for name in (WEIGHTS_NAME, INDEX_NAME))


def open_checkpoint(path):
    """Opens a checkpoint; its suffix tells the format, its array names the layout.

    Args:
        path: str or path-like: `.npz`, `.safetensors`, the index of its shards, `.keras` or `.weights.h5`, or a folder
            of Hugging Face's or timm's.

    Returns:
        `CheckpointView`, a context manager.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: for another suffix, a damaged file, or arrays of no known layout.
    """
    path = as_path(path)
    if os.path.isdir(path) and not path.endswith(SUFFIXES):
        path = _in_folder(path)
    if path.endswith(".npz"):
        return _view(NpzFile(path), original_view)
    if path.endswith((".safetensors", INDEX_SUFFIX)):
        file = SafetensorsFile(path) if path.endswith(".safetensors") else ShardedFile(path)
        return _view(file, _safetensors_layout(file))
    if path.endswith(".keras"):
        return keras_model_view(path)
    if path.endswith(".weights.h5"):
        return _view(H5File(path), keras_view)
    raise ValueError(
        f"checkpoint must be a file that ends in one of {SUFFIXES}, or a folder with {WEIGHTS_NAME} or its index, "
        f"received {path!r}."
    )


def as_path(path, name="checkpoint"):
    """Returns `path` as str, or raises ValueError, naming the argument, unless it is one."""
    if not isinstance(path, (str, os.PathLike)):
        raise ValueError(f"{name} must be a str or path-like, received {path!r}.")
    path = os.path.expanduser(os.fsdecode(path))
    if "\0" in path:
        raise ValueError(f"{name} must be a path, which has no NUL character, received {path!r}.")
    return path


def _in_folder(path):
    for name in (WEIGHTS_NAME, INDEX_NAME):
        if os.path.isfile(os.path.join(path, name)):
            return os.path.join(path, name)
    raise FileNotFoundError(f"checkpoint folder {path!r} has neither {WEIGHTS_NAME} nor {INDEX_NAME}.")


def _view(file, layout):
    try:
        return layout(file)
    except BaseException:
        file.close()
        raise


def _safetensors_layout(file):
    if is_huggingface(file.headers):
        return huggingface_view
    if is_timm(file.headers):
        return timm_view
    if any("/" in name for name in file.headers):
        return original_view
    file.close()
    raise ValueError(
        f"checkpoint {file.path!r} has array names of no known layout (timm, Hugging Face ViT, the original), such as "
        f"{sorted(file.headers)[:3]}."
    )
