"""The configuration is read off the file, and what can't be read is asked for."""

import re

import keras
import numpy as np
import pytest

import vitkeras
from vitkeras.checkpoints.stem import adapt_channels

POSITION = "Transformer/posembed_input/pos_embedding"


def numpy(x):
    return keras.ops.convert_to_numpy(x)


@pytest.mark.parametrize("name", ["vit_token_32x32", "vit_token_rep24", "vit_gap", "ft_64to96_dst"])
def test_plain_models(name, golden, assert_close):
    model = vitkeras.from_checkpoint(golden.path(name), classifier_activation=None, name="mine", dropout_rate=0.25)
    io = golden(f"{name}_io")
    assert_close(model(io["input"]), io["logits"], atol=2e-5)
    assert model.name == "mine" and model.get_layer("encoder_block_00").dropout_rate == 0.25
    assert model.input_shape[1:] == io["input"].shape[1:]


def test_hybrid_configuration(golden):
    model = vitkeras.from_checkpoint(golden.path("hybrid_r111_w05_p1"))
    assert [layer.name for layer in model.layers if layer.name.startswith("block")] == [
        "block1_unit01",
        "block2_unit01",
        "block3_unit01",
    ]
    assert model.get_layer("conv_root").filters == 32 and model.input_shape == (None, 64, 64, 3)


def test_at_another_size(golden):
    model = vitkeras.from_checkpoint(golden.path("vit_token_32x32"), input_shape=(48, 80, 3))
    assert model.get_layer("position_embedding").embedding.shape == (1, 16, 48)


def test_classes(golden):
    path = golden.path("vit_token_rep24")
    model = vitkeras.from_checkpoint(path, classes=5)
    assert model.output_shape == (None, 5) and not numpy(model.get_layer("head").kernel).any()
    assert "pre_logits" not in [layer.name for layer in model.layers]
    assert vitkeras.from_checkpoint(path, classes=7).get_layer("pre_logits").units == 24
    assert vitkeras.from_checkpoint(path, include_top=False, pooling="token").output_shape == (None, 48)


def test_through_the_weights_argument(golden, save, arrays):
    headless = {key: value for key, value in arrays.items() if not key.startswith("head/")}
    path = save(headless)
    body = ((32, 32, 3), 16, 2, 48, 3, 96)
    with pytest.raises(ValueError, match="has no head; use include_top=False, or give classes for a new one"):
        vitkeras.VisionTransformer(*body, weights=path)
    assert vitkeras.VisionTransformer(*body, weights=path, classes=5).output_shape == (None, 5)


def test_what_a_timm_file_does_not_tell(golden):
    path = golden.path(".").parent / "timm_vit_32x32.safetensors"
    message = "does not tell its number of heads, and its hidden dimension 48 is none of the known (192, 384, 768, 1024"
    with pytest.raises(ValueError, match=re.escape(message)):
        vitkeras.from_checkpoint(path)
    for heads in (5, 0, 2.0):
        with pytest.raises(ValueError, match="num_heads must be a divisor of the hidden dimension 48, received"):
            vitkeras.from_checkpoint(path, num_heads=heads)


def test_an_argument_that_the_file_tells_is_refused(golden):
    with pytest.raises(ValueError, match="num_layers is read off checkpoint .*, received 3"):
        vitkeras.from_checkpoint(golden.path("vit_token_32x32"), num_layers=3)


FAULTS = {
    "no patches": (dict(drop="embedding/kernel"), "has no array 'embedding/kernel' to read the configuration from"),
    "rank": (
        dict(change=("embedding/kernel", (16, 48))),
        "array 'embedding/kernel': must have rank 4 and no empty axis",
    ),
    "no MLP": (
        dict(drop="MlpBlock_3/Dense_0/kernel"),
        "has no array 'Transformer/encoderblock_0/MlpBlock_3/Dense_0/ker",
    ),
    "gap": (dict(rename=("encoderblock_1", "encoderblock_7")), "its blocks must be numbered from 0, received [0, 7]"),
    "grid": (dict(change=(POSITION, (1, 7, 48))), "its positions form no square (beside one for a class token)"),
}


