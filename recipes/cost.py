"""What a model costs, by calculation: nothing is trained, run or downloaded.

    python -m recipes.cost --model vit_b16 --image 224       # each layer's parameters, multiply-adds and activations
    python -m recipes.cost --model vit_b16 --table parameters
    python -m recipes.cost --model vit_b16 --table patches   # tokens and the cost of a block for each patch size
    python -m recipes.cost --table pretraining               # the paper's Table 6 beside the calculation

`--json` prints the same numbers for programs.
"""

import argparse
import difflib
import json
import sys

from . import cli

DESCRIPTION = "Print what a model costs, by calculation."
MODEL = "vit_b16"


def main(argv=None):
    """Entry point of `vitkeras-cost`; returns the exit code."""
    return cli.run(_main, argv)


def _main(argv):
    parse = argparse.ArgumentParser(prog=cli.called(sys.argv[0]), description=DESCRIPTION)
    parse.add_argument("--model", metavar="NAME", help=f"a named model (default: {MODEL})")
    parse.add_argument("--image", default="224", metavar="SIDE", help="pixels, or HEIGHTxWIDTH (default: 224)")
    parse.add_argument("--patch", type=int, metavar="P", help="another patch side than the model's own")
    parse.add_argument("--classes", type=int, default=1000, metavar="K", help="width of the head (default: 1000)")
    parse.add_argument("--table", choices=TABLES, default="layers", help="what to print (default: layers)")
    parse.add_argument("--json", action="store_true", help="print JSON")
    parse.add_argument("--debug", action="store_true", help="show the traceback of an error")
    arguments = parse.parse_args(argv)
    if arguments.table == "pretraining" and arguments.model is not None:
        raise ValueError(f"--table pretraining has the models of the paper, received --model {arguments.model}.")
    arguments.model = arguments.model or MODEL
    values, text = TABLES[arguments.table](arguments)
    print(json.dumps(values, indent=1) if arguments.json else text)


def _layers(arguments):
    """(values, text): the layers of the model, and its sums."""
    from vitkeras.analysis import exported_size
    from vitkeras.analysis.summary_table import cost_text

    cost = _cost(arguments)
    sizes = {preset: exported_size(cost, preset) for preset in ("fp32", "int8_dynamic")}
    values = {
        **_named(arguments),
        "parameters": cost.parameters,
        "macs": cost.macs,
        "flops": cost.flops,
        "macs_by_kind": cost.by_kind,
        "activations": cost.activations,
        "exported_bytes": sizes,
        "layers": [
            {"name": x.name, "parameters": x.parameters, "macs": x.macs, "activations": x.activations}
            for x in cost.layers
        ],
    }
    exported = ", ".join(f"{size / 1e6:,.1f} MB as {preset}" for preset, size in sizes.items())
    return values, f"{cost_text(cost, _title(arguments))}\nexported: {exported}"


def _parameters(arguments):
    """(values, text): where the model's parameters lie."""
    from vitkeras.analysis import parameter_table

    cost = _cost(arguments)
    table = parameter_table(cost)
    rows = [("part", "parameters", "share")]
    rows += [(part, f"{n:,}", f"{100 * n / cost.parameters:.2f} %") for part, n in table.items()]
    rows += [("all", f"{cost.parameters:,}", "100.00 %")]
    lines = [_title(arguments), *_align(rows)]
    shares = {
        "in the blocks": ("attention", "mlp", "norms"),
        "specific to images": ("patch embedding", "class token", "position embedding"),
    }
    if "mlp" in table:
        sums = {name: sum(table.get(part, 0) for part in parts) for name, parts in shares.items()}
        lines.append(", ".join(f"{100 * n / cost.parameters:.2f} % {name}" for name, n in sums.items()))
    return {**_named(arguments), "parameters": cost.parameters, "parts": table}, "\n".join(lines)


