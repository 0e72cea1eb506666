"""The TensorFlow functions of a file whose head an app trains.

Legend: H x W image, C channels, D features, K classes, B examples of a step. The head is `features @ kernel + bias`;
its kernel (D, K) and bias (K,) are inputs and outputs, so the file holds no variables.
"""

import keras
import numpy as np

from .graph import tensorflow

SIGNATURES = ("features", "infer", "train_head", "get_head", "set_head")


def backbone_of(model):
    """The part of `model` below its head, (1, H, W, C) -> (1, D); raises ValueError if that is no feature vector."""
    if len(model.outputs) != 1 or isinstance(model.output, dict | list | tuple):
        raise ValueError(
            f"model must have one output, {model.name!r} has {len(model.outputs)}, or a structure of them."
        )
    names = [layer.name for layer in model.layers]
    output = model.get_layer("head").input if "head" in names else model.output
    if len(output.shape) != 2:
        raise ValueError(
            f"model must give one feature vector an image below its head, {model.name!r} gives shape {output.shape}."
        )
    return keras.Model(model.inputs[0], output, name=f"{model.name}_backbone")


def head_module(backbone, kernel, bias, batch_size):
    """Makes a `tf.Module` with one function a signature.

    Args:
        backbone: `keras.Model` (1, H, W, C) -> (1, D), from `backbone_of`.
        kernel, bias: float32 arrays (D, K) and (K,), what `get_head` returns.
        batch_size: int >= 1, B.

    Returns:
        (module, dict of name -> `tf.function`), the names being `SIGNATURES`.
    """
    tf = tensorflow()
    features, classes = kernel.shape
    module = tf.Module()
    module.backbone_variables = [variable.value for variable in backbone.variables]  # else the weights are not saved
    image = tf.TensorSpec((1, *backbone.inputs[0].shape[1:]), tf.float32, name="image")
    examples = tf.TensorSpec((batch_size, features), tf.float32, name="features")
    labels = tf.TensorSpec((batch_size,), tf.int32, name="labels")
    rate = tf.TensorSpec((), tf.float32, name="learning_rate")
    head = [tf.TensorSpec(kernel.shape, tf.float32, name="kernel"), tf.TensorSpec((classes,), tf.float32, name="bias")]

    @tf.function(input_signature=[image])
    def compute_features(image):
        return {"features": backbone(image, training=False)}

    @tf.function(input_signature=[image, *head])
    def infer(image, kernel, bias):
        # With a third axis it becomes a batched product, which XNNPACK takes over for kernels that are no constants.
        x = tf.matmul(backbone(image, training=False)[None], kernel[None])  # (1, 1, K)
        logits = tf.reshape(x, (1, classes)) + bias
        return {"logits": logits, "probabilities": tf.nn.softmax(logits)}

    @tf.function(input_signature=[examples, labels, *head, rate])
    def train_head(features, labels, kernel, bias, learning_rate):
        targets = tf.one_hot(labels, classes)  # a label outside 0...K-1 gives a row of zeros
        present = tf.reduce_sum(targets, axis=1, keepdims=True)  # (B, 1), 1 or 0
        count = tf.maximum(tf.reduce_sum(present), 1.0)
        logits = tf.matmul(features, kernel) + bias  # (B, K)
        logits = logits - tf.reduce_max(logits, axis=1, keepdims=True)
        powers = tf.exp(logits)
        total = tf.reduce_sum(powers, axis=1, keepdims=True)
        losses = present * tf.math.log(total) - tf.reduce_sum(targets * logits, axis=1, keepdims=True)
        errors = (present * powers / total - targets) / count  # (B, K), the gradient at the logits
        return {
            "kernel": kernel - learning_rate * tf.matmul(tf.transpose(features), errors),
            "bias": bias - learning_rate * tf.reduce_sum(errors, axis=0),
            "loss": tf.reduce_sum(losses) / count,
        }

    @tf.function(input_signature=[])
    def get_head():
        return {"kernel": tf.constant(kernel), "bias": tf.constant(bias)}

    @tf.function(input_signature=head)
    def set_head(kernel, bias):
        # A runtime may resize its inputs. These constants have the head's sizes, so that a head of another shape fails;
        # were the limits all equal, the converter would make one number of them.
        largest = np.finfo("float32").max
        limits = np.full((features, 1), largest)
        limits[0] = np.nextafter(largest, np.float32(0))
        nothing = tf.fill((classes,), np.float32("nan"))
        finite = tf.reduce_all(tf.abs(kernel) <= limits) & tf.reduce_all(tf.abs(bias) <= largest)  # false with NaN
        return {
            "kernel": tf.where(finite, kernel, nothing),
            "bias": tf.where(finite, bias, nothing),
            "valid": finite,
        }

    functions = dict(zip(SIGNATURES, (compute_features, infer, train_head, get_head, set_head)))
    for name, function in functions.items():
        setattr(module, name, function)
    return module, functions


def numpy_step(features, labels, kernel, bias, learning_rate):
    """What `train_head` must return, in float64: (kernel, bias, loss)."""
    x, w = features.astype("float64"), kernel.astype("float64")
    targets = (labels[:, None] == np.arange(kernel.shape[1])).astype("float64")
    present = targets.sum(axis=1, keepdims=True)
    count = max(present.sum(), 1.0)
    logits = x @ w + bias
    logits -= logits.max(axis=1, keepdims=True)
    total = np.exp(logits).sum(axis=1, keepdims=True)
    errors = (present * np.exp(logits) / total - targets) / count
    loss = (present * np.log(total) - (targets * logits).sum(axis=1, keepdims=True)).sum() / count
    return w - learning_rate * x.T @ errors, bias - learning_rate * errors.sum(axis=0), loss