@pytest.mark.parametrize("fault, message", FAULTS.values(), ids=FAULTS)
def test_files_that_do_not_tell(fault, message, arrays, save):
    if "drop" in fault:
        arrays = {key: value for key, value in arrays.items() if not key.endswith(fault["drop"])}
    if "change" in fault:
        arrays[fault["change"][0]] = np.ones(fault["change"][1], "float32")
    if "rename" in fault:
        arrays = {key.replace(*fault["rename"]): value for key, value in arrays.items()}
    with pytest.raises(ValueError, match=re.escape(message)):
        vitkeras.from_checkpoint(save(arrays))


def test_units_that_are_not_numbered_from_one(golden, save):
    arrays = {key.replace("block2/unit1", "block2/unit5"): a for key, a in golden("hybrid_r11_w05_smallvar").items()}
    with pytest.raises(ValueError, match=re.escape("ResNet units must be numbered from 1, received [(1, 1), (2, 5)]")):
        vitkeras.from_checkpoint(save(arrays))


def test_a_real_network(test_data):
    path = test_data / "weights" / "vit_s14_real_fp16.npz"
    if not path.is_file():
        pytest.skip(f"test data absent: {path}")
    model = vitkeras.from_checkpoint(path, activation="gelu", pooling="token")
    assert model.input_shape == (None, 224, 224, 3) and model.output_shape == (None, 384)
    assert model.get_layer("encoder_block_11").num_heads == 6


# The number of channels.


def test_grey_images_see_what_three_equal_channels_see(golden, assert_close, rng):
    path = golden.path("vit_token_32x32")
    grey = rng.uniform(-1, 1, (2, 32, 32, 1)).astype("float32")
    colour = vitkeras.from_checkpoint(path, classifier_activation=None)
    one = vitkeras.from_checkpoint(path, classifier_activation=None, input_shape=(32, 32, 1))
    five = vitkeras.from_checkpoint(path, classifier_activation=None, input_shape=(32, 32, 5))
    expected = colour(np.repeat(grey, 3, axis=-1))
    assert_close(one(grey), expected, atol=2e-5)
    # 0, 1, 2, 0, 1: twice the first two, so equal channels give the same only in the mean of a whole cycle.
    six = vitkeras.from_checkpoint(path, classifier_activation=None, input_shape=(32, 32, 6))
    assert_close(six(np.repeat(grey, 6, axis=-1)), expected, atol=2e-5)
    kernel = golden("vit_token_32x32")["embedding/kernel"]
    np.testing.assert_array_equal(
        numpy(five.get_layer("patch_embedding").projection.kernel),
        (kernel[:, :, [0, 1, 2, 0, 1]] * np.float32(0.6)).astype("float32"),
    )


def test_channels_and_normalisation_together(golden, assert_close, rng):
    path, mean, std = golden.path("vit_token_32x32"), (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    grey = rng.uniform(-1, 1, (2, 32, 32, 1)).astype("float32")
    given = dict(classifier_activation=None, input_mean=mean, input_std=std)
    one = vitkeras.from_checkpoint(path, input_shape=(32, 32, 1), **given)
    three = vitkeras.from_checkpoint(path, **given)
    assert_close(one(grey), three(np.repeat(grey, 3, axis=-1)), atol=2e-5)


def test_hybrids_take_other_channels_too(golden):
    path = golden.path("hybrid_r11_w05_smallvar")
    model = vitkeras.from_checkpoint(path, input_shape=(64, 64, 1))
    kernel = golden("hybrid_r11_w05_smallvar")["conv_root/kernel"]
    np.testing.assert_array_equal(numpy(model.get_layer("conv_root").kernel), kernel.sum(axis=2, keepdims=True))
    with pytest.raises(ValueError, match="input_mean and input_std fold into a patch embedding only"):
        vitkeras.from_checkpoint(path, input_mean=0.5, input_std=0.5)


def test_only_files_for_three_channels_are_adapted(arrays, save, make, refused):
    arrays["embedding/kernel"] = arrays["embedding/kernel"][:, :, :2]
    message = "'embedding/kernel' must have shape (16, 16, 3, 48), received (16, 16, 2, 48)"
    refused(save(arrays), message)


@pytest.mark.parametrize("channels, expected", [(1, [6.0]), (2, [1.5, 3.0]), (4, [0.75, 1.5, 2.25, 0.75])])
def test_the_rule_of_the_channels(channels, expected):
    kernel = np.broadcast_to(np.array([1.0, 2.0, 3.0])[:, None], (2, 2, 3, 5))
    np.testing.assert_array_equal(adapt_channels(kernel, channels)[1, 0, :, 4], expected)
