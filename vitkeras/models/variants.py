"""The named models: one table (paper Table 1, and the AugReg sizes), one function each."""

import difflib
import inspect
from dataclasses import dataclass

from vitkeras.checkpoints.sizes import Sizes
from vitkeras.layers.residual_unit import body_stride
from vitkeras.models.axial import AxialViT, check_no_weights
from vitkeras.models.parts import check_image
from vitkeras.models.resnet import ResNet
from vitkeras.models.vit import DEFAULT_IMAGE_SIZE, VisionTransformer
from vitkeras.models.weights import find_weights, plan_weights


@dataclass(frozen=True)
class Variant:
    """A row of the table of sizes: a ViT, plain or hybrid."""

    builder = staticmethod(VisionTransformer)

    def sizes(self, overrides):
        """The `Sizes` of the row with other arguments."""
        own = {**vars(self), **overrides}
        return Sizes(*(own[key] for key in ("num_layers", "hidden_dim", "mlp_dim", "stem_blocks")))

    patch_size: int
    num_layers: int
    hidden_dim: int
    num_heads: int
    mlp_dim: int
    dropout_rate: float = 0.0
    stem_blocks: tuple | None = None

    @property
    def stride(self):
        """Pixels between two tokens."""
        return self.patch_size * (1 if self.stem_blocks is None else body_stride(self.stem_blocks))


@dataclass(frozen=True)
class AxialVariant:
    """An Axial-ViT."""

    builder = staticmethod(AxialViT)

    def sizes(self, overrides):
        """None: no file's layout has a place for axial attention."""

    patch_size: int
    num_layers: int
    hidden_dim: int
    num_heads: int
    mlp_dim: int

    @property
    def stride(self):
        """Pixels between two tokens."""
        return self.patch_size


@dataclass(frozen=True)
class ResNetVariant:
    """A ResNet baseline."""

    builder = staticmethod(ResNet)

    def sizes(self, overrides):
        """The `Sizes` of the row with other arguments."""
        return Sizes(0, None, None, tuple(overrides.get("blocks", self.blocks)))

    blocks: tuple
    width_factor: float = 1.0
    attention_heads: int | None = None

    @property
    def stride(self):
        """Pixels between two positions of the last map."""
        return body_stride(self.blocks)


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
    # Hybrids: patches are cut from the ResNet's map, of stride 16 after three stages and 32 after four. R+Ti/16 has the
    # root alone (stride 4) and patch 8: its real stride is 32, despite the name.
    "r_ti16": Variant(8, 12, 192, 3, 768, stem_blocks=()),
    "r26_s32": Variant(1, 12, 384, 6, 1536, stem_blocks=(2, 2, 2, 2)),
    "r26_b32": Variant(1, 12, 768, 12, 3072, stem_blocks=(2, 2, 2, 2)),
    "r50_b16": Variant(1, 12, 768, 12, 3072, dropout_rate=0.1, stem_blocks=(3, 4, 9)),
    "r50_b32": Variant(1, 12, 768, 12, 3072, dropout_rate=0.1, stem_blocks=(3, 4, 6, 3)),
    "r50_l16": Variant(1, 24, 1024, 16, 4096, dropout_rate=0.1, stem_blocks=(3, 4, 9)),
    "r50_l32": Variant(1, 24, 1024, 16, 4096, dropout_rate=0.1, stem_blocks=(3, 4, 6, 3)),
    # Baselines (paper Table 6), and the axial models of appendix D.6; Axial-DeepLab (arXiv 2003.07853) has 8 heads.
    "bit_r50x1": ResNetVariant((3, 4, 6, 3)),
    "bit_r50x2": ResNetVariant((3, 4, 6, 3), 2.0),
    "bit_r101x1": ResNetVariant((3, 4, 23, 3)),
    "bit_r152x1": ResNetVariant((3, 8, 36, 3)),
    "bit_r152x2": ResNetVariant((3, 8, 36, 3), 2.0),
    "bit_r200x3": ResNetVariant((3, 24, 36, 3), 3.0),
    "axial_resnet50": ResNetVariant((3, 4, 6, 3), attention_heads=8),
    "axial_vit_b16": AxialVariant(16, 12, 768, 12, 3072),
    "axial_vit_b32": AxialVariant(32, 12, 768, 12, 3072),
}


