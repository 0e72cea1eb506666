"""`input_mean` and `input_std`: a file trained on other inputs, folded so that the model takes -1...1."""

import re

import keras
import numpy as np
import pytest

import vitkeras

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def numpy(x):
    return keras.ops.convert_to_numpy(x)


@pytest.mark.parametrize("mean, std", [(MEAN, STD), (0.5, 0.25), ([0.1], [0.3])], ids=str)
def test_equals_normalising_the_input(save, arrays, make, rng, mean, std, assert_close):
    path = save(arrays)
    pixels = rng.integers(0, 256, size=(3, 32, 32, 3)).astype("float32")
    normalised = (pixels / 255 - np.asarray(mean)) / np.asarray(std)
    expected = numpy(make(weights=path)(normalised.astype("float32")))
    model = vitkeras.load_checkpoint(make(), path, input_mean=mean, input_std=std)
    assert_close(model(vitkeras.preprocess_input(pixels)), expected, atol=1e-5)
    with pytest.raises(AssertionError, match="max abs difference"):  # without the fold it is another function
        assert_close(make(weights=path)(vitkeras.preprocess_input(pixels)), expected, atol=1e-3)


def test_a_half_changes_nothing(save, arrays, make, assert_close):
    model = vitkeras.load_checkpoint(make(), save(arrays), input_mean=0.5, input_std=0.5)
    assert_close(numpy(model.get_layer("patch_embedding").projection.kernel), arrays["embedding/kernel"], atol=1e-7)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (dict(input_mean=0.5), "input_mean and input_std go together, received 0.5 and None."),
        (dict(input_std=0.5), "input_mean and input_std go together, received None and 0.5."),
        (dict(input_mean=0.5, input_std=0.0), "input_std must be positive, received [0.0, 0.0, 0.0]."),
        (dict(input_mean=0.5, input_std=(0.2, -0.1, 0.2)), "input_std must be positive, received [0.2, -0.1, 0.2]."),
        (
            dict(input_mean=(0.1, 0.2), input_std=0.5),
            "input_mean must be one finite float, or one for each of 3 channels, received (0.1, 0.2).",
        ),
        (
            dict(input_mean=0.5, input_std=np.nan),
            "input_std must be one finite float, or one for each of 3 channels, received nan.",
        ),
    ],
)
def test_errors_come_before_any_weight_changes(save, arrays, make, snapshot, arguments, message):
    model = make()
    before = snapshot(model)
    with pytest.raises(ValueError, match=re.escape(message)):
        vitkeras.load_checkpoint(model, save(arrays), **arguments)
    assert snapshot(model) == before
