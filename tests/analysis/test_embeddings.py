"""First filters and position embeddings, from weights whose answer is known."""

import keras
import numpy as np
import pytest

import vitkeras
from vitkeras.analysis import embedding_filters, position_similarity

RNG = np.random.default_rng(41)


def tiny(**overrides):
    return vitkeras.VisionTransformer((21, 55, 2), (3, 5), 2, 12, 3, 17, **{"classes": 7, **overrides})


def cosine(a, b):
    return a @ b / np.sqrt((a @ a) * (b @ b))


def test_filters_are_the_directions_in_which_the_kernel_varies():
    model = tiny()
    projection = model.get_layer("patch_embedding").projection
    first, second = np.linalg.qr(RNG.normal(size=(30, 2)))[0].T
    # Twelve filters on a plane: 5 times as wide along the first direction, and all moved by a constant.
    angles = 2 * np.pi * np.arange(12) / 12
    points = 3 + 5 * np.cos(angles)[:, None] * first + np.sin(angles)[:, None] * second
    projection.kernel.assign(points.T.reshape(3, 5, 2, 12))
    filters = embedding_filters(model, count=2)
    assert filters.shape == (2, 3, 5, 2) and filters.dtype == np.float32
    for found, expected in zip(filters.reshape(2, -1), (first, second)):
        assert abs(cosine(found, expected)) == pytest.approx(1, abs=1e-5)
        assert found[np.abs(found).argmax()] > 0


def test_filters_of_a_hybrid_and_of_a_nested_model():
    hybrid = vitkeras.VisionTransformer((64, 96, 3), 2, 1, 24, 3, 40, stem_blocks=(1,), stem_width_factor=0.5)
    assert embedding_filters(hybrid, count=7).shape == (7, 7, 7, 3)
    nested = keras.Sequential([keras.Input((64, 96, 3)), hybrid])
    np.testing.assert_array_equal(embedding_filters(nested, count=7), embedding_filters(hybrid, count=7))


@pytest.mark.parametrize("kind", ["learned_1d", "learned_2d"])
def test_similarity_of_patches(kind):
    model = tiny(position_embedding=kind)
    layer = model.get_layer("position_embedding")
    for weight in layer.weights:
        weight.assign(RNG.normal(size=weight.shape))
    similarity = position_similarity(model)
    assert similarity.shape == (7, 11, 7, 11)
    if kind == "learned_1d":
        vectors = keras.ops.convert_to_numpy(layer.embedding)[0, 1:].reshape(7, 11, 12)
    else:
        x, y = (keras.ops.convert_to_numpy(v) for v in (layer.x_embedding, layer.y_embedding))
        vectors = np.array([[np.concatenate([x[j], y[i]]) for j in range(11)] for i in range(7)])
    for a, b in (((0, 0), (6, 10)), ((2, 7), (5, 3)), ((4, 4), (4, 4))):
        assert similarity[*a, *b] == pytest.approx(cosine(vectors[a], vectors[b]), abs=1e-5)


def test_the_layer_adds_the_vectors_that_are_compared():
    """An all-zero sequence comes out as the position embedding itself."""
    model = tiny(position_embedding="learned_2d")
    layer = model.get_layer("position_embedding")
    added = keras.ops.convert_to_numpy(layer(np.zeros((1, 78, 12), "float32")))[0, 1:]
    unit = added / np.linalg.norm(added, axis=-1, keepdims=True)
    np.testing.assert_allclose(position_similarity(model).reshape(77, 77), unit @ unit.T, atol=1e-5)


def test_several_and_relative_ones():
    model = tiny(position_embedding_at="every_layer")
    model.get_layer("position_embedding_01").embedding.assign(np.ones((1, 78, 12)))
    assert (position_similarity(model, layer=-1) > 0.99999).all()
    assert not (position_similarity(model) > 0.99999).all()
    relative = tiny(position_embedding="relative")
    similarity = position_similarity(relative, layer=1)
    assert similarity.shape == (153, 153)
    np.testing.assert_allclose(np.diag(similarity), 1, atol=1e-5)


def test_a_zero_embedding_is_like_nothing():
    model = tiny()
    model.get_layer("position_embedding").embedding.assign(np.zeros((1, 78, 12)))
    assert not position_similarity(model).any()


def test_refusals():
    with pytest.raises(ValueError, match="model must have a learned position embedding, 'vision_transformer' has none"):
        position_similarity(tiny(position_embedding="none"))
    with pytest.raises(ValueError, match=r"layer must be an int in -1\.\.\.0, received 1"):
        position_similarity(tiny(), layer=1)
    with pytest.raises(ValueError, match=r"count must be an int in 1\.\.\.12, received 13"):
        embedding_filters(tiny(), count=13)
    assert len(embedding_filters(tiny())) == 11  # of twelve points around their mean
    image = keras.Input((4, 4, 3))
    other = keras.Model(image, keras.layers.Flatten()(image), name="other")
    with pytest.raises(ValueError, match="model must hold a PatchEmbedding or a StdConv, 'other' holds neither"):
        embedding_filters(other)
    for function in (embedding_filters, position_similarity):
        with pytest.raises(ValueError, match="model must be a keras.Model, received 3"):
            function(3)
