"""What every kind of model keeps: one table, one run. Sides are odd, so that each SAME padding is uneven somewhere."""

import re
from dataclasses import dataclass, field

import keras
import numpy as np
import pytest
from backends import compiled, gradients, randomise

import vitkeras
from vitkeras.models import AxialViT, ResNet, VisionTransformer

# A 33 x 45 image gives the root a map of 9 x 12 and two stages one of 5 x 6; patches of 3 x 4 and 1 x 2 fit them.
SHAPE, OTHER = (33, 45, 2), (65, 29, 2)


def vit(**arguments):
    return VisionTransformer(
        arguments.pop("input_shape"), arguments.pop("patch_size", (3, 5)), 2, 24, 3, 23, **arguments
    )


def hybrid(**arguments):
    return vit(**{"stem_width_factor": 0.5, **arguments})


def resnet(**arguments):
    return ResNet(arguments.pop("input_shape"), (1, 1), 0.5, **arguments)


def axial_vit(**arguments):
    return AxialViT(arguments.pop("input_shape"), (3, 5), 2, 24, 3, 23, **arguments)


@dataclass(frozen=True)
class Family:
    builder: callable
    arguments: dict = field(default_factory=dict)
    resizes: bool = True
    other: tuple = (42, 20, 2)
    noise: float = 1.0  # how much larger than a ViT's the rounding of its scores is

    def __call__(self, **arguments):
        defaults = dict(input_shape=SHAPE, classes=13, classifier_activation=None)
        return randomise(self.builder(**{**defaults, **self.arguments, **arguments}), scale=0.1)


FAMILIES = {
    "hybrid": Family(hybrid, dict(stem_blocks=(1, 1), patch_size=(1, 2), representation_size=17), other=OTHER),
    "hybrid of the root alone": Family(hybrid, dict(stem_blocks=(), patch_size=(3, 4)), other=(57, 29, 2)),
    "hybrid without class token": Family(
        hybrid, dict(stem_blocks=(1, 1), patch_size=(1, 2), classifier="gap"), other=OTHER
    ),
    "1-D at every layer": Family(vit, dict(position_embedding_at="every_layer")),
    "1-D at every layer, shared": Family(vit, dict(position_embedding_at="every_layer_shared")),
    "2-D": Family(vit, dict(position_embedding="learned_2d")),
    "2-D at every layer": Family(
        vit, dict(position_embedding="learned_2d", position_embedding_at="every_layer", classifier="gap")
    ),
    "2-D at every layer, shared": Family(
        vit, dict(position_embedding="learned_2d", position_embedding_at="every_layer_shared")
    ),
    "relative": Family(vit, dict(position_embedding="relative"), resizes=False),
    "relative without class token": Family(vit, dict(position_embedding="relative", classifier="gap"), resizes=False),
    "resnet": Family(resnet, other=OTHER),
    # Norms of one channel a group divide by the deviation of as few as 30 numbers, which attention makes nearly alike.
    "axial resnet": Family(resnet, dict(attention_heads=4), resizes=False, noise=5),
    "axial vit": Family(axial_vit),
}
each_family = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)


def numpy(x):
    return keras.ops.convert_to_numpy(keras.ops.cast(x, "float32"))


def pixels(rng, shape=SHAPE):
    return rng.uniform(-1, 1, size=(2, *shape)).astype("float32")


@each_family
def test_scores_depend_on_the_image_and_examples_do_not_see_each_other(family, rng, assert_close):
    model, x = family(), pixels(rng)
    scores = numpy(model(x))
    assert scores.shape == (2, 13) and np.abs(scores[0] - scores[1]).max() > 1e-3
    assert_close(model(x[1:]), scores[1:], atol=5e-6 * family.noise)


@each_family
@pytest.mark.parametrize("how", ["graph", "xla"])
def test_compiled_equals_eager(family, how, rng, assert_close):
    model, x = family(), keras.ops.convert_to_tensor(pixels(rng))
    assert_close(compiled(model, how)(x), model(x), atol=2e-5 * family.noise)


@each_family
def test_gradients_reach_every_weight(family, rng):
    model = family()
    by_weight, by_input = gradients(model, pixels(rng))
    assert len(by_weight) == len(model.trainable_weights)
    for path, gradient in [*by_weight.items(), ("input", by_input)]:
        assert gradient is not None and np.isfinite(gradient).all(), path
        if not path.endswith("key/bias") and not has_no_gradient(path, model):
            assert np.abs(gradient).max() > 1e-5, path


