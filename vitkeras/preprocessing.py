"""From pixels to the models' input, and from scores to names."""

import json

import keras
import numpy as np

from vitkeras.checkpoints.download import fetch

_IMAGENET = "https://storage.googleapis.com/download.tensorflow.org/data/imagenet_class_index.json"
_IMAGENET21K = "https://storage.googleapis.com/bit_models/imagenet21k_wordnet_{}.txt"


def preprocess_input(x):
    """Maps pixels from 0...255 to the -1...1 that every model here takes: `(x - 127.5) / 127.5`.

    Args:
        x: array or tensor of any shape, integer or floating, values 0...255.

    Returns:
        float32 array (for NumPy input, lists and PIL images) or tensor (for backend tensors) of the same shape.

    Example:
        >>> preprocess_input(np.array([0, 255], "uint8"))
        array([-1.,  1.], dtype=float32)
    """
    if x is None or isinstance(x, (str, bytes, dict)):
        raise ValueError(f"x must be an array or tensor of pixels, received {type(x).__name__}.")
    symbolic = isinstance(x, keras.KerasTensor) or keras.ops.is_tensor(x)
    x = keras.ops.cast(x, "float32") if symbolic else np.asarray(x, "float32")
    return (x - 127.5) / 127.5


def decode_predictions(preds, top=5, class_names=None):
    """Names the highest scores of each image.

    Args:
        preds: float array or tensor (B, K): probabilities or logits. K is 1000 (ImageNet-1k) or 21843
            (ImageNet-21k, whose names are fetched once), or any with `class_names`.
        top: int >= 1, how many classes an image. Default 5.
        class_names: None, or a sequence of K names for a fine-tuned head.

    Returns:
        A list with one entry an image: a list of `top` tuples (class id, name, score), best first. The class id
        is the WordNet id, or the class index with `class_names`.

    Raises:
        ValueError: if `preds` isn't (B, K) of finite numbers, `top` is outside 1...K, or K has no names.
        ConnectionError: if the names of ImageNet are neither cached nor reachable.

    Example:
        >>> decode_predictions(np.array([[0.1, 0.9]]), top=1, class_names=["cat", "dog"])
        [[(1, 'dog', 0.9)]]
    """
    preds = keras.ops.convert_to_numpy(preds)
    if preds.ndim != 2:
        raise ValueError(f"preds must have shape (batch, classes), received {preds.shape}.")
    classes = preds.shape[1]
    if preds.dtype.name == "bfloat16":  # no kind of NumPy's own
        preds = preds.astype("float32")
    if preds.dtype.kind not in "fiu":
        raise ValueError(f"preds must be numbers, received {preds.dtype}.")
    if not np.isfinite(preds).all():
        raise ValueError("preds must be finite, received NaN or infinite ones.")
    if not isinstance(top, int) or not 1 <= top <= classes:
        raise ValueError(f"top must be in 1...{classes}, received {top!r}.")
    if class_names is not None:
        if isinstance(class_names, str) or not hasattr(class_names, "__len__"):
            raise ValueError(f"class_names must be a sequence of names, received {class_names!r}.")
        if len(class_names) != classes:
            raise ValueError(f"class_names must hold {classes} names, received {len(class_names)}.")
        ids = list(enumerate(class_names))
    elif classes == 1000:
        ids = _imagenet_names()
    elif classes == 21843:
        ids = _imagenet21k_names()
    else:
        raise ValueError(f"preds must have 1000 or 21843 classes, or come with class_names; received {classes}.")
    best = np.argsort(-preds, axis=1, kind="stable")[:, :top]
    return [[(*ids[k], row[k].item()) for k in order] for row, order in zip(preds, best)]


def _imagenet_names():
    path = fetch(_IMAGENET, "names/imagenet_class_index.json")
    try:
        with open(path, encoding="utf-8") as file:
            index = json.load(file)
        names = [(id, name) for id, name in (index[str(k)] for k in range(1000))]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path!r} must hold the ids and names of 1000 classes, and is damaged ({error!r})."
        ) from error
    return names


def _imagenet21k_names():
    columns = []
    for kind in ("ids", "lemmas"):
        path = fetch(_IMAGENET21K.format(kind), f"names/imagenet21k_wordnet_{kind}.txt")
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
        if len(lines) != 21843:
            raise ValueError(f"{path!r} must hold 21843 lines, received {len(lines)}.")
        columns.append(lines)
    return list(zip(*columns))