def _patches(arguments):
    """(values, text): one encoder block of the model at each patch size."""
    from vitkeras.analysis import attention_crossing, patch_table
    from vitkeras.analysis.cost_tables import PATCH_SIZES
    from vitkeras.models import VARIANTS

    _cost(arguments)  # refuses what is no model or size
    row = VARIANTS[arguments.model]
    if not hasattr(row, "hidden_dim"):
        raise ValueError(f"--table patches is for models with encoder blocks, received {arguments.model!r}.")
    height, width = sides = sides_of(arguments.image)
    patches = [p for p in PATCH_SIZES if height % p == width % p == 0]
    table = patch_table(sides, patches, row.hidden_dim, row.num_heads, row.mlp_dim)
    crossing = attention_crossing(row.hidden_dim, row.mlp_dim)
    rows = [("patch", "tokens", "patch values", "linear MMAC", "attention MMAC", "attention share", "attention MB")]
    rows += [
        (
            str(x["patch_size"]),
            f"{x['tokens']:,}",
            f"{x['patch_values']:,}",
            f"{x['linear_macs'] / 1e6:,.1f}",
            f"{x['attention_macs'] / 1e6:,.1f}",
            f"{100 * x['attention_share']:.1f} %",
            f"{x['attention_bytes'] / 1e6:,.2f}",
        )
        for x in table
    ]
    title = f"one block, D = {row.hidden_dim}, image {arguments.image}, without class token"
    side = (height * width / crossing) ** 0.5
    closing = f"attention and linear layers cost the same at {crossing:,} tokens, a patch side of {side:.1f} pixels"
    values = {**_named(arguments), "hidden_dim": row.hidden_dim, "crossing_tokens": crossing, "patches": table}
    return values, "\n".join([title, *_align(rows), closing])


def _pretraining(arguments):
    """(values, text): the paper's Table 6."""
    from vitkeras.analysis import pretraining_table

    table = pretraining_table()
    rows = [("model", "epochs", "exaFLOPs, paper", "calculated", "difference", "ImageNet top-1")]
    rows += [
        (
            x["name"],
            str(x["epochs"]),
            f"{x['exaflops']:,}",
            f"{x['calculated']:,.1f}",
            f"{round(100 * (x['calculated'] / x['exaflops'] - 1), 1) + 0.0:+.1f} %",  # no -0.0
            f"{x['top1']:.2f}",
        )
        for x in table
    ]
    return {"pretraining": table}, "\n".join(["paper Table 6, JFT-300M at 224 pixels", *_align(rows)])


TABLES = {"layers": _layers, "parameters": _parameters, "patches": _patches, "pretraining": _pretraining}


def _cost(arguments):
    from vitkeras.analysis import variant_cost
    from vitkeras.models import VARIANTS

    if arguments.model not in VARIANTS:
        nearest = difflib.get_close_matches(arguments.model, VARIANTS, n=3, cutoff=0)
        known = ", ".join(VARIANTS)
        raise ValueError(
            f"--model must be one of {known}, received {arguments.model!r}; nearest: {', '.join(nearest)}."
        )
    return variant_cost(arguments.model, sides_of(arguments.image), arguments.classes, arguments.patch)


def sides_of(text, option="--image"):
    """(height, width) of "224" or "224x320"; `option` is what an error calls it."""
    parts = text.split("x")
    if len(parts) > 2 or not all(part.isdecimal() and int(part) for part in parts):
        raise ValueError(f"{option} must be pixels or HEIGHTxWIDTH, such as 224 or 224x320, received {text!r}.")
    return int(parts[0]), int(parts[-1])


def _named(arguments):
    return {"model": arguments.model, "image_size": sides_of(arguments.image), "classes": arguments.classes}


def _title(arguments):
    patch = "" if arguments.patch is None else f", patch {arguments.patch}"
    return f"{arguments.model}, image {arguments.image}{patch}, {arguments.classes:,} classes"


def _align(rows):
    from vitkeras.analysis.summary_table import align

    return align(rows)


if __name__ == "__main__":
    sys.exit(main())
