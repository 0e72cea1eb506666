"""Strict loading: everything is compared before the first weight changes."""

import math
import os
import warnings

import keras
import numpy as np

from vitkeras import layers
from vitkeras.checkpoints.google import POSITION_KEY, google_slots
from vitkeras.checkpoints.npz import NpzFile
from vitkeras.checkpoints.registry import find_source, lower_resolution_file
from vitkeras.layers.patch_embedding import pair
from vitkeras.layers.position_embedding import resize_position_embedding

HEAD_KEYS = ("pre_logits/kernel", "pre_logits/bias", "head/kernel", "head/bias")


def load_checkpoint(model, path, load_head=True, position_grid=None, input_mean=None, input_std=None):
    """Loads a file of the original `.npz` layout into a plain ViT, strictly.

    Each array of the file must have its weight and each weight its array, in the right shape; only the
    position embedding may differ in size and is then resized as the original does (paper section 3.2:
    align-corners bilinear, class-token slot untouched). A refused file leaves the model as it was.

    Args:
        model: a model built by `VisionTransformer` or a variant.
        path: str or path-like, an `.npz` file with float arrays; it is read without pickle.
        load_head: bool. True (default): `pre_logits` and `head` come from the file if the model has them.
            False: the model keeps its own (zero head), for fine-tuning.
        position_grid: (h, w) or None. The patch grid of the file; needed only where it isn't square.
        input_mean, input_std: float or a sequence of one float a channel, or None. The normalisation
            `(pixel / 255 - mean) / std` that the file was trained with, when it isn't the original's
            -1...1. It is folded exactly into the patch embedding, so that the model takes -1...1.

    Returns:
        `model`.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: for a truncated, empty or foreign file, and for missing, unexpected, wrongly shaped,
            integer or non-finite arrays, each of them named.

    Warns:
        UserWarning: if the file's head is all zero, or it was tuned at more pixels than the model takes (the
            published file for the model's size is named, if there is one).

    Example:
        >>> load_checkpoint(model, "ViT-B_16-224.npz")          # doctest: +SKIP
    """
    path = os.fspath(path)
    if not path.endswith(".npz"):
        raise ValueError(f"checkpoint must be an .npz file of the original layout, received {path!r}.")
    if (input_mean is None) != (input_std is None):
        raise ValueError(f"input_mean and input_std go together, received {input_mean} and {input_std}.")
    slots = google_slots(model)
    normalisation = None if input_mean is None else _Normalisation(model, input_mean, input_std)
    if not load_head:
        slots = [slot for slot in slots if slot.key not in HEAD_KEYS]
    loads_head = any(slot.key == "head/kernel" for slot in slots)
    with NpzFile(path) as file:
        resize = _PositionResize(model, file, position_grid)
        _check_head(model, file, loads_head)
        _check_schema(file, slots, loads_head, resize)
        notes = _check_values(file, slots)
        for slot in slots:
            array = file.read(slot.key)
            if slot.key == POSITION_KEY:
                array = resize(array)
            slot.variable.assign(array.reshape(slot.variable.shape))
            del array  # before the next is read: one array in memory at a time
    if normalisation is not None:
        normalisation.fold()
    if loads_head and resize.shrinks():
        notes.append(_lower_resolution_note(path, model, resize))
    for note in notes:  # last, so that a filter that turns warnings into errors finds a whole model
        warnings.warn(note, stacklevel=2)
    return model


class _PositionResize:
    """Decides from the headers whether the position embedding is resized, and does it.

    Attributes:
        old_grid: (h, w) of the file, or None if there is nothing to resize.
        fault: str, why the file's grid can't be told, or None.
    """

    def __init__(self, model, file, position_grid):
        self.layer = next((x for x in model.layers if isinstance(x, layers.PositionEmbedding)), None)
        self.old_grid = self.fault = None
        if position_grid is not None:
            position_grid = pair(position_grid, "position_grid")
        header = file.headers.get(POSITION_KEY)
        if self.layer is None or header is None or len(header.shape) != 3:
            return
        count = header.shape[1] - self.layer.num_prefix_tokens
        side = math.isqrt(max(count, 0))
        new_grid = self.layer.grid_size
        same_count = count == new_grid[0] * new_grid[1]
        if position_grid is not None:
            self.old_grid = position_grid
            if position_grid[0] * position_grid[1] != count:
                self.fault = f"position_grid must hold the {count} positions of the file, received {position_grid}"
        elif same_count and (side * side != count or new_grid[0] == new_grid[1]):
            self.old_grid = new_grid
        elif side * side == count and count and not same_count:
            self.old_grid = (side, side)
        else:
            self.fault = (
                f"{POSITION_KEY!r} holds {count} positions, which may form more than one grid while the model's is "
                f"{new_grid}: pass position_grid=(h, w) for the file's"
            )

    def file_shape(self, shape):
        """The shape that the file may have for a model whose embedding has `shape`."""
        if self.old_grid is None:
            return shape
        return (1, self.layer.num_prefix_tokens + self.old_grid[0] * self.old_grid[1], shape[-1])

    def shrinks(self):
        """Whether the file's grid is larger than the model's."""
        return self.old_grid is not None and math.prod(self.old_grid) > math.prod(self.layer.grid_size)

    def __call__(self, array):
        return resize_position_embedding(array, self.old_grid, self.layer.grid_size, self.layer.num_prefix_tokens)


