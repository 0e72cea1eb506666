"""What every kind of model keeps: one table, one run. Sides are odd, so that each SAME padding is uneven somewhere."""

import keras
import numpy as np
import pytest
from backends import compiled, gradients
from families import FAMILIES, SHAPE

import vitkeras

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
    x[0] = pixels(rng)[0]
    changed = numpy(model(x))
    assert np.abs(changed[0] - scores[0]).max() > 1e-3
    assert_close(changed[1:], scores[1:], atol=5e-6 * family.noise)


@each_family
@pytest.mark.parametrize("how", ["graph", pytest.param("xla", marks=pytest.mark.slow)])
def test_compiled_equals_eager(family, how, rng, assert_close):
    model, x = family(), keras.ops.convert_to_tensor(pixels(rng))
    assert_close(compiled(model, how)(x), model(x), atol=2e-5 * family.noise)


@each_family
def test_gradients_reach_every_weight(family, rng, whole):
    model = family()
    by_weight, by_input = gradients(whole(model), pixels(rng))
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
def test_mixed_precision_gives_float32_scores_near_the_float32_ones(family, rng, assert_close, whole):
    x, full = pixels(rng), family(classifier_activation="softmax")
    keras.config.set_dtype_policy("mixed_bfloat16")
    half = family(classifier_activation="softmax")
    scores = whole(half)(x)
    assert keras.backend.standardize_dtype(scores.dtype) == "float32"
    assert {w.dtype for w in half.weights} == {"float32"}
    assert_close(scores, full(x), atol=0.02)


@each_family
def test_at_resolution(family, rng, whole):
    model = family()
    if not family.resizes:
        with pytest.raises(ValueError, match="has relative position embeddings: their offsets belong to one number of"):
            vitkeras.at_resolution(model, family.other[:2])
        return
    new = vitkeras.at_resolution(model, family.other[:2])
    assert new.input_shape == (None, *family.other) and new.name == model.name
    assert tuple(whole(new)(pixels(rng, family.other)).shape) == (2, 13)
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