def build_variant(
    variant,
    include_top=True,
    weights=None,
    input_tensor=None,
    input_shape=None,
    pooling=None,
    classes=None,
    classifier_activation="softmax",
    name=None,
    **overrides,
):
    """Builds a row of `VARIANTS`; the named functions below call it.

    Args:
        variant: str, key of `VARIANTS`.
        include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation, name:
            as in `ViTB16`.
        **overrides: any other argument of the row's builder (`VisionTransformer`, ...), replacing the variant's own.

    Returns:
        A `keras.Model`.

    Raises:
        ValueError: for an unknown variant or weights name (the nearest are given), or an `activation` or
            `layer_norm_epsilon` that contradicts the weights.
        TypeError: for an argument that the builder does not have.
    """
    if variant not in VARIANTS:
        nearest = difflib.get_close_matches(str(variant), VARIANTS, n=3, cutoff=0) or list(VARIANTS)
        raise ValueError(f"variant must be one of {tuple(VARIANTS)}, received {variant!r}; nearest: {nearest}.")
    row = VARIANTS[variant]
    parameters = inspect.signature(row.builder).parameters
    for argument in overrides:
        if argument not in parameters:
            nearest = difflib.get_close_matches(argument, parameters, n=1, cutoff=0)
            raise TypeError(f"{variant} has no argument {argument!r}; nearest: {nearest[0]!r}.")
    input_shape = check_image(input_shape, input_tensor)
    if isinstance(row, AxialVariant):
        check_no_weights(weights)
    if weights is not None:
        weights = find_weights(weights, variant, input_shape[0] if input_shape else None) or weights
    own = {key: overrides.pop(key, None) for key in ("activation", "layer_norm_epsilon")}
    plan = plan_weights(weights, include_top, classes, **own, sizes=row.sizes(overrides))
    if input_shape is None:
        side = getattr(weights, "image_size", DEFAULT_IMAGE_SIZE)
        from_grid = plan.grid and "patch_size" not in overrides and tuple(n * row.stride for n in plan.grid)
        input_shape = (*(plan.image_size or from_grid or (side, side)), 3)
    settled = {**vars(row), "activation": plan.activation, "layer_norm_epsilon": plan.layer_norm_epsilon}
    if plan.loads_head and plan.representation_size is not None:
        settled["representation_size"] = plan.representation_size
    model = row.builder(
        input_shape,
        include_top=include_top,
        classes=plan.classes,
        classifier_activation=classifier_activation,
        pooling=pooling,
        input_tensor=input_tensor,
        name=name or variant,
        **{**{key: value for key, value in settled.items() if key in parameters}, **overrides},
    )
    return plan.load(model)


_TABLE_1 = "The sizes are those of paper Table 1, Ti and S those of AugReg (arXiv 2106.10270)."
_BASELINE = "A baseline of the paper (section 4.1, Table 6): GroupNorm and standardised convolutions."
_AXIAL = "Paper appendix D.6."


