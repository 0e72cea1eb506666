"""A small Vision Transformer on a 3 x 11 grid, its masked-patch model and batches; for the masked-patch tests."""

import keras
import numpy as np
import tensorflow as tf

import vitkeras
from vitkeras.training import masked_patch_batches, masked_patch_model

TARGETS = ("mean_color", "color_4x4", "pixels")
H, W, P, Q = 21, 55, 7, 5  # a 3 x 11 grid
N, M = 33, 16
D = 26


def backbone(**kwargs):
    keras.utils.set_random_seed(3)
    arguments = dict(num_layers=2, hidden_dim=D, num_heads=2, mlp_dim=37, include_top=False)
    return vitkeras.VisionTransformer((H, W, 3), (P, Q), **(arguments | kwargs))


def model_for(target="mean_color", seed=5, **kwargs):
    """A model whose weights, the head's and the mask embedding included, are all random."""
    model = masked_patch_model(backbone(**kwargs), target)
    rng = np.random.default_rng(seed)
    for name in ("kernel", "bias"):
        weight = getattr(model.get_layer("patch_predictions"), name)
        weight.assign(rng.normal(scale=0.3, size=weight.shape))
    return model


def images(count=6, seed=8):
    return np.random.default_rng(seed).uniform(-1, 1, (count, H, W, 3)).astype("float32")


def dataset(target="mean_color", count=6, batch=6, **kwargs):
    x = tf.data.Dataset.from_tensor_slices((images(count), np.zeros(count, "int32"))).batch(batch, drop_remainder=True)
    return masked_patch_batches(x.repeat(), (P, Q), target, **kwargs)


def first(batches, step=0):
    inputs, targets = next(iter(batches.skip(step)))
    return {name: x.numpy() for name, x in inputs.items()}, targets.numpy()
