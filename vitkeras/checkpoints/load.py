"""Strict loading: everything is compared before the first weight changes."""

import os
import warnings

import numpy as np

from vitkeras import layers
from vitkeras.checkpoints.google import POSITION_KEY, google_slots
from vitkeras.checkpoints.npz import NpzFile
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
        ValueError: for a truncated, empty or foreign file, and for missing, unexpected or wrongly shaped
            arrays, each of them named.

    Example:
        >>> load_checkpoint(model, "ViT-B_16-224.npz")          # doctest: +SKIP
    """
    path = os.fspath(path)
    if not path.endswith(".npz"):
        raise ValueError(f"checkpoint must be an .npz file of the original layout, received {path!r}.")
    if (input_mean is None) != (input_std is None):
        raise ValueError(f"input_mean and input_std go together, received {input_mean} and {input_std}.")
    slots = google_slots(model)
    if not load_head:
        slots = [slot for slot in slots if slot.key not in HEAD_KEYS]
    loads_head = any(slot.key == "head/kernel" for slot in slots)
    with NpzFile(path) as file:
        resize = _PositionResize(model, file, position_grid)
        _check_head(model, file, loads_head)
        _check_schema(file, slots, loads_head, resize)
        file.verify()
        for slot in slots:
            array = file.read(slot.key)
            if slot.key == POSITION_KEY:
                array = resize(array)
            slot.variable.assign(array.reshape(slot.variable.shape))
            if slot.key == "head/kernel" and not array.any():
                warnings.warn(
                    f"checkpoint {path!r} has an all-zero head: every class gets the same score. "
                    "Use include_top=False, or vitkeras.with_new_head and fine-tune.",
                    stacklevel=2,
                )
    if input_mean is not None:
        _fold_normalisation(model, input_mean, input_std)
    return model


class _PositionResize:
    """Decides from the headers whether the position embedding is resized, and does it."""

    def __init__(self, model, file, position_grid):
        self.layer = next((x for x in model.layers if isinstance(x, layers.PositionEmbedding)), None)
        self.old_grid = None
        header = file.headers.get(POSITION_KEY)
        if self.layer is None or header is None or len(header.shape) != 3:
            return
        count = header.shape[1] - self.layer.num_prefix_tokens
        side = int(np.sqrt(max(count, 0)) + 0.5)
        new_grid = self.layer.grid_size
        if position_grid is not None:
            self.old_grid = tuple(position_grid)
        elif count == new_grid[0] * new_grid[1] and (side * side != count or new_grid[0] == new_grid[1]):
            self.old_grid = new_grid
        elif side * side == count and count != new_grid[0] * new_grid[1]:
            self.old_grid = (side, side)
        else:
            raise ValueError(
                f"checkpoint {file.path!r}: its {count} positions may form more than one grid, the model's is "
                f"{new_grid}; pass position_grid=(h, w) for the file's."
            )
        if self.old_grid[0] * self.old_grid[1] != count:
            raise ValueError(
                f"checkpoint {file.path!r}: position_grid must hold {count} positions, received {position_grid}."
            )

    def file_shape(self, shape):
        """The shape that the file may have for a model whose embedding has `shape`."""
        if self.old_grid is None:
            return shape
        return (1, self.layer.num_prefix_tokens + self.old_grid[0] * self.old_grid[1], shape[-1])

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
    if header.shape[-1] != classes:
        raise ValueError(
            f"classes must be {header.shape[-1]}, the head of checkpoint {file.path!r}, received {classes}; for another "
            "number load with include_top=False or load_head=False, or use vitkeras.with_new_head afterwards."
        )
    representation = file.headers.get("pre_logits/kernel")
    if representation is not None and not any(layer.name == "pre_logits" for layer in model.layers):
        raise ValueError(
            f"checkpoint {file.path!r} has pre_logits before its head: build with "
            f"representation_size={representation.shape[-1]} to keep it, or drop both with include_top=False or "
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
            if header.shape != shape:
                faults.append(f"{key!r} must have shape {shape}, received {header.shape}")
            elif header.dtype.kind != "f":
                faults.append(f"{key!r} must be floating point, received {header.dtype}")
    if faults:
        raise ValueError(f"checkpoint {file.path!r} does not fit the model ({len(faults)} faults): {'; '.join(faults)}.")


def _fold_normalisation(model, mean, std):
    """Rewrites the patch embedding from `(pixel / 255 - mean) / std` inputs to -1...1 inputs.

    `pixel / 255 = (x + 1) / 2`, and a patch embedding has no padding, so the fold is exact.
    """
    projection = next(x for x in model.layers if isinstance(x, layers.PatchEmbedding)).projection
    kernel = np.asarray(projection.kernel, "float64")  # (P, P, C, D)
    channels = kernel.shape[2]
    mean, std = (np.broadcast_to(np.asarray(v, "float64"), (channels,)) for v in (mean, std))
    if not (std > 0).all():
        raise ValueError(f"input_std must be positive, received {std.tolist()}.")
    scale, shift = 0.5 / std, (0.5 - mean) / std
    bias = np.asarray(projection.bias, "float64") + np.einsum("ijcd,c->d", kernel, shift)
    projection.kernel.assign((kernel * scale[:, None]).astype("float32"))
    projection.bias.assign(bias.astype("float32"))
