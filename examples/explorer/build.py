"""Builds a page with sliders for what a Vision Transformer costs and needs: one HTML file that loads nothing else.

    make explorer        (or: python examples/explorer/build.py --out explorer.html)

Every number on it is calculated by `vitkeras.analysis`, or is one of the paper's tables.
"""

import argparse
import json
import os
import sys
import tempfile

FOLDER = os.path.dirname(os.path.abspath(__file__))
PATCHES = (4, 8, 14, 16, 28, 32, 56)
IMAGES = (224, 384, 512)
MODELS = {"ViT-Ti": "vit_ti16", "ViT-S": "vit_s16", "ViT-B": "vit_b16", "ViT-L": "vit_l16", "ViT-H": "vit_h14"}
PARTS = ("patch", "linear", "attention")


def nearest_side(image, patch):
    """The multiple of the patch nearest to the image's side: at 512 pixels and patches of 14 it is 518, the paper's."""
    return max(1, round(image / patch)) * patch


def model_numbers(variant, image, patch):
    """dict of what a model costs at one image and patch side."""
    from vitkeras.analysis import exported_size, variant_cost

    side = nearest_side(image, patch)
    cost = variant_cost(variant, side, patch_size=patch)
    return {
        "side": side,
        "tokens": (side // patch) ** 2,
        "parameters": cost.parameters,
        "flops": {part: 2 * cost.by_kind[part] for part in PARTS},
        "activations": 4 * cost.activations,
        "fp32": exported_size(cost, "fp32"),
        "int8": exported_size(cost, "int8_dynamic"),
    }


def numbers(models=MODELS, images=IMAGES, patches=PATCHES):
    """Everything that the page shows.

    Args:
        models: dict of title -> key of `vitkeras.models.VARIANTS`, a plain ViT.
        images, patches: sequences of ints, pixels.

    Returns:
        dict, ready for JSON; "costs" is indexed by model, image and patch, in the given orders.
    """
    from vitkeras.analysis import attention_crossing, pretraining_table
    from vitkeras.analysis.published import TABLE_5
    from vitkeras.models import VARIANTS

    return {
        "models": list(models),
        "images": list(images),
        "patches": list(patches),
        "crossings": [attention_crossing(VARIANTS[v].hidden_dim, VARIANTS[v].mlp_dim) for v in models.values()],
        "costs": [[[model_numbers(v, image, p) for p in patches] for image in images] for v in models.values()],
        "sets": [{"name": name, **row} for name, row in TABLE_5.items()],
        "runs": pretraining_table(),
    }


def page(values):
    """Returns the HTML of the page for `numbers()`."""
    parts = {"style": "explorer.css", "script": "explorer.js"}
    with open(os.path.join(FOLDER, "page.html"), encoding="utf-8") as file:
        html = file.read()
    for name, source in parts.items():
        with open(os.path.join(FOLDER, source), encoding="utf-8") as file:
            html = html.replace(f"/* {name} */", file.read().strip())
    # "</script>" inside the data would end it.
    return html.replace('"numbers"', json.dumps(values, separators=(",", ":")).replace("</", "<\\/"))


def main(argv=None):
    """Writes the page; returns the exit code."""
    parse = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parse.add_argument(
        "--out", default="explorer.html", metavar="FILE", help="replaced if there; default: explorer.html"
    )
    out = os.path.abspath(parse.parse_args(argv).out)
    folder = os.path.dirname(out)
    if not os.path.isdir(folder) or os.path.isdir(out):
        print(f"error: --out must be a file in a folder that exists, received {out!r}.", file=sys.stderr)
        return 2
    html = page(numbers())
    with tempfile.TemporaryDirectory(prefix=".explorer-", dir=folder) as aside:
        path = os.path.join(aside, os.path.basename(out))
        with open(path, "w", encoding="utf-8") as file:
            file.write(html)
        os.replace(path, out)
    print(f"{out}: {os.path.getsize(out) / 1000:.0f} kB, opens in any browser")
    return 0


if __name__ == "__main__":
    sys.exit(main())
