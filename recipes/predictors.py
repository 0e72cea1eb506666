"""A model from any kind of file as a function of images: Keras, `.tflite`, SavedModel.

Legend: n images, H and W image size, K outputs.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from .loading import load_model
from .text_file import read_text

PIXELS, SCALED = "pixels", "scaled"
ACTIVATIONS = {"linear": "logits", "softmax": "softmax", "sigmoid": "sigmoid"}


@dataclass(frozen=True)
class Predictor:
    """A model that scores images.

    Attributes:
        kind: str, "Keras model", "TFLite file" or "SavedModel".
        size: (H, W), or (None, None) for any.
        outputs: int, K.
        class_names: tuple of K str, or () where they are unknown.
        head: what the scores are: one of `vitkeras.evaluation.probabilities.HEADS`, or "top_k".
        values: "pixels" (0...255) or "scaled" (-1...1), what the model takes; None where the file doesn't say.
        call: function of an array (n, H, W, 3) of such values -> float array (n, K).
        listed: int or None, how many of the outputs a "top_k" file gives; the others have the score -1.
    """

    kind: str
    size: tuple
    outputs: int
    class_names: tuple
    head: str
    values: str | None
    call: Callable
    listed: int | None = None

    def scores(self, images):
        """float32 array (n, K) of images (n, H, W, 3) in -1...1, as `vitkeras.data.eval_batches` gives them."""
        if self.values == PIXELS:
            images = np.clip(np.asarray(images) * 127.5 + 127.5, 0.0, 255.0)
        return np.asarray(self.call(images)).astype("float32")


def open_predictor(path, ema=False, labels=None, head="auto", values="auto", num_threads=2, strategy=None):
    """Opens a model.

    Args:
        path: str, what `load_model` takes, a `.tflite` file, or the folder of a SavedModel.
        ema: bool, take a checkpoint's averaged weights. Default False.
        labels: path of a text file with the outputs' names, one a line, or None for those in or beside the model.
        head: "auto" (default), by the last layer; or what the scores are, one of
            `vitkeras.evaluation.probabilities.HEADS`.
        values: "auto" (default), as the model says; "pixels" or "scaled".
        num_threads: int >= 1, for `.tflite` files. Default 2.
        strategy: `tf.distribute` strategy in whose scope a Keras model is made, or None.

    Returns:
        `Predictor`.

    Raises:
        ValueError: if there is no model that scores classes, or names don't fit.
    """
    if path.endswith(".tflite") or os.path.exists(os.path.join(path, "saved_model.pb")):
        if ema:
            raise ValueError(f"ema=true is for checkpoints of a run with train.ema_decay, received {path!r}.")
        if not os.path.exists(path):
            raise ValueError(f"--model must be a file or folder that exists, received {path!r}.")
    if path.endswith(".tflite"):
        from .tflite_predictor import open_tflite

        found = open_tflite(path, num_threads)
    elif os.path.exists(os.path.join(path, "saved_model.pb")):
        from .saved_model_predictor import open_saved_model

        found = open_saved_model(path)
    else:
        found = _open_keras(path, ema, strategy)
    if labels is not None:
        found = replace(found, class_names=read_names(labels))
    if found.class_names and len(found.class_names) != found.outputs:
        where = labels or f"of {path}"
        raise ValueError(
            f"labels {where} must be one name for each of the model's {found.outputs} outputs, "
            f"received {len(found.class_names)}."
        )
    found = replace(found, values=values if values != "auto" else found.values)
    if found.values is None:
        raise ValueError(
            f"--model {path} doesn't say what it takes; add --set input_values=pixels (0...255) or =scaled (-1...1)."
        )
    if found.outputs < 2:
        raise ValueError(f"--model {path} must have an output for each of at least 2 classes, received 1 output.")
    return found if head == "auto" or found.head == "top_k" else replace(found, head=head)


def read_names(path):
    """tuple of str, the lines of a text file; empty lines at its end don't count."""
    names = tuple(line.strip() for line in read_text(path, "--labels").rstrip().splitlines())
    if not names:
        raise ValueError(f"--labels {path} must hold names, one a line, received an empty file.")
    return names


def chosen_output(names, path):
    """The output that scores classes: (its name, or None for "scores" with "indices"), of a file's output names."""
    for name in ("logits", "probabilities"):
        if name in names:
            return name
    if set(names) == {"scores", "indices"}:
        return None
    if len(names) == 1 and not next(iter(names)).startswith(("features", "embedding")):
        return next(iter(names))
    raise ValueError(f"--model {path} must have an output that scores classes, received {', '.join(sorted(names))}.")


def head_of(model):
    """What the scores of a Keras model are, by the activation of its last layer."""
    import keras

    layer = model.layers[-1]
    if isinstance(layer, keras.Model):
        return head_of(layer)
    if isinstance(layer, keras.layers.Softmax):
        return "softmax"
    return ACTIVATIONS.get(getattr(getattr(layer, "activation", None), "__name__", "linear"), "logits")


def _open_keras(path, ema, strategy):
    import contextlib

    from vitkeras._tensorflow import tf
    from vitkeras.models.own_scaling import scaling_operation

    with strategy.scope() if strategy is not None else contextlib.nullcontext():
        model, names = load_model(path, ema)
    if len(model.outputs) != 1 or len(model.outputs[0].shape) != 2:
        shapes = [tuple(output.shape) for output in model.outputs]
        raise ValueError(f"--model {path} must give one score for each class (batch, classes), received {shapes}.")
    predict = tf.function(lambda x: model(x, training=False))

    def call(images):
        return tf.cast(predict(tf.cast(images, "float32")), "float32").numpy()

    size = tuple(model.input_shape[1:3])
    values = SCALED if scaling_operation(model) is None else None
    return Predictor("Keras model", size, model.output_shape[-1], tuple(names), head_of(model), values, call)
