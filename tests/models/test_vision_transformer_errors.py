"""What `VisionTransformer` and its models refuse, and how they say it."""

import re

import keras
import numpy as np
import pytest
from tiny_vit import tiny

ERRORS = {
    "classifier": (dict(classifier="cls"), "classifier must be one of ('token', 'gap', 'token_unpooled', 'unpooled')"),
    "position": (
        dict(position_embedding="rope"),
        "position_embedding must be one of ('none', 'learned_1d', 'learned_2d', 'relative'), received 'rope'",
    ),
    "pooling": (
        dict(include_top=False, pooling="mean"),
        "pooling must be one of (None, 'token', 'avg', 'max'), received 'mean'.",
    ),
    "pooling with top": (
        dict(pooling="avg"),
        "pooling is for include_top=False, received 'avg' with include_top=True.",
    ),
    "token pooling without token": (
        dict(include_top=False, classifier="gap", pooling="token"),
        "pooling='token' needs a class token, received classifier='gap'.",
    ),
    "activation": (dict(activation="relu"), "activation must be 'gelu_tanh'"),
    "layers": (dict(num_layers=0), "num_layers must be a positive int, received 0."),
    "heads": (dict(num_heads=0), "num_heads must be a positive int, received 0."),
    "half heads": (dict(num_heads=1.5), "num_heads must be a positive int, received 1.5."),
    "heads do not divide": (dict(num_heads=4), "hidden_dim must be a multiple of num_heads 4, received 21."),
    "width": (dict(hidden_dim=21.0), "hidden_dim must be a positive int, received 21.0."),
    "mlp": (dict(mlp_dim=-23), "mlp_dim must be a positive int, received -23."),
    "classes": (dict(classes=0), "classes must be a positive int, received 0."),
    "representation": (dict(representation_size=0), "representation_size must be a positive int, received 0."),
    "dropout": (dict(dropout_rate=1.0), "dropout_rate must be in [0, 1), received 1.0."),
    "attention dropout": (
        dict(attention_dropout_rate=-0.1),
        "attention_dropout_rate must be in [0, 1), received -0.1.",
    ),
    "stochastic depth": (
        dict(num_layers=1, stochastic_depth_rate=1.5),
        "stochastic_depth_rate must be in [0, 1), received 1.5.",
    ),
    "epsilon": (dict(layer_norm_epsilon=-1.0), "layer_norm_epsilon must be a finite number >= 0, received -1.0."),
    "image height": (
        dict(input_shape=(22, 55, 2)),
        "image height must be a multiple of the patch height 3, received 22 (remainder 1).",
    ),
    "image width": (
        dict(input_shape=(21, 56, 2)),
        "image width must be a multiple of the patch width 5, received 56 (remainder 1).",
    ),
    "image rank": (
        dict(input_shape=(21, 55)),
        "all positive ints, or None for any height and width, received (21, 55).",
    ),
    "image without size": (
        dict(input_shape=(49, 55, None)),
        "input_shape must be (height, width, channels), all positive ints, or None for any height and width, "
        "received (49, 55, None).",
    ),
}


@pytest.mark.parametrize("arguments, message", ERRORS.values(), ids=ERRORS)
def test_error(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        tiny(**arguments)


def test_an_input_tensor_that_contradicts_the_shape_is_refused():
    tensor = keras.Input((21, 50, 2))
    with pytest.raises(
        ValueError, match=r"input_tensor has shape \(21, 50, 2\), which contradicts input_shape \(21, 55, 2\)"
    ):
        tiny(input_tensor=tensor)


@pytest.mark.parametrize(
    "channels, message",
    [
        (1, "expected axis -1 of input shape to have value 2, but received input with shape (2, 21, 55, 1)"),
        (3, "expected shape=(None, 21, 55, 2), found shape=(2, 21, 55, 3)"),
    ],
)
def test_the_wrong_number_of_channels_is_refused_by_the_model(channels, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        tiny()(np.zeros((2, 21, 55, channels), "float32"))


@pytest.mark.parametrize("shape", [(2, 24, 55, 2), (2, 21, 50, 2)])
def test_another_image_size_is_refused_by_the_model(shape):
    with pytest.raises(ValueError, match=re.escape(f"expected shape=(None, 21, 55, 2), found shape={shape}")):
        tiny()(np.zeros(shape, "float32"))
