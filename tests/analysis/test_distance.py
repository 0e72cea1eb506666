"""Attention distance, against what a hand calculation gives."""

import math

import keras
import numpy as np
import pytest

import vitkeras
from vitkeras.analysis import attention_distance, attention_maps
from vitkeras.analysis.distance import mean_distances, patch_distances

RNG = np.random.default_rng(37)
IMAGES = RNG.normal(size=(5, 21, 55, 2)).astype("float32")


def tiny(**overrides):
    return vitkeras.VisionTransformer((21, 55, 2), (3, 5), 2, 12, 3, 17, **{"classes": 7, **overrides})


def test_distances_between_patches():
    distances = patch_distances((2, 3), (3, 5))
    assert distances[0].tolist() == [0, 5, 10, 3, math.hypot(3, 5), math.hypot(3, 10)]
    assert (distances == distances.T).all()


def test_an_attention_made_by_hand():
    # One query's weights on patches at distances 0, 5, 10, 3, ...; the others look at themselves.
    weights = np.eye(6)[None, None].copy()
    weights[0, 0, 0] = [0.5, 0.25, 0.125, 0.125, 0, 0]
    expected = (0.25 * 5 + 0.125 * 10 + 0.125 * 3) / 6
    assert mean_distances(weights, patch_distances((2, 3), (3, 5))).tolist() == [expected]


def test_prefix_tokens_are_left_out():
    weights = np.full((1, 1, 3, 3), 1 / 3)  # class token and two patches, 16 pixels apart
    assert mean_distances(weights, patch_distances((1, 2), (16, 16)), 1) == pytest.approx([8.0])


@pytest.mark.parametrize("side", [2, 5, 7])
def test_uniform_attention_has_a_closed_form(side):
    """In one dimension the mean of |i - j| over n points is (n^2 - 1) / (3 n)."""
    weights = np.full((2, 3, side, side), 1 / side)
    for grid, patch in (((1, side), (99, 4)), ((side, 1), (4, 99))):
        expected = 4 * (side**2 - 1) / (3 * side)
        assert mean_distances(weights, patch_distances(grid, patch)) == pytest.approx([expected] * 3)


@pytest.mark.parametrize("classifier", ["token", "gap"])
def test_of_a_model_in_batches(classifier):
    model = tiny(classifier=classifier)
    distances = attention_distance(model, IMAGES, batch_size=2)
    assert distances.shape == (2, 3)
    prefix, all_pairs = int(classifier == "token"), patch_distances((7, 11), (3, 5))
    expected = [mean_distances(weights, all_pairs, prefix) for weights in attention_maps(model, IMAGES)]
    np.testing.assert_allclose(distances, expected, rtol=1e-5)
    assert (distances > 0).all() and (distances < all_pairs.max()).all()


def test_heads_that_change_places_change_their_distances():
    model = tiny()
    distances = attention_distance(model, IMAGES)
    attention = model.get_layer("encoder_block_00").attention
    order = [2, 0, 1]
    for dense in (attention.query, attention.key):
        for weight in (dense.kernel, dense.bias):
            array = keras.ops.convert_to_numpy(weight)
            weight.assign(array.reshape(*array.shape[:-1], 3, 4)[..., order, :].reshape(array.shape))
    np.testing.assert_allclose(attention_distance(model, IMAGES)[0], distances[0][order], rtol=1e-5)


def test_pixels_between_patches_of_a_hybrid():
    model = vitkeras.VisionTransformer((64, 96, 3), 2, 1, 24, 3, 40, stem_blocks=(1,), stem_width_factor=0.5)
    images = RNG.normal(size=(1, 64, 96, 3)).astype("float32")
    expected = mean_distances(attention_maps(model, images)[0], patch_distances((8, 12), (8, 8)), 1)
    np.testing.assert_allclose(attention_distance(model, images)[0], expected, rtol=1e-6)


def test_refusals():
    model = tiny()
    with pytest.raises(ValueError, match=r"images must be an array .* received shape \(21, 55, 2\)"):
        attention_distance(model, IMAGES[0])
    with pytest.raises(ValueError, match="batch_size must be a positive int, received 0"):
        attention_distance(model, IMAGES, batch_size=0)
    axial = vitkeras.models.AxialViT((21, 55, 2), (3, 5), 2, 12, 3, 17, classes=7)
    with pytest.raises(ValueError, match=r"'axial_vit' has the grid \(7, 11\) and attends to \[7, 11\] tokens"):
        attention_distance(axial, IMAGES)
