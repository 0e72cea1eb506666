"""`.keras` files as checkpoints, checked before Keras opens them."""

import io
import json
import math
import zipfile
import zlib

import keras
import numpy as np

from vitkeras.checkpoints.array_file import check_file
from vitkeras.checkpoints.check import compare
from vitkeras.checkpoints.google import google_slots
from vitkeras.checkpoints.h5 import H5File
from vitkeras.checkpoints.keras_layout import keras_view
from vitkeras.checkpoints.view import SourceFacts

MEMBERS = ("metadata.json", "config.json", "model.weights.h5")
MAX_CONFIG_BYTES = 2**26
MAX_WEIGHTS_BYTES = 2**37
TRUSTED = ("keras", "vitkeras")  # packages whose classes a file may name
# Fields of a layer's configuration that are the length of an axis of one of its weights.
_SIZES = ("units", "filters", "hidden_dim", "mlp_dim", "width", "patch_size", "kernel_size", "input_dim", "output_dim")
# What zipfile, its decompressor and the JSON parser raise on bytes that are not what they claim to be.
_DAMAGE = (
    EOFError,
    KeyError,
    NotImplementedError,
    RuntimeError,
    UnicodeDecodeError,
    json.JSONDecodeError,
    zipfile.BadZipFile,
    zlib.error,
)
_ANY_CHANNELS = 2**14  # of what a layer was built on, where its weights don't say more
_MAX_REASON = 300  # characters of what Keras says


def load_keras_model(path):
    """Loads a `.keras` file, in safe mode and after its own checks.

    Args:
        path: str.

    Returns:
        A `keras.Model`.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is damaged, holds anything besides a model, members that are too large, sizes that its weights
            don't have, no layer of this library, or names classes of other packages than Keras and this library.
    """
    config, file = _open(path)
    with file:
        _check_sizes(path, config, file)
        try:
            model = keras.saving.load_model(path, compile=False, safe_mode=True)
        except Exception as error:  # h5py, zipfile and Keras each raise their own on damaged content
            _check_against_config(path, config, file)
            raise ValueError(f"checkpoint {path!r} is damaged or not of this version ({_short(error)}).") from error
        if not any(type(layer).__module__.startswith("vitkeras.") for layer in model._flatten_layers()):
            raise ValueError(
                f"checkpoint {path!r} holds the model {model.name!r}, which has no layer of this library; load it with "
                "keras.saving.load_model."
            )
        _check_arrays(path, model, file)
    return model


def keras_model_view(path):
    """Returns the `CheckpointView` of the weights in a `.keras` file; its model isn't built.

    Raises:
        FileNotFoundError, ValueError: as `load_keras_model`, but for what only building tells.
    """
    config, file = _open(path)
    return keras_view(file, _facts(path, config))


def _open(path):
    """(configuration, `H5File`) of a `.keras` file."""
    check_file(path)
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
            config = json.loads(archive.read(MEMBERS[1]))
            weights = io.BytesIO(archive.read(MEMBERS[2]))
    except _DAMAGE as error:
        raise ValueError(f"checkpoint {path!r} is truncated or not a .keras file ({_short(error)}).") from error
    if not isinstance(config, dict) or not isinstance(config.get("config"), dict):
        raise ValueError(f"checkpoint {path!r}: its config.json must describe a model, received {str(config)[:80]}.")
    _check_classes(path, config)
    return config, H5File(path, weights)


def _short(error):
    """The innermost reason, shortened: Keras quotes whole configurations and every exception on its way."""
    text = " ".join(str(error).split("Exception encountered:")[-1].split()).removesuffix(".")
    return text if len(text) <= _MAX_REASON else text[:_MAX_REASON] + " ..."


def _walk(config):
    """Yields each dict in a configuration."""
    stack = [config]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            yield value
            stack.extend(value.values())
        elif isinstance(value, list):
            stack.extend(value)