def has_no_gradient(path, model):
    """Norms of 32 channels have groups of one, which take away what a bias before them adds.

    And the class token, which alone is read after the last block, has no relative position.
    """
    if any(layer.name == "class_token" for layer in model.layers):
        return path == "encoder_block_01/attention/relative/embedding"
    return path.startswith("block1_unit01/attention/") and path.endswith("bias")


@each_family
def test_saved_and_loaded_as_keras_gives_the_same_bits(family, rng, tmp_path):
    model, x = family(), pixels(rng)
    model.save(tmp_path / "model.keras")
    assert "Lambda" not in model.to_json()
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(numpy(again(x)), numpy(model(x)))
    assert [w.path for w in again.weights] == [w.path for w in model.weights]


@each_family
def test_mixed_precision_gives_float32_scores_near_the_float32_ones(family, rng, assert_close):
    x, full = pixels(rng), family(classifier_activation="softmax")
    keras.config.set_dtype_policy("mixed_bfloat16")
    half = family(classifier_activation="softmax")
    scores = half(x)
    assert keras.backend.standardize_dtype(scores.dtype) == "float32"
    assert {w.dtype for w in half.weights} == {"float32"}
    assert_close(scores, full(x), atol=0.02)


@each_family
def test_at_resolution(family, rng, assert_close):
    model = family()
    if not family.resizes:
        with pytest.raises(ValueError, match="has relative position embeddings: their offsets belong to one number of"):
            vitkeras.at_resolution(model, family.other[:2])
        return
    new = vitkeras.at_resolution(model, family.other[:2])
    assert new.input_shape == (None, *family.other) and new.name == model.name
    assert tuple(new(pixels(rng, family.other)).shape) == (2, 13)
    back = vitkeras.at_resolution(new, SHAPE[:2])
    for ours, old in zip(new.weights, model.weights, strict=True):
        assert ours.path == old.path
        if "position_embedding" not in ours.path:
            np.testing.assert_array_equal(numpy(ours), numpy(old))
    assert [w.shape for w in back.weights] == [w.shape for w in model.weights]
    same = vitkeras.at_resolution(model, SHAPE[:2])
    np.testing.assert_array_equal(
        numpy(same(pixels(np.random.default_rng(3)))), numpy(model(pixels(np.random.default_rng(3))))
    )


@each_family
def test_with_new_head_keeps_the_backbone_and_starts_at_zero(family, rng):
    model = family()
    new = vitkeras.with_new_head(model, 5)
    assert new.output_shape == (None, 5) and "pre_logits" not in [layer.name for layer in new.layers]
    np.testing.assert_allclose(numpy(new(pixels(rng))), np.full((2, 5), 0.2), rtol=1e-6)
    old = {w.path: numpy(w) for w in model.weights if not w.path.startswith(("head/", "pre_logits/"))}
    kept = {w.path: numpy(w) for w in new.weights if not w.path.startswith("head/")}
    assert old.keys() == kept.keys()
    for path, array in old.items():
        np.testing.assert_array_equal(kept[path], array, err_msg=path)


@each_family
def test_without_the_head_features_come_as_tokens_or_map(family, rng, assert_close):
    model, x = family(include_top=False), pixels(rng)
    assert "head" not in [layer.name for layer in model.layers]
    pooled = family(include_top=False, pooling="avg")
    features = numpy(model(x))
    prefix = int(any(layer.name == "class_token" for layer in model.layers))
    axes = tuple(range(1, features.ndim - 1))
    assert_close(pooled(x), features[:, prefix:].mean(axes) if features.ndim == 3 else features.mean(axes), atol=5e-6)


def test_the_families_cover_every_kind_of_position_embedding():
    used = {family.arguments.get("position_embedding", "learned_1d") for family in FAMILIES.values()}
    assert used == set(vitkeras.models.vit.POSITION_EMBEDDINGS) - {"none"}  # which test_vision_transformer has
    places = {family.arguments.get("position_embedding_at", "stem") for family in FAMILIES.values()}
    assert places == set(vitkeras.models.vit.POSITIONS_AT)


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
        "image height must be a multiple of the patch height 2, received 5 (remainder 1).",
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
    with pytest.raises(ValueError, match="original layout"):
        FAMILIES[kind](weights=golden.path("vit_token_32x32"))


def test_a_hybrid_takes_no_foreign_normalisation(golden):
    model = FAMILIES["hybrid"]()
    message = "input_mean and input_std fold into a patch embedding only"
    with pytest.raises(ValueError, match=message):
        vitkeras.load_checkpoint(model, golden.path("hybrid_r111_w05_p1"), input_mean=0.5, input_std=0.5)


@pytest.mark.parametrize("call, message", ERRORS.values(), ids=ERRORS)
def test_error(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
