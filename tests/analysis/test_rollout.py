"""Attention rollout, against the definition written out and by its properties."""

import keras
import numpy as np
import pytest

import vitkeras
from vitkeras.analysis import attention_maps, attention_rollout, roll_out, rollout_heat_map
from vitkeras.analysis.rollout import roll_out_steps

RNG = np.random.default_rng(31)
IMAGES = RNG.normal(size=(2, 21, 55, 2)).astype("float32")


def tiny(**overrides):
    return vitkeras.VisionTransformer((21, 55, 2), (3, 5), 3, 12, 3, 17, **{"classes": 7, **overrides})


def random_maps(layers=3, batch=2, heads=5, tokens=7):
    maps = RNG.uniform(size=(layers, batch, heads, tokens, tokens))
    return list(maps / maps.sum(axis=-1, keepdims=True))


def by_hand(maps):
    """Path by path: the sum over all ways through the layers."""
    batch, _, tokens, _ = maps[0].shape
    result = np.zeros((batch, tokens, tokens))
    for b in range(batch):
        product = np.eye(tokens)
        for weights in maps:
            mean = sum(weights[b]) / len(weights[b])
            rows = [[(mean[q, k] + (q == k)) / (sum(mean[q]) + 1) for k in range(tokens)] for q in range(tokens)]
            product = np.array(rows) @ product
        result[b] = product
    return result


def test_the_definition(assert_close):
    maps = random_maps()
    assert_close(roll_out(maps), by_hand(maps).astype("float32"), atol=1e-6)


def test_the_order_of_the_layers_matters(assert_close):
    maps = random_maps()
    with pytest.raises(AssertionError):
        assert_close(roll_out(maps[::-1]), by_hand(maps).astype("float32"), atol=1e-6)


def test_rows_sum_to_one_and_heads_may_change_places(assert_close):
    maps = random_maps()
    rollout = roll_out(maps)
    assert_close(rollout.sum(axis=-1), np.ones((2, 7), "float32"), atol=1e-6)
    assert_close(roll_out([weights[:, RNG.permutation(5)] for weights in maps]), rollout, atol=1e-6)


@pytest.mark.parametrize("fusion", ["mean", "max", "min"])
def test_heads_are_fused_before_the_identity_is_added(fusion, assert_close):
    maps = random_maps(layers=2)
    first, second = (getattr(weights, fusion)(axis=1) + np.eye(7) for weights in maps)
    first, second = (mixed / mixed.sum(axis=-1, keepdims=True) for mixed in (first, second))
    assert_close(roll_out(maps, fusion), (second @ first).astype("float32"), atol=1e-6)
    *_, last = steps = list(roll_out_steps(maps, fusion))
    assert_close(steps[0], first.astype("float32"), atol=1e-6)
    assert_close(last, roll_out(maps, fusion), atol=0)


def test_the_identity_stays(assert_close):
    maps = [np.broadcast_to(np.eye(4, dtype="float32"), (1, 2, 4, 4))] * 3
    assert_close(roll_out(maps), np.eye(4, dtype="float32")[None], atol=0)


@pytest.mark.parametrize("classifier", ["token", "gap"])
def test_of_a_model(classifier, assert_close):
    model = tiny(classifier=classifier)
    rollout = attention_rollout(model, IMAGES)
    assert_close(rollout, roll_out(attention_maps(model, IMAGES)), atol=0)
    heat = rollout_heat_map(model, IMAGES)
    assert heat.shape == (2, 7, 11)
    expected = rollout[:, 0, 1:] if classifier == "token" else rollout.mean(axis=1)
    assert_close(heat, expected.reshape(2, 7, 11), atol=0)


def test_a_patch_that_everyone_looks_at_is_found():
    model = tiny()
    attention = model.get_layer("encoder_block_01").attention

    def weights(x):
        result = np.full((2, 3, 78, 78), 1e-3, "float32")
        result[..., 1 + 2 * 11 + 5] = 1 - 77e-3  # row 2, column 5, behind the class token
        return keras.ops.convert_to_tensor(result)

    object.__setattr__(attention, "attention_weights", weights)
    heat = rollout_heat_map(model, IMAGES)
    assert [np.unravel_index(x.argmax(), x.shape) for x in heat] == [(2, 5), (2, 5)]


def test_nested_and_with_another_head(assert_close):
    model = tiny(dropout_rate=0.3)
    expected = rollout_heat_map(model, IMAGES)
    nested = keras.Sequential([keras.Input((21, 55, 2)), vitkeras.with_new_head(model, 3)])
    assert_close(rollout_heat_map(nested, IMAGES), expected, atol=0)


def test_hybrids_have_the_stems_grid():
    model = vitkeras.VisionTransformer((64, 96, 3), 2, 2, 24, 3, 40, stem_blocks=(1,), stem_width_factor=0.5)
    assert rollout_heat_map(model, RNG.normal(size=(1, 64, 96, 3)).astype("float32")).shape == (1, 8, 12)


def test_refusals():
    resnet = vitkeras.models.ResNet((64, 96, 3), (1,), 0.5, classes=7)
    with pytest.raises(ValueError, match="model must hold a MultiHeadSelfAttention layer, 'resnet' holds none"):
        attention_rollout(resnet, np.zeros((1, 64, 96, 3), "float32"))
    axial = vitkeras.models.AxialViT((21, 55, 2), (3, 5), 2, 12, 3, 17, classes=7)
    with pytest.raises(ValueError, match="'axial_vit' has maps of shapes .* axial attention has no rollout"):
        attention_rollout(axial, IMAGES)
    with pytest.raises(ValueError, match="model must be a keras.Model, received 3"):
        attention_rollout(3, IMAGES)
    with pytest.raises(ValueError, match=r"maps must be arrays .* received shapes \[\(1, 2, 3\)\]"):
        roll_out([np.zeros((1, 2, 3))])
    with pytest.raises(ValueError, match=r"received shapes \[\]"):
        roll_out([])