def _check_head(model, file, loads_head):
    """Contradictions about the head, said in the user's terms."""
    header = file.headers.get("head/kernel")
    if not loads_head:
        return
    classes = model.get_layer("head").units
    if header is None:
        raise ValueError(
            f"checkpoint {file.path!r} has no head; use include_top=False, or load_checkpoint(..., load_head=False)."
        )
    if len(header.shape) == 2 and header.shape[1] != classes:
        raise ValueError(
            f"classes must be {header.shape[1]}, the head of checkpoint {file.path!r}, received {classes}; for another "
            "number load with include_top=False or load_head=False, or use vitkeras.with_new_head afterwards."
        )
    representation = file.headers.get("pre_logits/kernel")
    known = representation is not None and len(representation.shape) == 2
    if known and not any(layer.name == "pre_logits" for layer in model.layers):
        raise ValueError(
            f"checkpoint {file.path!r} has pre_logits before its head: build with "
            f"representation_size={representation.shape[1]} to keep it, or drop both with include_top=False or "
            "load_head=False."
        )


def _check_schema(file, slots, loads_head, resize):
    """Names every missing, unexpected, wrongly shaped or non-float array in one error."""
    wanted = {slot.key: slot for slot in slots}
    missing = [key for key in wanted if key not in file.headers]
    ignored = () if loads_head else HEAD_KEYS
    unexpected = [key for key in file.headers if key not in wanted and key not in ignored]
    faults = [f"missing {key!r}" for key in missing] + [f"unexpected {key!r}" for key in unexpected]
    for key in wanted:
        if key in file.headers:
            header, shape = file.headers[key], wanted[key].shape
            shape = resize.file_shape(shape) if key == POSITION_KEY else shape
            if key == POSITION_KEY and resize.fault:
                faults.append(resize.fault)
            elif header.shape != shape:
                faults.append(f"{key!r} must have shape {shape}, received {header.shape}")
            elif header.dtype.kind != "f":
                faults.append(f"{key!r} must be floating point, received {header.dtype}")
    _refuse(file, faults)


def _check_values(file, slots):
    """Reads each array once, so that a bad one is found before the first weight changes; returns what to warn of."""
    faults, notes = [], []
    for slot in slots:
        array = file.read(slot.key)
        if not np.isfinite([array.min(), array.max()]).all():  # no copy of the array, as isfinite(array) would make
            faults.append(f"{slot.key!r} holds values that are not finite")
        if slot.key == "head/kernel" and not array.any():
            notes.append(
                f"checkpoint {file.path!r} has an all-zero head: every class gets the same score. "
                "Use include_top=False, or vitkeras.with_new_head and fine-tune."
            )
        del array
    _refuse(file, faults)
    return notes


def _refuse(file, faults):
    if faults:
        count = f"{len(faults)} fault{'s' if len(faults) > 1 else ''}"
        raise ValueError(f"checkpoint {file.path!r} does not fit the model ({count}): {'; '.join(faults)}.")


def _lower_resolution_note(path, model, resize):
    """The sentence about a file that was tuned at more pixels than the model takes."""
    patch = next(x for x in model.layers if isinstance(x, layers.PatchEmbedding)).patch_size
    tuned, asked = (tuple(n * side for n, side in zip(g, patch)) for g in (resize.old_grid, resize.layer.grid_size))
    source = find_source(path, model.get_layer("head").units)
    fitting = source and lower_resolution_file(source, min(asked))
    advice = (
        f"The published file for this size is weights={fitting.name!r}"
        if fitting
        else "No file for this size is known: load it at its own, then use vitkeras.at_resolution and fine-tune"
    )
    return (
        f"checkpoint {path!r} was tuned at {tuned[0]}x{tuned[1]} pixels and is loaded at {asked[0]}x{asked[1]}; the "
        f"original's ImageNet top-1 falls by about 9.5 points that way (384 to 224). {advice}."
    )


class _Normalisation:
    """Rewrites the patch embedding from `(pixel / 255 - mean) / std` inputs to -1...1 inputs.

    `pixel / 255 = (x + 1) / 2`, and a patch embedding has no padding, so the fold is exact.
    """

    def __init__(self, model, mean, std):
        self.projection = next(x for x in model.layers if isinstance(x, layers.PatchEmbedding)).projection
        channels = self.projection.kernel.shape[2]
        self.mean, self.std = (self._per_channel(v, n, channels) for v, n in ((mean, "mean"), (std, "std")))
        if not (self.std > 0).all():
            raise ValueError(f"input_std must be positive, received {self.std.tolist()}.")

    @staticmethod
    def _per_channel(value, name, channels):
        array = np.asarray(value, "float64")
        if array.shape not in ((), (1,), (channels,)) or not np.isfinite(array).all():
            raise ValueError(
                f"input_{name} must be one finite float, or one for each of {channels} channels, received {value}."
            )
        return np.broadcast_to(array, (channels,))

    def fold(self):
        kernel = keras.ops.convert_to_numpy(self.projection.kernel).astype("float64")  # (P, P, C, D)
        bias = keras.ops.convert_to_numpy(self.projection.bias).astype("float64")
        scale, shift = 0.5 / self.std, (0.5 - self.mean) / self.std
        bias += np.einsum("ijcd,c->d", kernel, shift)
        self.projection.kernel.assign((kernel * scale[:, None]).astype("float32"))
        self.projection.bias.assign(bias.astype("float32"))
