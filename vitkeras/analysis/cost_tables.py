"""Tables of costs: tokens against patch size, where parameters lie, pre-training compute.

Legend: N patches, H heads, D hidden dimension, M MLP dimension, P patch.
"""

import math

from vitkeras import layers
from vitkeras.analysis.cost import layer_products
from vitkeras.analysis.published import JFT_IMAGES, TABLE_6
from vitkeras.analysis.variant_cost import variant_cost
from vitkeras.layers.patch_embedding import pair
from vitkeras.models.parts import check_sizes

PATCH_SIZES = (4, 8, 14, 16, 28, 32, 56)  # those that divide 224


def patch_table(image_size=224, patch_sizes=PATCH_SIZES, hidden_dim=768, num_heads=12, mlp_dim=None):
    """Returns how many tokens each patch size makes and what one encoder block costs then (paper section 3.1).

    The class token is left out: N = H W / P ** 2.

    Args:
        image_size: int or (height, width), multiples of every patch size. Default 224.
        patch_sizes: sequence of ints. Default (4, 8, 14, 16, 28, 32, 56).
        hidden_dim, num_heads: ints. Default 768 and 12, those of ViT-B.
        mlp_dim: int. Default None: four times `hidden_dim`.

    Returns:
        List of dicts, one a patch size: "patch_size", "tokens", "patch_values" (numbers of a patch, P * P * 3),
        "linear_macs" and "attention_macs" (multiply-adds of a block), "attention_share" (of the block's), and
        "attention_bytes" (of a block's attention weights in float32).

    Raises:
        ValueError: for a size that isn't a positive int, or an image that isn't a multiple of a patch.

    Example:
        >>> [(row["patch_size"], row["tokens"]) for row in patch_table(patch_sizes=(4, 16))]
        [(4, 3136), (16, 196)]
    """
    height, width = pair(image_size, "image_size")
    mlp_dim = 4 * hidden_dim if mlp_dim is None else mlp_dim
    check_sizes(hidden_dim=hidden_dim, num_heads=num_heads, mlp_dim=mlp_dim)
    block = layers.EncoderBlock(num_heads, mlp_dim)
    rows = []
    for patch in patch_sizes:
        check_sizes(patch_sizes=patch)
        if height % patch or width % patch:
            raise ValueError(f"image_size must be a multiple of every patch size, received {image_size} and {patch}.")
        tokens = height // patch * (width // patch)
        products = layer_products(block, (None, tokens, hidden_dim), (None, tokens, hidden_dim))
        linear, attention = (sum(p.macs for p in products if p.kind == kind) for kind in ("linear", "attention"))
        rows.append(
            {
                "patch_size": patch,
                "tokens": tokens,
                "patch_values": patch * patch * 3,
                "linear_macs": linear,
                "attention_macs": attention,
                "attention_share": attention / (linear + attention),
                "attention_bytes": 4 * num_heads * tokens * tokens,
            }
        )
    return rows


def attention_crossing(hidden_dim, mlp_dim=None):
    """Returns the number of tokens at which the attention's two products cost as much as a block's linear layers.

    2 N^2 D = 4 N D^2 + 2 N D M, so that N = 2 D + M: 6 D where M = 4 D.

    Args:
        hidden_dim: int, D.
        mlp_dim: int, M. Default None: four times `hidden_dim`.

    Raises:
        ValueError: for a size that isn't a positive int.

    Example:
        >>> attention_crossing(768)
        4608
    """
    check_sizes(hidden_dim=hidden_dim, mlp_dim=4 * hidden_dim if mlp_dim is None else mlp_dim)
    return 2 * hidden_dim + (4 * hidden_dim if mlp_dim is None else mlp_dim)


def parameter_table(cost):
    """Returns where a model's parameters lie.

    Args:
        cost: `Cost` of a model of this library, from `flops` or `variant_cost`.

    Returns:
        dict of part -> parameters; the parts are "patch embedding", "class token", "position embedding", "attention",
        "mlp" and "norms" (of the encoder blocks), "convolutions" (a ResNet's, with their norms), "final norm",
        "head" and, for layers of other names, "other". A part without parameters is left out.

    Example:
        >>> from vitkeras.analysis import variant_cost
        >>> parameter_table(variant_cost("vit_b16"))["position embedding"]
        151296
    """
    table = {}
    for layer in cost.layers:
        for name, shape in layer.weights.items():
            part = _part(layer.name, name.split("/"))
            table[part] = table.get(part, 0) + math.prod(shape)
    return table


def _part(layer, weight):
    if layer.startswith("encoder_block"):
        return next((part for part in ("attention", "mlp") if part in weight), "norms")
    if layer.startswith(("conv_root", "gn_root", "block")):
        return "convolutions"
    named = {"encoder_norm": "final norm", "pre_logits": "head", "head": "head"}
    kinds = ("patch_embedding", "class_token", "position_embedding")
    return named.get(layer) or next((kind.replace("_", " ") for kind in kinds if layer.startswith(kind)), "other")


def pretraining_exaflops(cost, epochs, images=JFT_IMAGES):
    """Returns the compute of a pre-training in exaflops, two operations a multiply-add (paper Table 6).

    An image counts three forward passes: the forward one, the gradients of the weights and those of the layers' inputs.
    The first layer is spared the last third, because an image needs no gradient.

    Args:
        cost: `Cost`.
        epochs: number.
        images: int, of the set. Default 303 million, JFT-300M.

    Example:
        >>> from vitkeras.analysis import variant_cost
        >>> round(pretraining_exaflops(variant_cost("vit_b32"), 7), 1)
        55.6
    """
    first = next((sum(layer.macs.values()) for layer in cost.layers if layer.macs), 0)
    return 2 * (3 * cost.macs - first) * images * epochs / 1e18


def pretraining_table():
    """Returns the paper's Table 6 beside the calculation.

    Returns:
        List of dicts, one a row: "name", "family" ("vit", "hybrid" or "resnet"), "variant", "epochs", "exaflops"
        (published), "top1" (percent of ImageNet after fine-tuning) and "calculated" (exaflops, without the head).

    Example:
        >>> row = pretraining_table()[0]
        >>> row["name"], row["exaflops"], round(row["calculated"])
        ('ViT-B/32', 55, 56)
    """
    costs = {variant: variant_cost(variant, classes=None) for variant in {run.variant for run in TABLE_6}}
    return [{**run._asdict(), "calculated": pretraining_exaflops(costs[run.variant], run.epochs)} for run in TABLE_6]
