"""The real net of the export benchmarks: ViT-S/14 with a linear head on twelve species of the Oxford flowers.

The data are looked for in the folder that VITKERAS_TEST_DATA names (default: ../shared); Oxford's photos are public
(`tfds:oxford_flowers102`), any ViT-S/14 in the original layout will do.
"""

import os
from dataclasses import dataclass

import keras
import numpy as np

import vitkeras
from vitkeras import data
from vitkeras.models import build_variant

SIZE = (224, 224)
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
RIDGE = 400.0  # of 30, 100, ... 2000 the largest with the best leave-one-out accuracy on the training photos, 98.06 %


@dataclass(frozen=True)
class FlowersNet:
    """The model (pixels scaled to -1...1 in, logits out) and the photos as pixels 0...255."""

    model: keras.Model
    train_x: np.ndarray
    train_y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray


def _data_root():
    """The folder that holds photos and weights."""
    return os.path.abspath(
        os.environ.get("VITKERAS_TEST_DATA") or os.path.join(os.path.dirname(__file__), "../../shared")
    )


def flowers_spec():
    """The photos as `data.open_dataset` takes them."""
    return f"folder:{os.path.join(_data_root(), 'data/flowers12')}"


def flowers_net():
    """Loads weights and photos, fits the head by least squares (targets -1 and 1) and returns a `FlowersNet`.

    Raises:
        FileNotFoundError: if the folder of the data is missing; it says which.
    """
    weights = os.path.join(_data_root(), "weights/vit_s14_real_fp16.npz")
    for path in (flowers_spec().removeprefix("folder:"), weights):
        if not os.path.exists(path):
            raise FileNotFoundError(f"{path} is missing; VITKERAS_TEST_DATA names the folder that holds it.")
    sets = data.open_dataset(flowers_spec())
    (train_x, train_y), (test_x, test_y) = (data.raw_images(part, SIZE) for part in (sets.train, sets.test))
    settings = {"patch_size": 14, "activation": "gelu", "classes": 12, "classifier_activation": None}
    model = build_variant("vit_s16", input_shape=(*SIZE, 3), **settings)
    vitkeras.load_checkpoint(model, weights, load_head=False, input_mean=IMAGENET_MEAN, input_std=IMAGENET_STD)
    fit_head(model, train_x, train_y)
    return FlowersNet(model, train_x, train_y, test_x, test_y)


def fit_head(model, images, labels):
    """Fits the layer `head` by least squares with a free bias."""
    backbone = keras.Model(model.input, model.get_layer("head").input)
    x = backbone.predict(vitkeras.preprocess_input(images.astype("float32")), batch_size=16, verbose=0).astype(
        "float64"
    )
    y = 2.0 * (labels[:, None] == np.arange(labels.max() + 1)) - 1
    centre, offset = x.mean(axis=0), y.mean(axis=0)
    kernel = np.linalg.solve((x - centre).T @ (x - centre) + RIDGE * np.eye(x.shape[1]), (x - centre).T @ (y - offset))
    model.get_layer("head").kernel.assign(kernel)
    model.get_layer("head").bias.assign(offset - centre @ kernel)
