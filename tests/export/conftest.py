import keras
import numpy as np
import pytest

import vitkeras

IMAGE = (33, 55, 3)  # patches of 11: a 3 x 5 grid


def make_model(seed=3, **kwargs):
    """A small net of prime sizes and a non-square image, every weight random."""
    settings = {"classes": 7, "classifier_activation": None, **kwargs}
    model = vitkeras.VisionTransformer(IMAGE, 11, 2, 38, 2, 53, **settings)
    rng = np.random.default_rng(seed)
    for variable in model.trainable_variables:
        centre = 1.0 if variable.name == "scale" else 0.0
        variable.assign(rng.normal(centre, 0.15, variable.shape).astype("float32"))
    return model


@pytest.fixture(scope="session")
def make():
    return make_model


@pytest.fixture(scope="session")
def pixels():
    """Thirteen images of real pixels: whole numbers 0...255."""
    rng = np.random.default_rng(17)
    low = rng.uniform(0, 255, (13, 3, 5, 3))
    return np.clip(np.repeat(np.repeat(low, 11, axis=1), 11, axis=2) + rng.normal(0, 15, (13, *IMAGE)), 0, 255).round()


@pytest.fixture
def expected(pixels):
    """What the Keras model says of the pixels."""

    def outputs(model, images=pixels):
        return keras.ops.convert_to_numpy(model(vitkeras.preprocess_input(images), training=False))

    return outputs


@pytest.fixture(scope="session")
def with_outliers():
    def change(model):
        """Channel 5 is forty times larger behind the first LayerNorm, and its weights forty times smaller."""
        bias = model.get_layer("patch_embedding").projection.bias
        attention = model.get_layer("encoder_block_00").attention
        bias.assign(bias.numpy() + np.where(np.arange(38) == 5, 40, 0))
        for dense in (attention.query, attention.key, attention.value):
            dense.kernel.assign(dense.kernel.numpy() / np.where(np.arange(38) == 5, 40, 1)[:, None])
        return model

    return change
