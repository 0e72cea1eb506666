"""Frozen features of a data set, computed once and kept on disk.

Legend: n examples, B batch, D features.
"""

import hashlib
import os
import uuid
import zipfile

import keras
import numpy as np

from vitkeras import layers
from vitkeras.models.features import BLOCKS


def feature_model(model, layer=None):
    """Builds the model from images to one feature vector each.

    Args:
        model: a model of this library, with or without head.
        layer: None (default): what enters the head, which is `pre_logits` where the model has it (the paper's few-shot
            features). An int: that encoder block, from 0, negative ones from the end. Or the name of any layer. Tokens
            are reduced to the class token where there is one, else to their mean, as maps are.

    Returns:
        A `keras.Model` from images to (B, D) that shares the weights of `model`.

    Raises:
        ValueError: if the model has no such layer or block, or holds another model and `layer` is None.

    Example:
        >>> model = vitkeras.ViTTi16(weights=None, input_shape=(32, 48, 3), classes=7)
        >>> feature_model(model).output_shape, feature_model(model, layer=-2).output_shape
        ((None, 192), (None, 192))
    """
    x = _output(model, layer)
    if len(x.shape) == 4:
        x = keras.layers.GlobalAveragePooling2D(data_format="channels_last", name="feature_pool")(x)
    elif len(x.shape) == 3:
        prefix = sum(isinstance(part, layers.ClassToken) for part in model.layers)
        x = layers.TokenPooling("token" if prefix else "avg", prefix, name="feature_pool")(x)
    return keras.Model(model.input, x, name=f"{model.name}_features")


def fewshot_features(model, dataset, cache=None, key=""):
    """Computes the features of every example.

    Args:
        model: a `keras.Model` from images to (B, D), such as `feature_model` gives.
        dataset: iterable of batches (images, labels) or (images, labels, weights); examples of weight 0 are padding
            and left out. Such as `vitkeras.data.eval_batches` gives.
        cache: str or path-like, a folder to keep the features in, or None (default). A file there is found again by
            the model's configuration and weights and by `key`.
        key: str that names the data and their preprocessing; needed with `cache`.

    Returns:
        (float32 array (n, D), int32 array (n,) of labels).

    Raises:
        ValueError: if the data set is empty, the model gives something else than (B, D), `cache` has no `key`, or the
            cached file is damaged.

    Example:
        >>> model = vitkeras.ViTTi16(weights=None, input_shape=(32, 48, 3), classes=7)
        >>> batch = np.zeros((3, 32, 48, 3), "float32"), np.array([2, 0, 0]), np.array([1.0, 1.0, 0.0])
        >>> features, labels = fewshot_features(feature_model(model), [batch], cache="kept", key="two black images")
        >>> features.shape, labels
        ((2, 192), array([2, 0], dtype=int32))
    """
    if len(model.output_shape) != 2:
        raise ValueError(f"model must give (batch, features), received output shape {model.output_shape}.")
    if cache is None:
        return _compute(model, dataset)
    if not key:
        raise ValueError(f"cache needs a key that names the data, received key={key!r}.")
    path = os.path.join(os.fspath(cache), f"{_fingerprint(model, key)}.npz")
    if os.path.exists(path):
        return _read(path)
    features, labels = _compute(model, dataset)
    os.makedirs(cache, exist_ok=True)
    temporary = f"{path}.{uuid.uuid4().hex[:8]}.part"
    try:
        with open(temporary, "wb") as file:
            np.savez(file, features=features, labels=labels)
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)
    return features, labels


def _output(model, layer):
    names = [part.name for part in model.layers]
    if layer is None:
        inner = next((part.name for part in model.layers if isinstance(part, keras.Model)), None)
        if inner is not None:
            raise ValueError(
                f"model must hold its layers itself, {model.name!r} holds the model {inner!r}; take that one, or name "
                "a layer."
            )
        return model.get_layer("head").input if "head" in names else model.output
    if isinstance(layer, str):
        if layer not in names:
            raise ValueError(
                f"layer must be one of the model's {len(names)}, such as {names[-2]!r}, received {layer!r}."
            )
        return model.get_layer(layer).output
    blocks = [part for part in model.layers if isinstance(part, BLOCKS)]
    if not isinstance(layer, int) or isinstance(layer, bool) or not -len(blocks) <= layer < len(blocks):
        raise ValueError(
            f"layer must be None, a layer's name or the number of one of {len(blocks)} blocks, received {layer!r}."
        )
    return blocks[layer].output


def _compute(model, dataset):
    features, labels = [], []
    for images, label, *weights in dataset:
        kept = np.asarray(weights[0]) > 0 if weights else slice(None)
        features.append(np.asarray(model.predict_on_batch(images), "float32")[kept])
        labels.append(np.asarray(label).astype("int32")[kept])
    if not features or not sum(map(len, features)):
        raise ValueError("dataset must hold at least one example, received none.")
    return np.concatenate(features), np.concatenate(labels)


def _fingerprint(model, key):
    digest = hashlib.sha256(f"{key}\n{model.to_json()}".encode())
    for weight in model.weights:
        digest.update(np.ascontiguousarray(keras.ops.convert_to_numpy(keras.ops.cast(weight, "float32"))))
    return digest.hexdigest()[:32]


def _read(path):
    try:
        # Opened here: NumPy leaves the file open when it turns out to be damaged.
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as file:
            return file["features"], file["labels"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"cached features {path!r} are damaged ({error}); delete the file.") from error
