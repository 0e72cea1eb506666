"""Models of any image size: one set of weights, the numbers of the fixed-size models."""

import re

import keras
import numpy as np
import pytest
from backends import randomise, traced_for_any_size

import vitkeras
from vitkeras.models import ResNet, VisionTransformer

SHAPE, GRID = (21, 55, 2), (7, 11)
SIZES = [(21, 55), (12, 35), (42, 15)]
KINDS = {
    "1-D": dict(),
    "1-D at every layer": dict(position_embedding_at="every_layer"),
    "1-D at every layer, shared": dict(position_embedding_at="every_layer_shared"),
    "2-D": dict(position_embedding="learned_2d"),
    "2-D at every layer": dict(position_embedding="learned_2d", position_embedding_at="every_layer"),
    "none": dict(position_embedding="none"),
    "gap": dict(classifier="gap"),
}


def tiny(input_shape, **arguments):
    defaults = dict(classes=13, classifier_activation=None)
    return VisionTransformer(input_shape, (3, 5), 2, 24, 3, 23, **{**defaults, **arguments})


def tiny_hybrid(input_shape, **arguments):
    defaults = dict(classes=13, classifier_activation=None, stem_blocks=(1, 1), stem_width_factor=0.5)
    return VisionTransformer(input_shape, (1, 2), 2, 24, 3, 23, **{**defaults, **arguments})


def numpy(x):
    return keras.ops.convert_to_numpy(x)


def pixels(rng, size, channels=2):
    return rng.uniform(-1, 1, size=(2, *size, channels)).astype("float32")


def pair(builder, fixed_shape, grid, **arguments):
    """(fixed, dynamic): the same weights, for one size and for all."""
    fixed = randomise(builder(fixed_shape, **arguments), scale=0.1)
    dynamic = builder((None, None, 2), grid_size=grid, **arguments)
    assert [w.path for w in dynamic.weights] == [w.path for w in fixed.weights]
    dynamic.set_weights(fixed.get_weights())
    return fixed, dynamic


@pytest.mark.parametrize("arguments", KINDS.values(), ids=KINDS)
def test_equals_the_fixed_model_at_each_size_in_turn(arguments, rng, assert_close, whole):
    fixed, dynamic = pair(tiny, SHAPE, GRID, **arguments)
    models = {size: whole(vitkeras.at_resolution(fixed, size)) for size in SIZES}
    called = whole(dynamic)
    for size in SIZES + SIZES[:1]:
        x = pixels(rng, size)
        assert_close(called(x), models[size](x), atol=5e-6)


@pytest.mark.parametrize("arguments", [KINDS["1-D"], KINDS["2-D at every layer"]], ids=["1-D", "2-D at every layer"])
def test_predict_takes_two_sizes_in_turn(arguments, rng, assert_close):
    fixed, dynamic = pair(tiny, SHAPE, GRID, **arguments)
    for size in (SIZES[0], SIZES[1], SIZES[0]):
        x = pixels(rng, size)
        assert_close(dynamic.predict(x, verbose=0), vitkeras.at_resolution(fixed, size)(x), atol=1e-5)


def test_a_hybrid_of_any_size(rng, assert_close, whole):
    fixed, dynamic = pair(tiny_hybrid, (33, 45, 2), (5, 3))
    called = whole(dynamic)
    for size in ((33, 45), (65, 29), (33, 45)):
        x = pixels(rng, size)
        scores = called(x)
        assert_close(scores, whole(vitkeras.at_resolution(fixed, size))(x), atol=2e-5)
        assert_close(dynamic.predict(x, verbose=0), scores, atol=2e-5)


def test_a_baseline_of_any_size(rng, assert_close, whole):
    dynamic = randomise(ResNet((None, None, 2), (1, 1), 0.5, classes=13, classifier_activation=None), scale=0.1)
    for size in ((33, 45), (65, 29)):
        fixed = ResNet((*size, 2), (1, 1), 0.5, classes=13, classifier_activation=None)
        fixed.set_weights(dynamic.get_weights())
        x = pixels(rng, size)
        assert_close(whole(dynamic)(x), whole(fixed)(x), atol=2e-5)


@pytest.mark.parametrize(
    "builder, grid, sizes, arguments",
    [
        (tiny, GRID, SIZES, KINDS["1-D at every layer"]),
        (tiny, GRID, SIZES, KINDS["2-D"]),
        (tiny_hybrid, (5, 3), [(33, 45), (65, 29)], {}),
    ],
    ids=["1-D at every layer", "2-D", "hybrid"],
)
def test_one_graph_without_known_sides_takes_every_size(builder, grid, sizes, arguments, rng, assert_close):
    model = randomise(builder((None, None, 2), grid_size=grid, **arguments), scale=0.1)
    traced = traced_for_any_size(model)
    for size in sizes:
        x = pixels(rng, size)
        assert_close(traced(x), model(x), atol=2e-5)