def _variant_function(function_name, variant, title, default_weights, source=_TABLE_1):
    def function(
        include_top=True,
        weights=default_weights,
        input_tensor=None,
        input_shape=None,
        pooling=None,
        classes=None,
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
    is_vit = isinstance(row, Variant)
    if isinstance(row, ResNetVariant):
        size = f"stages of {row.blocks} units"
    else:
        size = f"{row.num_layers} layers, hidden size {row.hidden_dim}, {row.num_heads} heads"
    poolings = '"token", "avg" or "max"' if is_vit else '"avg" or "max"'
    cuts_patches = getattr(row, "patch_size", 1) > 1
    sides = f"multiples of {row.stride}" if cuts_patches else f"any, a map position every {row.stride} pixels"
    if not isinstance(row, AxialVariant) and getattr(row, "attention_heads", None) is None:
        sides += "; None: images of any size"
    function.__name__ = function.__qualname__ = function_name
    function.__doc__ = f"""Builds {title}: {size}.

    {source} Images are expected
    as -1...1: `vitkeras.preprocess_input` makes them from 0...255.

    Args:
        include_top: bool, whether the classification head is built. Default True.
        weights: None (random), a published name (`"imagenet21k+imagenet2012"`, `"imagenet21k"`, `"augreg"`, `"sam"`, or
            one file such as `"imagenet21k+imagenet2012/ViT-B_16-224"`; `vitkeras.list_weights({variant!r})` lists
            them), or a file, folder or address of any layout that `load_checkpoint` takes. Default {default_weights!r}.
        input_tensor: optional Keras tensor to build on.
        input_shape: (height, width, channels); sides: {sides}.
            Default None: the resolution of the file, the lowest if several are published; 224 x 224 otherwise. Other
            than 3 channels take the file's first kernel summed (1 channel) or repeated and rescaled.
        pooling: with `include_top=False`: None (all tokens or the map, default), {poolings}.
        classes: int or None, width of the head; without one it is not looked at, as in `keras.applications`. Default
            None: that of the weights, 1000 without. Another number keeps the backbone of the weights and makes a head
            of zeros.
        classifier_activation: "softmax" (default), or None for logits.
        name: str, the model's name.
        **kwargs: any other argument of `{row.builder.__name__}`.

    Returns:
        A functional `keras.Model`.

    Raises:
        ValueError: for arguments outside their range, unknown weights (the nearest names are given), or an
            `activation` or `layer_norm_epsilon` that contradicts the file.
        ConnectionError: if published weights are neither cached nor reachable.

    Example:
        >>> shape = ({2 * row.stride}, {3 * row.stride}, 3)
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
RTiViT16 = _variant_function("RTiViT16", "r_ti16", "R+ViT-Ti/16, the ResNet root before patches of 8", "augreg")
R26ViTS32 = _variant_function("R26ViTS32", "r26_s32", "R26+ViT-S/32", "augreg")
R26ViTB32 = _variant_function("R26ViTB32", "r26_b32", "R26+ViT-B/32", "imagenet21k")
R50ViTB16 = _variant_function("R50ViTB16", "r50_b16", "R50+ViT-B/16", "imagenet21k+imagenet2012")
R50ViTB32 = _variant_function("R50ViTB32", "r50_b32", "R50+ViT-B/32", None)
R50ViTL16 = _variant_function("R50ViTL16", "r50_l16", "R50+ViT-L/16", None)
R50ViTL32 = _variant_function("R50ViTL32", "r50_l32", "R50+ViT-L/32", "augreg")
BiTR50x1 = _variant_function("BiTR50x1", "bit_r50x1", "ResNet50x1 (BiT)", None, _BASELINE)
BiTR50x2 = _variant_function("BiTR50x2", "bit_r50x2", "ResNet50x2 (BiT)", None, _BASELINE)
BiTR101x1 = _variant_function("BiTR101x1", "bit_r101x1", "ResNet101x1 (BiT)", None, _BASELINE)
BiTR152x1 = _variant_function("BiTR152x1", "bit_r152x1", "ResNet152x1 (BiT)", None, _BASELINE)
BiTR152x2 = _variant_function("BiTR152x2", "bit_r152x2", "ResNet152x2 (BiT)", None, _BASELINE)
BiTR200x3 = _variant_function("BiTR200x3", "bit_r200x3", "ResNet200x3 (BiT)", None, _BASELINE)
AxialResNet50 = _variant_function("AxialResNet50", "axial_resnet50", "AxialResNet50", None, _AXIAL)
AxialViTB16 = _variant_function("AxialViTB16", "axial_vit_b16", "Axial-ViT-B/16", None, _AXIAL)
AxialViTB32 = _variant_function("AxialViTB32", "axial_vit_b32", "Axial-ViT-B/32", None, _AXIAL)
