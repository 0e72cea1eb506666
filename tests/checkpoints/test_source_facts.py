"""A source that knows better than the model: GELU, epsilon and heads are the source's."""

import re

import pytest
from layout_files import hugging_face, timm

import vitkeras

CONTRADICTIONS = {
    "activation": (dict(activation="gelu_tanh"), "activation must be 'gelu', that of checkpoint"),
    "epsilon": (dict(layer_norm_epsilon=1e-3), "layer_norm_epsilon must be 1e-06, that of checkpoint"),
}


@pytest.mark.parametrize("arguments, message", CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_an_explicit_contradiction_is_refused(arguments, message, golden, make, refused):
    refused(timm(golden), message, make(**{"activation": "gelu", **arguments}))
    with pytest.raises(ValueError, match=re.escape(message)):
        vitkeras.from_checkpoint(timm(golden), num_heads=3, **arguments)
    with pytest.raises(ValueError, match=re.escape(message)):
        make(weights=timm(golden), **arguments)


def test_heads_that_contradict_the_settings(golden, make, refused):
    model = vitkeras.VisionTransformer(
        (32, 32, 3), 16, 2, 48, 4, 96, classes=7, activation="gelu", layer_norm_epsilon=1e-12
    )
    refused(hugging_face(golden), "num_heads must be 3, that of checkpoint", model)
    with pytest.raises(ValueError, match="num_heads must be 3, that of checkpoint .*, received 4"):
        vitkeras.from_checkpoint(hugging_face(golden), num_heads=4)


def test_weights_brings_the_sources_constants(golden, make):
    for path, epsilon in ((timm(golden), 1e-6), (hugging_face(golden), 1e-12)):
        block = make(weights=path).get_layer("encoder_block_00")
        assert (block.activation, block.layer_norm_epsilon) == ("gelu", epsilon)


def test_the_variant_functions_take_them_too(golden, rng):
    body = dict(num_layers=2, hidden_dim=48, num_heads=3, mlp_dim=96)
    for path in (timm(golden), hugging_face(golden), str(hugging_face(golden))):
        model = vitkeras.ViTTi16(weights=path, **body)
        assert model.input_shape == (None, 32, 32, 3) and model.output_shape == (None, 7)
        assert model.get_layer("encoder_block_00").activation == "gelu"


def test_the_original_layout_says_nothing_of_the_gelu(golden, make):
    model = make(activation="gelu", layer_norm_epsilon=1e-5, weights=golden.path("vit_token_32x32"))
    assert model.get_layer("encoder_block_00").activation == "gelu"
