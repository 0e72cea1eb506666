"""Multiply-adds, against a count by hand and the figures of the paper."""

import math

import keras
import numpy as np
import pytest
from graph_products import multiply_adds, written

import vitkeras
from vitkeras.analysis import flops


def vit_by_hand(grid, patch, layers, dim, mlp, classes=0, channels=3):
    n = 1 + grid[0] * grid[1]
    return {
        "patch": grid[0] * grid[1] * patch[0] * patch[1] * channels * dim,
        "linear": layers * (4 * n * dim**2 + 2 * n * dim * mlp) + dim * classes,
        "attention": layers * 2 * n * n * dim,
        "convolution": 0,
    }


def test_a_vit_of_odd_sizes():
    model = vitkeras.VisionTransformer((21, 55, 2), (3, 5), 3, 12, 3, 17, classes=7)
    cost = flops(model)
    assert cost.by_kind == vit_by_hand((7, 11), (3, 5), 3, 12, 17, 7, 2)
    assert cost.flops == 2 * cost.macs == 2 * sum(cost.by_kind.values())
    assert cost.parameters == model.count_params()


def vit(**more):
    return vitkeras.VisionTransformer((21, 25, 3), (7, 5), 2, 24, 3, 48, classes=7, **more)


STEM = dict(stem_blocks=(1, 2), stem_width_factor=0.5)
FAMILIES = {
    "token": vit,
    "average": lambda: vit(classifier="gap"),
    "every token": lambda: vit(classifier="token_unpooled", representation_size=11),
    "relative": lambda: vit(position_embedding="relative"),
    "2-d": lambda: vit(position_embedding="learned_2d"),
    "features": lambda: vit(include_top=False, pooling="max"),
    "hybrid": lambda: vitkeras.VisionTransformer(
        (64, 96, 3), 2, 1, 24, 3, 40, stem_blocks=(1, 2), stem_width_factor=0.5
    ),
    "resnet": lambda: vitkeras.models.ResNet((45, 67, 3), (1, 2), 0.5, classes=7),
    "axial vit": lambda: vitkeras.models.AxialViT((21, 25, 3), (7, 5), 2, 24, 3, 48, classes=7),
    "axial resnet": lambda: vitkeras.models.ResNet((45, 67, 3), (1, 1), 0.5, classes=7, attention_heads=4),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_the_calculation_is_what_the_graph_computes(name):
    model = FAMILIES[name]()
    cost = flops(model)
    assert cost.macs == multiply_adds(model)
    assert cost.activations == written(model)
    assert {layer.name: layer.parameters for layer in cost.layers if layer.parameters} == {
        layer.name: sum(map(math.prod, layer.weights.values())) for layer in cost.layers if layer.weights
    }


def test_activations_by_hand():
    n, dim, mlp, heads = 78, 12, 17, 3
    model = vitkeras.VisionTransformer((21, 55, 2), (3, 5), 2, dim, heads, mlp, classes=7)
    block = n * (3 * dim + dim + dim + mlp + dim) + heads * n * n  # q k v, weighted values, out, MLP; weights
    assert flops(model).activations == 77 * dim + 2 * block + 7
    rows = {layer.name: layer for layer in flops(model).layers}
    assert rows["encoder_block_01"].activations == block
    assert rows["encoder_block_01"].output == (n, dim) and rows["head"].output == (7,)
    assert rows["encoder_block_01"].weights["mlp/Dense_0/kernel"] == (dim, mlp)


def test_the_graphs_count_by_hand():
    assert multiply_adds(vit()) == sum(vit_by_hand((3, 5), (7, 5), 2, 24, 48, 7).values())
    image = keras.Input((7, 5, 3))
    rows = keras.layers.Masking()(keras.layers.Reshape((35, 3))(image))
    with pytest.raises(ValueError, match="the model's graph must be flat to be counted, received the call"):
        multiply_adds(keras.Model(image, keras.layers.GRU(2)(rows)))


def test_convolutions_and_units():
    model = vitkeras.models.ResNet((64, 96, 3), (1, 1), 0.5, classes=7)
    root = 32 * 48 * 7 * 7 * 3 * 32
    first = 16 * 24 * (32 * 32 + 9 * 32 * 32 + 32 * 128 + 32 * 128)
    second = 16 * 24 * 128 * 64 + 8 * 12 * (9 * 64 * 64 + 64 * 256 + 128 * 256)
    cost = flops(model)
    assert cost.by_kind == {"patch": 0, "linear": 256 * 7, "attention": 0, "convolution": root + first + second}
    assert cost.parameters == model.count_params()


def test_axial_models():
    dim, mlp, (h, w) = 12, 17, (7, 11)
    model = vitkeras.models.AxialViT((21, 55, 2), (3, 5), 2, dim, 3, mlp, classes=7)
    cost = flops(model)
    assert cost.by_kind["attention"] == 2 * 2 * dim * (h * w * w + w * h * h)
    assert cost.by_kind["linear"] == 2 * 2 * h * w * (4 * dim**2 + 2 * dim * mlp) + dim * 7
    resnet = vitkeras.models.ResNet((64, 96, 3), (1, 1), 0.5, classes=7, attention_heads=4)
    # Rows of w and columns of h positions, each with relative embeddings of 2 n - 1 offsets.
    expected = 0
    for (h, w), dim in (((16, 24), 32), ((16, 24), 64)):
        expected += h * dim * (2 * w * w + w * (2 * w - 1)) + w * dim * (2 * h * h + h * (2 * h - 1))
    assert flops(resnet).by_kind["attention"] == expected


def test_relative_positions():
    arguments = dict(classes=7, position_embedding="relative")
    model = vitkeras.VisionTransformer((21, 55, 2), (3, 5), 1, 12, 3, 17, **arguments)
    assert flops(model).by_kind["attention"] == 2 * 78 * 78 * 12 + 77 * 153 * 12


def test_another_resolution_and_a_nested_model():
    model = vitkeras.VisionTransformer((21, 55, 2), (3, 5), 3, 12, 3, 17, classes=7)
    larger = flops(vitkeras.at_resolution(model, (30, 65)))
    assert larger.by_kind == vit_by_hand((10, 13), (3, 5), 3, 12, 17, 7, 2)
    nested = keras.Sequential([keras.Input((21, 55, 2)), model, keras.layers.Dense(5)])
    assert flops(nested).macs == flops(model).macs + 35


def test_refusals():
    with pytest.raises(ValueError, match="model must be a keras.Model, received 3"):
        flops(3)
    any_size = vitkeras.VisionTransformer((None, None, 3), 16, 1, 12, 3, 17)
    with pytest.raises(ValueError, match="model must take images of a known size, layer 'patch_embedding' of"):
        flops(any_size)
    image = keras.Input((5, 4))
    other = keras.Model(image, keras.layers.LSTM(3, name="memory")(image))
    with pytest.raises(ValueError, match=r"layer 'memory' \(LSTM\) has weights whose products are not known"):
        flops(other)


def test_the_layers_are_in_the_models_order():
    model = vitkeras.VisionTransformer((21, 55, 2), (3, 5), 2, 12, 3, 17, classes=7)
    names = [layer.name for layer in flops(model).layers]
    assert names.index("patch_embedding") < names.index("encoder_block_00") < names.index("head")
    assert np.isclose(sum(layer.parameters for layer in flops(model).layers), model.count_params())
