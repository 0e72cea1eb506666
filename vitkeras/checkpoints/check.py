"""Everything that is compared between a checkpoint and a model before the first weight changes."""

import numpy as np

from vitkeras import layers
from vitkeras.checkpoints.view import HEAD_KEYS, POSITION_KEY

LARGEST = float(np.finfo("float32").max)
MAX_FAULTS = 20  # that one message names


def check_facts(model, view):
    """Refuses a model whose GELU, epsilon or heads contradict what the source says of itself."""
    facts = view.facts
    blocks = [layer for layer in model.layers if isinstance(layer, layers.EncoderBlock)]
    norms = [layer.epsilon for layer in model.layers if isinstance(layer, layers.LayerNorm)]
    found = {
        "activation": (facts.activation, [block.activation for block in blocks]),
        "layer_norm_epsilon": (facts.layer_norm_epsilon, [block.layer_norm_epsilon for block in blocks] + norms),
        "num_heads": (facts.num_heads, [block.num_heads for block in blocks]),
    }
    for argument, (expected, values) in found.items():
        wrong = [value for value in values if value != expected]
        if expected is not None and wrong:
            raise ValueError(
                f"{argument} must be {expected!r}, that of checkpoint {view.path!r} ({facts.source}), received "
                f"{wrong[0]!r}."
            )


def check_head(model, view, loads_head, slots):
    """Contradictions about the head, said in the user's terms; what is simply damaged is left to `check_schema`."""
    entry = view.entries.get("head/kernel")
    others = {slot.key for slot in slots}.difference(HEAD_KEYS)
    if not loads_head or others - set(view.entries) or (entry is None) != ("head/bias" not in view.entries):
        return
    classes = model.get_layer("head").units
    if entry is None:
        raise ValueError(
            f"checkpoint {view.path!r} has no head; use include_top=False, or load_checkpoint(..., load_head=False)."
        )
    if len(entry.shape) == 2 and entry.shape[1] != classes and view.entries["head/bias"].shape == entry.shape[1:]:
        raise ValueError(
            f"classes must be {entry.shape[1]}, the head of checkpoint {view.path!r}, received {classes}; for another "
            "number load with include_top=False or load_head=False, or use vitkeras.with_new_head afterwards."
        )
    representation = view.entries.get("pre_logits/kernel")
    known = representation is not None and len(representation.shape) == 2
    if known and not any(layer.name == "pre_logits" for layer in model.layers):
        raise ValueError(
            f"checkpoint {view.path!r} has pre_logits before its head: build with "
            f"representation_size={representation.shape[1]} to keep it, or drop both with include_top=False or "
            "load_head=False."
        )


def check_halves(view):
    """A head that the model doesn't take must be whole all the same: half of one is a damaged file."""
    for layer in ("pre_logits", "head"):
        missing = [part for part in ("kernel", "bias") if f"{layer}/{part}" not in view.entries]
        if len(missing) == 1:
            refuse(view, [f"missing {view.name(f'{layer}/{missing[0]}')!r}"])


def check_schema(view, slots, loads_head, resize, fit):
    """Names every missing, unexpected, wrongly shaped or non-float array in one error, as the file calls it."""
    wanted = {slot.key: slot.shape for slot in slots}
    if POSITION_KEY in wanted:
        wanted[POSITION_KEY] = resize.file_shape(wanted[POSITION_KEY])
    if fit.key is not None:
        wanted[fit.key] = fit.file_shape(wanted[fit.key])
    compare(view, wanted, () if loads_head else HEAD_KEYS, resize.fault)


def compare(view, wanted, ignored=(), grid_fault=None):
    """Refuses a view unless it has just the arrays of `wanted`.

    Args:
        view: `CheckpointView`.
        wanted: dict of the original's array name -> shape.
        ignored: names that the file may have besides.
        grid_fault: str or None, what is wrong with the position embedding instead of its shape.
    """
    faults = [f"missing {view.name(key)!r}" for key in wanted if key not in view.entries]
    faults += [f"unexpected {e.name!r}" for key, e in view.entries.items() if key not in wanted and key not in ignored]
    for key, shape in wanted.items():
        if key in view.entries:
            faults += _array_faults(view, view.entries[key], shape, grid_fault if key == POSITION_KEY else None)
    refuse(view, faults)


def _array_faults(view, entry, shape, grid_fault):
    expected = entry.expected(shape)
    if grid_fault:
        yield grid_fault
    elif entry.file_shape != expected:
        yield f"{entry.source!r} must have shape {expected}, received {entry.file_shape}"
    elif entry.dtype.kind != "f":
        yield f"{entry.source!r} must be floating point, received {entry.dtype}"
    if entry.scale is not None:
        scale, width = view.header(entry.scale), (shape[-1],)
        if scale.shape != width:
            yield f"{entry.scale!r} must have shape {width}, received {scale.shape}"
        elif scale.dtype.kind != "f":
            yield f"{entry.scale!r} must be floating point, received {scale.dtype}"


def check_values(view, groups):
    """Reads each array once, so that a bad one is found before the first weight changes; returns what to warn of.

    Only one block of an array is in memory at a time.
    """
    faults, notes = [], []
    for source, slots in groups:
        is_finite, is_zero = _survey(view, source)
        if not is_finite:
            faults.append(f"{source!r} holds values that are not finite")
        for slot in slots:
            entry = view.entries[slot.key]
            if slot.key == "head/kernel" and is_zero:
                notes.append(
                    f"checkpoint {view.path!r} has an all-zero head: every class gets the same score. "
                    "Use include_top=False, or vitkeras.with_new_head and fine-tune."
                )
            if entry.scale is not None and not _survey(view, entry.scale)[0]:
                faults.append(f"{entry.scale!r} holds values that are not finite")
    refuse(view, faults)
    return notes


def _survey(view, source):
    """(whether float32 holds each value, whether all are zero); by the extremes, without isfinite's own copy."""
    is_finite = is_zero = True
    for block in view.blocks(source):
        extremes = float(block.min()), float(block.max())
        is_finite &= all(abs(value) <= LARGEST for value in extremes)
        is_zero &= extremes == (0, 0)
    return is_finite, is_zero


def refuse(view, faults):
    """Raises the one error that names the `faults`, if there are any."""
    faults = list(dict.fromkeys(faults))  # the parts of one array have their fault in common
    if faults:
        count = f"{len(faults)} fault{'s' if len(faults) > 1 else ''}"
        rest = [f"and {len(faults) - MAX_FAULTS} more"] if len(faults) > MAX_FAULTS else []
        raise ValueError(
            f"checkpoint {view.path!r} does not fit the model ({count}): {'; '.join(faults[:MAX_FAULTS] + rest)}."
        )
