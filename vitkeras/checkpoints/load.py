"""Strict loading: everything is compared before the first weight changes."""

import warnings

from vitkeras import layers
from vitkeras.checkpoints.check import check_facts, check_halves, check_head, check_schema, check_values
from vitkeras.checkpoints.google import google_slots
from vitkeras.checkpoints.handover import hand_over
from vitkeras.checkpoints.open import open_checkpoint
from vitkeras.checkpoints.positions import PositionResize
from vitkeras.checkpoints.registry import find_source, lower_resolution_file
from vitkeras.checkpoints.sizes import check_same_sizes, read_sizes
from vitkeras.checkpoints.stem import InputFit
from vitkeras.checkpoints.view import HEAD_KEYS, POSITION_KEY


def load_checkpoint(model, path, load_head=True, position_grid=None, input_mean=None, input_std=None):
    """Loads a checkpoint of any known layout into a ViT, a hybrid or a ResNet, strictly.

    Each array of the file must have its weight and each weight its array, in the right shape; only the
    position embedding may differ in size and is then resized as its source does (paper section 3.2: the original's
    align-corners bilinear, timm's and Hugging Face's bicubic; the class-token slot is untouched). A refused file
    leaves the model as it was, and no file can execute code.

    A model whose input has other than 3 channels takes a file for 3: one channel gets the summed kernel, C channels
    get it repeated and multiplied by 3 / C.

    Args:
        model: a model built by `VisionTransformer`, `ResNet` or a variant.
        path: str or path-like: `.npz` (the original's layout, linen and big_vision names, any of their prefixes),
            `.safetensors` (timm, Hugging Face) or the index of its shards, a folder of theirs, `.keras` or
            `.weights.h5`.
        load_head: bool. True (default): `pre_logits` and `head` come from the file if the model has them.
            False: the model keeps its own (zero head), for fine-tuning.
        position_grid: (h, w) or None. The patch grid of the file; needed only where it isn't square.
        input_mean, input_std: float or a sequence of one float a channel, or None. The normalisation
            `(pixel / 255 - mean) / std` that the file was trained with, when it isn't the original's
            -1...1 and no settings file beside it says so. It is folded exactly into the patch embedding, so that the
            model takes -1...1.

    Returns:
        `model`.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: for a truncated, empty or foreign file; for missing, unexpected, wrongly shaped,
            integer or non-finite arrays, each of them named; and for a model whose GELU, LayerNorm epsilon or heads
            contradict the source. The original's layout tells neither GELU nor epsilon.

    Warns:
        UserWarning: if the file's head is all zero, or it was tuned at more pixels than the model takes (the
            published file for the model's size is named, if there is one).

    Example:
        >>> load_checkpoint(model, "ViT-B_16-224.npz")          # doctest: +SKIP
    """
    notes = []
    with open_checkpoint(path) as view:
        load_view(model, view, notes, load_head, position_grid, input_mean, input_std)
    for note in notes:  # last, so that a filter that turns warnings into errors finds a whole model
        warnings.warn(note, stacklevel=2)
    return model


def load_view(model, view, notes, load_head=True, position_grid=None, input_mean=None, input_std=None, same_size=False):
    """Loads an open `CheckpointView` as `load_checkpoint` does; appends what to warn of to `notes`.

    `same_size` says that the model's sizes were read off this file: arrays that don't fit are then damaged.
    """
    if not isinstance(load_head, bool):
        raise ValueError(f"load_head must be True or False, received {load_head!r}.")
    slots = google_slots(model)
    if not load_head:
        slots = [slot for slot in slots if slot.key not in HEAD_KEYS]
    loads_head = any(slot.key == "head/kernel" for slot in slots)
    fit = InputFit(view, slots, input_mean, input_std)
    resize = PositionResize(model, view, position_grid)
    if not same_size:
        check_same_sizes(view, read_sizes({slot.key: slot.shape for slot in slots}))
    check_facts(model, view)
    check_head(model, view, loads_head, slots)
    check_schema(view, slots, loads_head, resize, fit)
    check_halves(view)
    groups = _by_source(view, slots)
    notes += check_values(view, groups)
    for source, members in groups:
        first = view.entries[members[0].key]
        parts = view.read_parts(source, first.parts, _dtype(members), first.is_turned)
        for slot in members:
            hand_over(slot.variable, _numbers(view, slot, next(parts), resize, fit))
    if loads_head and resize.shrinks():
        notes.append(_lower_resolution_note(view.path, model, resize))


def _by_source(view, slots):
    """[(array of the file, its slots in the order of its parts)]: an array that holds several is read once."""
    groups = {}
    for slot in sorted(slots, key=lambda slot: view.entries[slot.key].index):
        groups.setdefault(view.entries[slot.key].source, []).append(slot)
    return list(groups.items())


def _dtype(slots):
    """What an array is read as: as wide as its variables, and at least float32."""
    return "float64" if any(slot.variable.dtype == "float64" for slot in slots) else "float32"


def _numbers(view, slot, array, resize, fit):
    """The numbers of one slot, from its part of the file's array."""
    entry = view.entries[slot.key]
    array = entry.part(array)
    if entry.scale is not None:
        array = array * view.read(entry.scale, array.dtype)
    if slot.key == POSITION_KEY:
        return resize(array)
    if slot.key == fit.key:
        return fit.kernel(array)
    return fit.bias(array) if slot.key == "embedding/bias" else array


def _lower_resolution_note(path, model, resize):
    """The sentence about a file that was tuned at more pixels than the model takes."""
    patch = next(x for x in model.layers if isinstance(x, layers.PatchEmbedding))
    # Pixels between two tokens: the patch's, times the stem's of a hybrid.
    stride = (
        [side // n for side, n in zip(model.input_shape[1:3], resize.layer.grid_size)]
        if (None not in model.input_shape[1:3])
        else patch.patch_size
    )
    tuned, asked = (tuple(n * side for n, side in zip(g, stride)) for g in (resize.old_grid, resize.layer.grid_size))
    head = model.get_layer("head").units
    source = find_source(path, head)
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