def test_one_side_may_be_known(rng, assert_close):
    fixed, dynamic = pair(tiny, SHAPE, GRID)
    half = tiny((None, 55, 2), grid_size=GRID)
    half.set_weights(fixed.get_weights())
    x = pixels(rng, (12, 55))
    assert_close(half(x), dynamic(x), atol=1e-6)


def test_the_originals_transfer_from_64_to_96_pixels_happens_in_the_graph(golden, assert_close, whole):
    model = VisionTransformer(
        (None, None, 3), 16, 2, 48, 3, 96, classes=7, weights=golden.path("ft_64to96_src"), grid_size=4
    )
    encoded = whole(keras.Model(model.input, model.get_layer("encoder_norm").output))
    for name in ("ft_64to96_src_io", "ft_64to96_dst_io"):  # at its own size, and at 96 pixels
        io = golden(name)
        assert_close(encoded(io["input"]), io["encoded"], atol=2e-5)


@pytest.mark.parametrize(
    "arguments, grid",
    [
        (dict(patch_size=16), (14, 14)),
        (dict(patch_size=(16, 32)), (14, 7)),
        (dict(patch_size=1, stem_blocks=(1, 1, 1), stem_width_factor=0.5), (14, 14)),
        (dict(patch_size=1, stem_blocks=(1, 1, 1, 1), stem_width_factor=0.5), (7, 7)),
        (dict(patch_size=8, stem_blocks=()), (7, 7)),
        (dict(patch_size=16, grid_size=(3, 5)), (3, 5)),
    ],
    ids=str,
)
def test_the_stored_grid_is_that_of_224_pixels_unless_given(arguments, grid):
    with keras.StatelessScope(initialize_variables=False):
        model = VisionTransformer((None, None, 3), num_layers=1, hidden_dim=24, num_heads=3, mlp_dim=7, **arguments)
    assert model.get_layer("position_embedding").grid_size == grid


def test_a_variant_of_any_size_keeps_its_count_of_parameters():
    with keras.StatelessScope(initialize_variables=False):
        model = vitkeras.ViTS16(weights=None, input_shape=(None, None, 3))
    assert model.count_params() == 22_050_664 and model.input_shape == (None, None, None, 3)
    keras.utils.clear_session()


def test_at_resolution_fixes_the_size(rng, assert_close):
    _, dynamic = pair(tiny, SHAPE, GRID)
    fixed = vitkeras.at_resolution(dynamic, SIZES[1])
    assert fixed.get_layer("position_embedding").grid_size == (4, 7)
    x = pixels(rng, SIZES[1])
    assert_close(fixed(x), dynamic(x), atol=5e-6)


def test_with_new_head_keeps_the_size_open(rng):
    _, dynamic = pair(tiny, SHAPE, GRID)
    new = vitkeras.with_new_head(dynamic, 5)
    assert new.input_shape == (None, None, None, 2)
    assert tuple(new(pixels(rng, SIZES[2])).shape) == (2, 5)


def test_saved_and_loaded_as_keras(rng, tmp_path):
    _, dynamic = pair(tiny, SHAPE, GRID, position_embedding="learned_2d")
    dynamic.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    for size in SIZES:
        x = pixels(rng, size)
        np.testing.assert_array_equal(numpy(again(x)), numpy(dynamic(x)))


@pytest.mark.parametrize(
    "size, message",
    [
        ((22, 55), "image height must be a multiple of the patch height 3, received 22 (remainder 1)."),
        ((21, 56), "image width must be a multiple of the patch width 5, received 56 (remainder 1)."),
    ],
)
def test_an_image_that_is_no_multiple_of_the_patch_is_refused(size, message, rng):
    _, dynamic = pair(tiny, SHAPE, GRID)
    with pytest.raises(ValueError, match=re.escape(message)):
        dynamic(pixels(rng, size))


def test_a_map_that_is_no_multiple_of_the_patch_is_refused(rng, whole):
    dynamic = whole(tiny_hybrid((None, None, 2), grid_size=(5, 3)))
    message = "image width must be a multiple of the patch width 2, received 5 (remainder 1)."
    with pytest.raises(ValueError, match=re.escape(message)):
        dynamic(pixels(rng, (33, 40)))


@pytest.mark.parametrize("grid", [0, (7, 0), (7, 11, 13), 2.5])
def test_a_grid_is_a_pair_of_positive_ints(grid):
    message = f"grid_size must be a positive int or a pair (height, width) of them, received {grid!r}."
    with pytest.raises(ValueError, match=re.escape(message)):
        tiny((None, None, 2), grid_size=grid)


def test_mixed_precision(rng, assert_close, whole):
    fixed, full = pair(tiny, SHAPE, GRID)
    keras.config.set_dtype_policy("mixed_bfloat16")
    half = tiny((None, None, 2), grid_size=GRID)
    half.set_weights(fixed.get_weights())
    x = pixels(rng, SIZES[1])
    scores = whole(half)(x)
    assert keras.backend.standardize_dtype(scores.dtype) == "float32"
    assert_close(scores, full(x), atol=0.02)
