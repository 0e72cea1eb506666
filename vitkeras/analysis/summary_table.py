"""A model's cost as a table for people."""

import itertools
import re

from vitkeras.analysis.cost import flops

HEADINGS = ("layer", "output", "parameters", "mega-MAC", "share", "activations")


def summary(model, print_fn=print):
    """Prints what each layer of a model costs for one image: parameters, multiply-adds and activations.

    Layers in a row that cost the same share a line; layers without parameters and products are left out.

    Args:
        model: as in `flops`.
        print_fn: function of a str. Default `print`.

    Raises:
        ValueError: as `flops`.

    Example:
        >>> import vitkeras
        >>> model = vitkeras.VisionTransformer((224, 224, 3), 16, 2, 48, 3, 96, classes=7, name="small")
        >>> summary(model)  # doctest: +ELLIPSIS +NORMALIZE_WHITESPACE
        small
        layer                    output        parameters  mega-MAC    share  activations
        patch_embedding          14 x 14 x 48      36,912     7.225   32.9 %        9,408
        ...
    """
    print_fn(cost_text(flops(model), model.name))


def cost_text(cost, title):
    """Returns the table of a `Cost` under a title, as `summary` prints it."""
    return "\n".join([title, *align([HEADINGS, *cost_rows(cost)], left=2), cost_sums(cost)])


def cost_rows(cost):
    """Returns the table's lines under `HEADINGS`: tuples of str, the last one the whole model's."""
    rows = []
    shown = [layer for layer in cost.layers if layer.parameters or layer.macs]
    for _, group in itertools.groupby(shown, _alike):
        group = list(group)
        first, last = group[0].name, group[-1].name
        name = first if len(group) == 1 else f"{first} ... {re.search('[0-9]*$', last)[0]}"
        macs = sum(sum(layer.macs.values()) for layer in group)
        rows.append(
            (
                name,
                " x ".join(map(str, group[0].output)),
                f"{sum(layer.parameters for layer in group):,}",
                f"{macs / 1e6:,.3f}",
                f"{100 * macs / max(cost.macs, 1):.1f} %",
                f"{sum(layer.activations for layer in group):,}",
            )
        )
    rows.append(("all", "", f"{cost.parameters:,}", f"{cost.macs / 1e6:,.3f}", "100.0 %", f"{cost.activations:,}"))
    return rows


def cost_sums(cost):
    """Returns the line under the table: operations by kind, and memory."""
    kinds = [f"{kind} {100 * macs / max(cost.macs, 1):.1f} %" for kind, macs in cost.by_kind.items() if macs]
    closing = f"{cost.flops / 1e9:,.2f} GFLOP an image: {', '.join(kinds)}"
    memory = f"{4 * cost.activations / 1e6:,.1f} MB of activations in float32"
    return f"{closing}; {memory}"


def align(rows, left=1):
    """Returns lines of a table, all columns but the first `left` flush right."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return [
        "  ".join(f"{cell:{'<' if i < left else '>'}{w}s}" for i, (cell, w) in enumerate(zip(row, widths))).rstrip()
        for row in rows
    ]


def _alike(layer):
    """Equal for layers that share a line: one name but for the number at its end, and one cost."""
    return re.sub("[0-9]+$", "", layer.name), layer.parameters, tuple(layer.macs.items()), layer.output
