"""What the engine trains for: the loss of each example, and whether its answer was right.

A task is any object that is called as `task(outputs, targets)` in a replica and returns two float32 tensors (B,):
the loss and 1 or 0 for a right or wrong answer (or a share of right answers). It may have `check(model)`, which raises
ValueError for a model it can't train, and a true `needs_inputs`: it is then called as `task(outputs, targets, inputs)`.

Legend: B examples, K classes.
"""

import keras

from vitkeras._tensorflow import tf

LOSSES = ("softmax", "sigmoid")


class Classification:
    """Softmax or sigmoid cross-entropy of class logits.

    The paper fine-tunes with softmax (section 4.1) and AugReg pre-trains on ImageNet-21k with sigmoid. The sigmoid
    loss of an example is the sum over the classes, as in the original.

    Args:
        loss: "softmax" (default) or "sigmoid".
        label_smoothing: float in [0, 1), the share of the target that is spread evenly over the classes. Default 0.

    Call arguments:
        outputs: floating logits (B, K).
        targets: int labels (B,) or floating targets (B, K), such as MixUp's.

    Returns:
        (loss (B,), correct (B,)), float32; correct is 1 where the highest logit is the label, or is where the target
        is highest.

    Raises:
        ValueError: for an argument outside its range, outputs that aren't (B, K), or targets that don't fit them.

    Example:
        >>> loss, correct = Classification()(keras.ops.zeros((2, 5)), keras.ops.array([0, 3]))
        >>> [round(float(value), 4) for value in loss]
        [1.6094, 1.6094]
    """

    def __init__(self, loss="softmax", label_smoothing=0.0):
        if loss not in LOSSES:
            raise ValueError(f"loss must be one of {LOSSES}, received {loss!r}.")
        if not 0 <= label_smoothing < 1:
            raise ValueError(f"label_smoothing must be in [0, 1), received {label_smoothing!r}.")
        self.loss = loss
        self.label_smoothing = label_smoothing

    def check(self, model):
        """Raises ValueError unless `model` ends in logits."""
        activation = getattr(model.layers[-1], "activation", None)
        if activation is not None and activation is not keras.activations.linear:
            raise ValueError(
                f"model must end in logits (classifier_activation=None), its last layer has {activation.__name__!r}."
            )

    def __call__(self, outputs, targets):
        if len(outputs.shape) != 2:
            raise ValueError(f"classification needs logits (batch, classes), received shape {tuple(outputs.shape)}.")
        logits, classes = tf.cast(outputs, tf.float32), outputs.shape[-1]
        dense = targets.dtype.is_floating
        if len(targets.shape) != (2 if dense else 1) or (dense and targets.shape[-1] != classes):
            raise ValueError(
                f"targets must be int (batch,) or floating (batch, {classes}), "
                f"received {targets.dtype.name} {tuple(targets.shape)}."
            )
        labels = tf.argmax(targets, axis=-1, output_type=tf.int32) if dense else tf.cast(targets, tf.int32)
        correct = tf.cast(tf.equal(tf.argmax(logits, axis=-1, output_type=tf.int32), labels), tf.float32)
        if self.loss == "softmax" and not dense and not self.label_smoothing:
            return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits), correct
        targets = tf.cast(targets, tf.float32) if dense else tf.one_hot(targets, classes)  # (B, K)
        if self.label_smoothing:
            targets = targets * (1 - self.label_smoothing) + self.label_smoothing / classes
        if self.loss == "softmax":
            return tf.nn.softmax_cross_entropy_with_logits(targets, logits), correct
        return tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(targets, logits), axis=-1), correct
