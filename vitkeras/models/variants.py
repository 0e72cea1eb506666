"""The named models: one table (paper Table 1, and the AugReg sizes), one function each."""

import difflib
import inspect
from dataclasses import dataclass

from vitkeras.models.vit import VisionTransformer
from vitkeras.models.weights import find_weights, load_weights


@dataclass(frozen=True)
class Variant:
    """A row of the table of sizes."""

    patch_size: int
    num_layers: int
    hidden_dim: int
    num_heads: int
    mlp_dim: int
    dropout_rate: float = 0.0


# Paper Table 1 gives B, L and H; Ti and S are those of AugReg (arXiv 2106.10270). The dropout rates are
# the original's model configurations.
VARIANTS = {
    "vit_ti16": Variant(16, 12, 192, 3, 768),
    "vit_s16": Variant(16, 12, 384, 6, 1536),
    "vit_s32": Variant(32, 12, 384, 6, 1536),
    "vit_b8": Variant(8, 12, 768, 12, 3072),
    "vit_b16": Variant(16, 12, 768, 12, 3072),
    "vit_b32": Variant(32, 12, 768, 12, 3072),
    "vit_l16": Variant(16, 24, 1024, 16, 4096, dropout_rate=0.1),
    "vit_l32": Variant(32, 24, 1024, 16, 4096),
    "vit_h14": Variant(14, 32, 1280, 16, 5120, dropout_rate=0.1),
}

_PARAMETERS = inspect.signature(VisionTransformer).parameters


def build_variant(
    variant,
    include_top=True,
    weights=None,
    input_tensor=None,
    input_shape=None,
    pooling=None,
    classes=1000,
    classifier_activation="softmax",
    name=None,
    **overrides,
):
    """Builds a row of `VARIANTS`; the named functions below call it.

    Args:
        variant: str, key of `VARIANTS`.
        include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation, name:
            as in `ViTB16`.
        **overrides: any other argument of `VisionTransformer`, replacing the variant's own.

    Returns:
        A `keras.Model`.

    Raises:
        ValueError: for an unknown variant or weights name (the nearest are given), or `classes` that
            contradict the weights.
        TypeError: for an argument that `VisionTransformer` does not have.
    """
    if variant not in VARIANTS:
        nearest = difflib.get_close_matches(str(variant), VARIANTS, n=3, cutoff=0) or list(VARIANTS)
        raise ValueError(f"variant must be one of {tuple(VARIANTS)}, received {variant!r}; nearest: {nearest}.")
    for argument in overrides:
        if argument not in _PARAMETERS:
            nearest = difflib.get_close_matches(argument, _PARAMETERS, n=1, cutoff=0)
            raise TypeError(f"{variant} has no argument {argument!r}; nearest: {nearest[0]!r}.")
    if input_tensor is not None and input_shape is None:
        input_shape = tuple(input_tensor.shape[1:])
    published = None
    if weights is not None:
        published = find_weights(weights, variant, input_shape[0] if input_shape else None)
    if published is not None:
        input_shape = input_shape or (published.image_size, published.image_size, 3)
        if include_top and classes != published.classes:
            raise ValueError(
                f"classes must be {published.classes}, the head of weights={published.name!r}, received {classes}; "
                "for another number use include_top=False, or vitkeras.with_new_head on the loaded model."
            )
        if include_top and published.has_pre_logits:
            overrides.setdefault("representation_size", VARIANTS[variant].hidden_dim)
    model = VisionTransformer(
        input_shape or (224, 224, 3),
        include_top=include_top,
        classes=classes,
        classifier_activation=classifier_activation,
        pooling=pooling,
        input_tensor=input_tensor,
        name=name or variant,
        **{**vars(VARIANTS[variant]), **overrides},
    )
    if weights is not None:
        load_weights(model, published or weights, include_top)
    return model


def _variant_function(function_name, variant, title, default_weights):
    def function(
        include_top=True,
        weights=default_weights,
        input_tensor=None,
        input_shape=None,
        pooling=None,
        classes=1000,
        classifier_activation="softmax",
        name=variant,
        **kwargs,
    ):
        return build_variant(
            variant,
            include_top,
            weights,
            input_tensor,
            input_shape,
            pooling,
            classes,
            classifier_activation,
            name,
            **kwargs,
        )

    row = VARIANTS[variant]
    function.__name__ = function.__qualname__ = function_name
    function.__doc__ = f"""Builds {title}: {row.num_layers} layers, hidden size {row.hidden_dim}, {row.num_heads} heads.

    The sizes are those of paper Table 1, Ti and S those of AugReg (arXiv 2106.10270). Images are expected
    as -1...1: `vitkeras.preprocess_input` makes them from 0...255.

    Args:
        include_top: bool, whether the classification head is built. Default True.
        weights: None (random), a published name (`"imagenet21k+imagenet2012"`, `"imagenet21k"`, `"augreg"`, or one
            file such as `"imagenet21k+imagenet2012/ViT-B_16-224"`), the path or the address of an `.npz` file of
            the original layout. Default {default_weights!r}.
        input_tensor: optional Keras tensor to build on.
        input_shape: (height, width, channels), multiples of the patch size {row.patch_size}. Default None: the
            resolution of the published file, the lowest if there are several; 224 x 224 otherwise.
        pooling: with `include_top=False`: None (all tokens, default), "token", "avg" or "max".
        classes: int, width of the head. Default 1000.
        classifier_activation: "softmax" (default), or None for logits.
        name: str, the model's name.
        **kwargs: any other argument of `VisionTransformer`, such as `dropout_rate` or `activation`.

    Returns:
        A functional `keras.Model`.

    Raises:
        ValueError: for arguments outside their range, unknown weights (the nearest names are given), or `classes`
            that contradict the file.
        ConnectionError: if published weights are neither cached nor reachable.

    Example:
        >>> shape = ({2 * row.patch_size}, {3 * row.patch_size}, 3)
        >>> {function_name}(weights=None, input_shape=shape, classes=7).output_shape
        (None, 7)
    """
    return function


ViTTi16 = _variant_function("ViTTi16", "vit_ti16", "ViT-Ti/16", "augreg")
ViTS16 = _variant_function("ViTS16", "vit_s16", "ViT-S/16", "augreg")
ViTS32 = _variant_function("ViTS32", "vit_s32", "ViT-S/32", "augreg")
ViTB8 = _variant_function("ViTB8", "vit_b8", "ViT-B/8", "imagenet21k+imagenet2012")
ViTB16 = _variant_function("ViTB16", "vit_b16", "ViT-B/16", "imagenet21k+imagenet2012")
ViTB32 = _variant_function("ViTB32", "vit_b32", "ViT-B/32", "imagenet21k+imagenet2012")
ViTL16 = _variant_function("ViTL16", "vit_l16", "ViT-L/16", "imagenet21k+imagenet2012")
ViTL32 = _variant_function("ViTL32", "vit_l32", "ViT-L/32", "imagenet21k+imagenet2012")
ViTH14 = _variant_function("ViTH14", "vit_h14", "ViT-H/14", "imagenet21k")
