"""What each kind of model refuses, and how it says so."""

import re

import pytest
from families import FAMILIES, SHAPE

import vitkeras
from vitkeras.models import AxialViT, ResNet, VisionTransformer

ERRORS = {
    "place": (
        lambda: FAMILIES["2-D"](position_embedding_at="last"),
        "position_embedding_at must be one of ('stem', 'every_layer', 'every_layer_shared'), received 'last'.",
    ),
    "place of relative positions": (
        lambda: FAMILIES["relative"](position_embedding_at="every_layer"),
        "position_embedding_at is for the learned position embeddings, received 'every_layer' with "
        "position_embedding='relative'.",
    ),
    "place of no positions": (
        lambda: FAMILIES["2-D"](position_embedding="none", position_embedding_at="every_layer_shared"),
        "position_embedding_at is for the learned position embeddings, received 'every_layer_shared' with "
        "position_embedding='none'.",
    ),
    "odd width in two dimensions": (
        lambda: VisionTransformer(SHAPE, (3, 5), 2, 21, 3, 23, position_embedding="learned_2d"),
        "hidden_dim must be even for two-dimensional position embeddings, received 21.",
    ),
    "stage without units": (
        lambda: FAMILIES["hybrid"](stem_blocks=(1, 0)),
        "stem_blocks must be a tuple of positive ints, units a stage, received (1, 0).",
    ),
    "stages as a number": (
        lambda: FAMILIES["hybrid"](stem_blocks=3),
        "stem_blocks must be a tuple of positive ints, units a stage, received 3.",
    ),
    "stem width": (
        lambda: FAMILIES["hybrid"](stem_width_factor=0.3),
        "stem_width_factor must make 64 a multiple of GroupNorm's 32 groups, received 0.3.",
    ),
    "stem width of zero": (
        lambda: FAMILIES["hybrid"](stem_width_factor=0),
        "stem_width_factor must make 64 a multiple of GroupNorm's 32 groups, received 0.",
    ),
    "stem width without a stem": (
        lambda: FAMILIES["2-D"](stem_width_factor=2.0),
        "stem_width_factor is for stem_blocks, received 2.0 without them.",
    ),
    "map that is no multiple of the patch": (
        lambda: FAMILIES["hybrid"](patch_size=(2, 3)),
        "makes a map of (5, 6) behind the stem, which must be a multiple of the patch size (2, 3).",
    ),
    "grid that contradicts the image": (
        lambda: FAMILIES["2-D"](grid_size=(9, 11)),
        "grid_size must be (11, 9), the grid of input_shape, received (9, 11).",
    ),
    "relative positions of an unknown size": (
        lambda: FAMILIES["relative"](input_shape=(None, 45, 2)),
        "input_shape must be known for relative positions, received (None, 45, 2).",
    ),
    "axial model of an unknown size": (
        lambda: FAMILIES["axial vit"](input_shape=(33, None, 2)),
        "input_shape must be known for an Axial-ViT, received (33, None, 2).",
    ),
    "axial resnet of an unknown size": (
        lambda: FAMILIES["axial resnet"](input_shape=(None, None, 2)),
        "input_shape must be known for axial attention, received (None, None, 2).",
    ),
    "units of a baseline": (
        lambda: ResNet(SHAPE, (1, -1)),
        "blocks must be a tuple of positive ints, units a stage, received (1, -1).",
    ),
    "width of a baseline": (
        lambda: ResNet(SHAPE, (1,), width_factor=0.75),
        "width_factor must make 64 a multiple of GroupNorm's 32 groups, received 0.75.",
    ),
    "heads of an axial resnet": (
        lambda: FAMILIES["axial resnet"](attention_heads=0),
        "attention_heads must be a positive int, received 0.",
    ),
    "heads that do not divide": (
        lambda: FAMILIES["axial resnet"](attention_heads=5),
        "hidden_dim must be a multiple of num_heads 5, received 32.",
    ),
    "pooling of a baseline": (
        lambda: FAMILIES["resnet"](include_top=False, pooling="token"),
        "pooling must be one of (None, 'avg', 'max'), received 'token'.",
    ),
    "pooling with the head": (
        lambda: FAMILIES["resnet"](pooling="avg"),
        "pooling is for include_top=False, received 'avg' with include_top=True.",
    ),
    "classes of an axial model": (
        lambda: FAMILIES["axial vit"](classes=0),
        "classes must be a positive int, received 0.",
    ),
    "rate of an axial model": (
        lambda: FAMILIES["axial vit"](attention_dropout_rate=1.0),
        "attention_dropout_rate must be in [0, 1), received 1.0.",
    ),
    "activation of an axial model": (
        lambda: FAMILIES["axial vit"](activation="relu"),
        "activation must be 'gelu_tanh'",
    ),
    "sizes of an axial model": (
        lambda: AxialViT(SHAPE, (3, 5), 0, 24, 3, 23),
        "num_layers must be a positive int, received 0.",
    ),
    "a head for a map": (
        lambda: vitkeras.with_new_head(FAMILIES["resnet"](include_top=False), 5),
        "model must give one vector an image to carry a head, its features have shape (None, 5, 6, 256); "
        "build it with a pooling, such as 'avg'.",
    ),
    "a map at another resolution": (
        lambda: vitkeras.at_resolution(FAMILIES["hybrid of the root alone"](), (33, 50)),
        "image_size makes a map of (9, 13), which must be a multiple of the patch size (3, 4), received (33, 50).",
    ),
}


@pytest.mark.parametrize("kind", ["relative", "1-D at every layer", "2-D"])
def test_positions_that_the_original_layout_has_no_place_for_are_not_loaded(kind, golden):
    with pytest.raises(ValueError, match="without a place in the original's layout"):
        vitkeras.load_checkpoint(FAMILIES[kind](), golden.path("vit_token_32x32"))


def test_a_hybrid_takes_no_foreign_normalisation(golden):
    model = FAMILIES["hybrid"]()
    message = "input_mean and input_std fold into a patch embedding only"
    with pytest.raises(ValueError, match=message):
        vitkeras.load_checkpoint(model, golden.path("hybrid_r111_w05_p1"), input_mean=0.5, input_std=0.5)


@pytest.mark.parametrize("call, message", ERRORS.values(), ids=ERRORS)
def test_error(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
