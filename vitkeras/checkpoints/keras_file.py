"""Keras' own files as checkpoints: `.keras` and `.weights.h5`, checked before Keras opens them."""

import json
import math
import os
import zipfile

import keras
import numpy as np

from vitkeras import layers
from vitkeras.checkpoints.array_file import ArrayFile, ArrayHeader
from vitkeras.checkpoints.google import google_slots
from vitkeras.checkpoints.view import CheckpointView, SourceFacts, plain

MEMBERS = ("metadata.json", "config.json", "model.weights.h5")
MAX_CONFIG_BYTES = 2**26
MAX_WEIGHTS_BYTES = 2**37
TRUSTED = ("keras", "vitkeras")  # packages whose classes a file may name
_BESIDE = ("optimizer", "metrics", "seed_generator", "seed_generators")


def load_keras_model(path):
    """Loads a `.keras` file, in safe mode and after its own checks.

    Args:
        path: str.

    Returns:
        A `keras.Model`.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is damaged, holds anything besides a model, members that are too large, or names classes of
            other packages than Keras and this library.
    """
    _check_file(path)
    try:
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                limit = MAX_WEIGHTS_BYTES if info.filename == MEMBERS[2] else MAX_CONFIG_BYTES
                if info.filename not in MEMBERS:
                    raise ValueError(f"checkpoint {path!r}: a .keras file holds {MEMBERS}, received {info.filename!r}.")
                if info.file_size > limit:
                    raise ValueError(
                        f"checkpoint {path!r}, member {info.filename!r}: must have at most {limit} bytes, received "
                        f"{info.file_size}."
                    )
            config = json.loads(archive.read("config.json"))
    except (zipfile.BadZipFile, KeyError, json.JSONDecodeError, UnicodeDecodeError, RecursionError, EOFError) as error:
        raise ValueError(f"checkpoint {path!r} is truncated or not a .keras file ({error}).") from error
    _check_classes(path, config)
    try:
        return keras.saving.load_model(path, compile=False, safe_mode=True)
    except Exception as error:  # h5py, zipfile and Keras each raise their own on damaged content
        raise ValueError(f"checkpoint {path!r} is damaged or not of this version ({error}).") from error


def _check_file(path):
    if not os.path.isfile(path):
        raise FileNotFoundError(f"checkpoint {path!r} is not a file.")
    if not os.path.getsize(path):
        raise ValueError(f"checkpoint {path!r} is empty.")


def _check_classes(path, config):
    """Keras imports the module that a configuration names; here only of the packages that belong to a model."""
    stack = [config]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            module, name = value.get("module"), value.get("class_name")
            package, mark, _ = str(value.get("registered_name")).partition(">")
            if mark and package not in TRUSTED:  # found by that name among the process's classes, whatever the module
                module, name = package, value["registered_name"]
            if name == "__lambda__" or (module is not None and str(module).split(".")[0] not in (*TRUSTED, "builtins")):
                raise ValueError(
                    f"checkpoint {path!r} names the class {name!r} of {module!r}; only those of {TRUSTED} are loaded."
                )
            stack.extend(value.values())
        elif isinstance(value, list):
            stack.extend(value)


class _ModelFile(ArrayFile):
    """The weights of a loaded model, in the place of a file's arrays."""

    def __init__(self, path, model):
        self.path = path
        self._variables = {slot.key: slot for slot in google_slots(model)}
        self.headers = {key: ArrayHeader(slot.shape, _float32(slot)) for key, slot in self._variables.items()}

    def blocks(self, name, parts=1, multiple=1):
        yield keras.ops.convert_to_numpy(keras.ops.cast(self._variables[name].variable, "float32")).reshape(-1)

    def close(self):
        self._variables = {}


def _float32(slot):
    return np.dtype("float32") if keras.backend.is_float_dtype(slot.variable.dtype) else np.dtype(slot.variable.dtype)


def model_view(path, model):
    """Returns the `CheckpointView` of a model that was loaded from `path`."""
    file = _ModelFile(path, model)
    block = next((layer for layer in model.layers if isinstance(layer, layers.EncoderBlock)), None)
    facts = SourceFacts("Keras file")
    if block is not None:
        facts = SourceFacts("Keras file", block.activation, block.layer_norm_epsilon, block.num_heads)
    return CheckpointView(file, {key: plain(key, header) for key, header in file.headers.items()}, facts=facts)


def keras_model_view(path):
    """Returns the `CheckpointView` of a `.keras` file; see `load_keras_model`."""
    return model_view(path, load_keras_model(path))


def weights_file_view(path, model):
    """Returns the `CheckpointView` of a `.weights.h5` file, read into a copy of `model`.

    Args:
        path: str.
        model: a model of the architecture and size that the file was saved from.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is damaged, does not fit the model, or `model` is None.
    """
    _check_file(path)
    if model is None:
        raise ValueError(
            f"checkpoint {path!r} holds weights without a configuration: build the model, then use "
            "vitkeras.load_checkpoint(model, path)."
        )
    _check_arrays(path, model)
    copy = keras.models.clone_model(model)
    try:
        copy.load_weights(path)
    except Exception as error:  # h5py and Keras each raise their own
        raise ValueError(f"checkpoint {path!r} does not fit the model ({error}).") from error
    return model_view(path, copy)


def _check_arrays(path, model):
    """The file's arrays are as many as the model's weights, and none is larger than the largest or stored elsewhere."""
    import h5py  # Keras' own dependency

    largest = max((math.prod(weight.shape) for weight in model.weights), default=0)
    names, faults = [], []

    def visit(name, item):
        if not isinstance(item, h5py.Dataset) or any(part in _BESIDE for part in name.split("/")):
            return
        names.append(name)
        if item.external or item.is_virtual:
            faults.append(f"array {name!r} keeps its data in another file")
        if item.dtype.kind in "iub":
            faults.append(f"array {name!r} must be floating point, received {item.dtype}")
        if item.size > largest:
            faults.append(f"array {name!r} must have at most {largest} values, received {item.size}")

    try:
        with h5py.File(path, "r") as file:
            file.visititems(visit)
    except (OSError, RuntimeError, KeyError, ValueError) as error:
        raise ValueError(f"checkpoint {path!r} is truncated or not an .h5 file ({error}).") from error
    if len(names) != len(model.weights):
        faults.append(f"it must hold {len(model.weights)} arrays, received {len(names)}")
    if faults:
        raise ValueError(f"checkpoint {path!r} does not fit the model: {'; '.join(faults)}.")
