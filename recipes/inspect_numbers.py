"""What the report of `recipes.inspect` shows: photos in, numbers out.

Legend: L layers, H heads, h w patch grid.
"""

import os
from dataclasses import dataclass

import numpy as np

from .predictors import head_of

TOP = 5  # classes shown
ORIENTATION = 274  # EXIF tag


@dataclass(frozen=True)
class Photo:
    """An image file.

    Attributes:
        path: str.
        pixels: uint8 array (height, width, 3), the whole picture at its own size.
        is_turned: bool, whether the file asks to be shown turned or mirrored, which the models' preprocessing ignores.
    """

    path: str
    pixels: np.ndarray
    is_turned: bool


@dataclass(frozen=True)
class Look:
    """What a model sees in one photo.

    Attributes:
        photo: `Photo`.
        rollouts: dict of head fusion ("mean", "min") -> array (h, w).
        steps: list of L arrays (h, w), the mean's rollout after each layer.
        last: array (h, w), the last layer's attention alone, mean of the heads.
        heads: array (L, H, h, w), what the class token (or the mean of all tokens) looks at.
        distances: array (L, H) in pixels of the model's input.
        predictions: list of (class, name, probability), best first; empty without a head.
    """

    photo: Photo
    rollouts: dict
    steps: list
    last: np.ndarray
    heads: np.ndarray
    distances: np.ndarray
    predictions: list


def read_photo(path):
    """Reads an image file of any size and mode as the data pipelines do.

    Raises:
        ValueError: if there is no such file, or it is no image that can be read.
    """
    from vitkeras._optional import require
    from vitkeras.data.images import decode_with_pillow

    if not os.path.isfile(path):
        raise ValueError(f"--image must be a file that exists, received {path!r}.")
    with open(path, "rb") as file:
        encoded = file.read()
    image_module = require("PIL.Image", "Pillow", "reading image files")
    try:
        pixels = decode_with_pillow(encoded)
        with image_module.open(path) as image:
            is_turned = image.getexif().get(ORIENTATION, 1) != 1
    # Damaged files raise what they like in Pillow; a file too large to be decoded safely, an error of its own.
    except (ValueError, OSError, SyntaxError, EOFError, image_module.DecompressionBombError) as error:
        raise ValueError(f"--image {path} must be a readable image ({str(error).rstrip('.')}).") from error
    return Photo(path, pixels, is_turned)


def look(model, photo, names=(), input_values="scaled"):
    """Runs `model` on a photo, resized as evaluation does.

    Args:
        model: a `keras.Model` of known input size.
        photo: `Photo`.
        names: the model's classes, or () where they are unknown.
        input_values: "scaled" (default), the model takes -1...1, or "pixels", 0...255.

    Returns:
        `Look`.

    Raises:
        ValueError: if the model has no attention over a patch grid.
    """
    import vitkeras
    from vitkeras.analysis.distance import layer_distances
    from vitkeras.analysis.figures_heads import head_maps
    from vitkeras.analysis.rollout import grid_attention, read_patches, roll_out, roll_out_steps
    from vitkeras.data.resizing import resizer

    size = model.input_shape[1:3]
    pixels = resizer("resize")(photo.pixels, size).numpy()
    images = np.asarray(pixels, "float32") if input_values == "pixels" else vitkeras.preprocess_input(pixels)
    attention = grid_attention(model, images[None])
    _require_finite(attention, photo.path)
    steps = [read_patches(rollout, attention)[0] for rollout in roll_out_steps(attention.maps)]
    weakest = read_patches(roll_out(attention.maps, "min"), attention)[0]
    return Look(
        photo,
        {"mean": steps[-1], "min": weakest},
        steps,
        read_patches(attention.maps[-1].mean(axis=1), attention)[0],
        head_maps(attention),
        layer_distances(attention, size, model.name),
        predictions(model, attention.output, names),
    )


def _require_finite(attention, path):
    for number, weights in enumerate(attention.maps, 1):
        if not np.isfinite(weights).all():
            raise ValueError(
                f"--model must attend with finite weights, received nan or inf in layer {number} for --image {path}: "
                "its own weights may be damaged."
            )


def predictions(model, output, names):
    """list of the `TOP` classes (class, name, probability), best first; [] for a model without head."""
    import keras

    from vitkeras.evaluation import head_probabilities

    if head_layer(model) is None or len(output.shape) != 2:
        return []
    scores = keras.ops.convert_to_numpy(keras.ops.cast(output, "float32"))
    if not np.isfinite(scores).all():
        raise ValueError("--model must give finite scores, received nan or inf: its weights may be damaged.")
    scores = head_probabilities(scores, head_of(model))[0]
    if names and len(names) != len(scores):
        raise ValueError(f"--labels must hold the model's {len(scores)} classes, received {len(names)}.")
    best = np.argsort(-scores, kind="stable")[:TOP]
    return [(int(k), names[k] if names else f"class {k}", float(scores[k])) for k in best]


def head_layer(model):
    """The dense layer that a model's output comes from, or None where it returns features."""
    import keras

    last = model.layers[-1]
    while isinstance(last, keras.Model):
        last = last.layers[-1]
    return last if isinstance(last, keras.layers.Dense) and last.name != "pre_logits" else None


def facts(model, path):
    """What the model is, as dict of words -> value for people and programs."""
    from vitkeras import layers
    from vitkeras.analysis.embeddings import position_layers

    inside = list(model._flatten_layers())
    attentions = [layer for layer in inside if isinstance(layer, layers.MultiHeadSelfAttention)]
    kinds = {
        layers.PositionEmbedding: "learned, 1-d",
        layers.PositionEmbedding2D: "learned, 2-d",
        layers.RelativePositionLogits: "relative",
    }
    has_token = any(isinstance(layer, layers.ClassToken) for layer in inside)
    return {
        "model": model.name,
        "file": os.path.basename(os.path.normpath(path)),
        "image size": list(model.input_shape[1:3]),
        "layers": len(attentions),
        "heads": attentions[0].num_heads if attentions else 0,
        "width": attentions[0].query.units if attentions else 0,
        "position embedding": _positions([kinds[type(layer)] for layer in position_layers(model)]),
        "class token": has_token,
        "classes": None if head_layer(model) is None else int(model.output_shape[-1]),
        "parameters": model.count_params(),
    }


def _positions(kinds):
    if not kinds:
        return "none"
    return kinds[0] if len(kinds) == 1 else f"{kinds[0]}, in {len(kinds)} layers"