def _ints(value):
    """Every int in nested lists and dicts."""
    stack = [value]
    while stack:
        value = stack.pop()
        stack.extend(value.values() if isinstance(value, dict) else value if isinstance(value, list) else ())
        if isinstance(value, int):
            yield value


def _check_sizes(path, config, file):
    """No layer claims more than the longest axis of the weights, so that nothing huge is built before it is refused."""
    longest = max((side for header in file.headers.values() for side in header.shape), default=1)

    def check(layer, field, value, limit):
        if value > limit:
            raise ValueError(
                f"checkpoint {path!r}: its config.json gives layer {layer.get('name')!r} {field}={value}, and the "
                f"longest axis of its weights is {limit}."
            )

    for part in _walk(config):
        for field in _SIZES:
            for value in _ints(part.get(field)):
                check(part, field, value, longest)
        if part.get("class_name") == "PositionEmbedding" and isinstance(part.get("config"), dict):
            check(part["config"], "grid_size", math.prod(_ints(part["config"].get("grid_size"))), longest)
        for value in _ints(part.get("build_config")):
            check(part.get("config") or {}, "build_config", value, max(longest, _ANY_CHANNELS))


def _check_against_config(path, config, file):
    """Names the arrays that don't fit the model of the configuration, if that can be built and has known arrays."""
    try:
        model = keras.saving.deserialize_keras_object(config, safe_mode=True)
        slots = google_slots(model)
    except Exception:  # the caller says what is wrong with the configuration
        return
    compare(keras_view(file), {slot.key: slot.shape for slot in slots})


def _check_arrays(path, model, file):
    """Keras overlooks arrays that no layer asks for, integers, and numbers that are none."""
    for name, header in file.headers.items():
        if header.dtype.kind != "f":
            raise ValueError(f"checkpoint {path!r}: {name!r} must be floating point, received {header.dtype}.")
        if not all(np.isfinite(block).all() for block in file.blocks(name)):
            raise ValueError(f"checkpoint {path!r}: {name!r} holds values that are not finite.")
    if len(file.headers) != len(model.weights):
        raise ValueError(
            f"checkpoint {path!r} must hold {len(model.weights)} arrays, those of its model {model.name!r}, received "
            f"{len(file.headers)}."
        )


def _facts(path, config):
    """What the configuration says of the encoder blocks."""
    configs = {"EncoderBlock": [], "LayerNorm": []}
    for part in _walk(config):
        if part.get("class_name") in configs and isinstance(part.get("config"), dict):
            configs[part["class_name"]].append(part["config"])
    blocks = configs["EncoderBlock"]
    said = {name: {repr(x.get(name)): x.get(name) for x in blocks} for name in ("activation", "num_heads")}
    epsilons = [x.get("layer_norm_epsilon") for x in blocks] + [x.get("epsilon") for x in configs["LayerNorm"]]
    said["layer_norm_epsilon"] = {repr(epsilon): epsilon for epsilon in epsilons}
    for name, values in said.items():
        if len(values) > 1:
            raise ValueError(
                f"checkpoint {path!r}: the layers of its config.json must have one {name}, received {sorted(values)}."
            )
    return SourceFacts("Keras file", **{name: next(iter(values.values()), None) for name, values in said.items()})


def _check_classes(path, config):
    """Keras imports the module that a configuration names; here only of the packages that belong to a model."""
    for part in _walk(config):
        module, name = part.get("module"), part.get("class_name")
        package, mark, _ = str(part.get("registered_name")).partition(">")
        if mark and package not in TRUSTED:  # found by that name among the process's classes, whatever the module
            module, name = package, part["registered_name"]
        if name == "__lambda__" or (module is not None and str(module).split(".")[0] not in (*TRUSTED, "builtins")):
            raise ValueError(
                f"checkpoint {path!r} names the class {name!r} of {module!r}; only those of {TRUSTED} are loaded."
            )
