"""The loss of masked-patch prediction (paper appendix B.1.2).

Legend: B examples, M corrupted patches of an image, V values of a patch.
"""

from vitkeras._tensorflow import tf
from vitkeras.training.patch_targets import COLORS, TARGETS, color_levels, prediction_size


class MaskedPatchPrediction:
    """Task of the engine: say what the corrupted patches were. The paper pre-trains without labels with it.

    An example's loss is the mean over its corrupted patches; the other patches are not predicted. Colours are
    classes under softmax, the mean of 16 cells for "color_4x4"; pixels are compared by the mean squared difference.

    Args:
        target: "mean_color" (default), "color_4x4" or "pixels"; see `masked_patch_batches`.

    Call arguments:
        outputs: floating tensor (B, M, V), what `masked_patch_model` predicts.
        targets: as `masked_patch_batches` gives them: int (B, M) or (B, M, 16), or floating (B, M, V).

    Returns:
        (loss (B,), correct (B,)), float32; correct is the share of colours that are right, and of pixels the share
        of values whose 3-bit level is.

    Raises:
        ValueError: for an unknown target, or outputs and targets that don't fit each other.

    Example:
        >>> loss, _ = MaskedPatchPrediction()(tf.zeros((2, 7, 512)), tf.zeros((2, 7), tf.int32))
        >>> [round(float(value), 4) for value in loss]
        [6.2383, 6.2383]
    """

    def __init__(self, target="mean_color"):
        if target not in TARGETS:
            raise ValueError(f"target must be one of {TARGETS}, received {target!r}.")
        self.target = target

    def check(self, model):
        """Raises ValueError unless `model` comes from `masked_patch_model` and predicts this target."""
        head, patches = (
            next((layer for layer in model.layers if layer.name == name), None)
            for name in ("patch_predictions", "patch_embedding")
        )
        if head is None or patches is None:
            raise ValueError(f"model must come from masked_patch_model, {model.name!r} has no patch_predictions.")
        size = prediction_size(self.target, patches.patch_size, model.input["image"].shape[-1])
        if head.units != size:
            raise ValueError(
                f"model must predict {size} values a patch for target {self.target!r}, received {head.units}; "
                "give masked_patch_model the same target."
            )

    def __call__(self, outputs, targets):
        outputs = tf.cast(outputs, tf.float32)
        cells = {"color_4x4": (16,)}.get(self.target, ())
        expected = outputs.shape[:2] + (cells if self.target != "pixels" else outputs.shape[2:])
        if outputs.shape.rank != 3 or targets.shape != expected:
            raise ValueError(
                f"targets of {self.target!r} must have shape {tuple(expected)} for outputs {tuple(outputs.shape)}, "
                f"received {tuple(targets.shape)}."
            )
        if self.target == "pixels":
            loss = tf.math.squared_difference(outputs, tf.cast(targets, tf.float32))
            correct = tf.equal(color_levels(outputs), color_levels(targets))
        else:
            logits = tf.reshape(outputs, (*targets.shape, COLORS))
            loss = tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits)
            correct = tf.equal(tf.argmax(logits, axis=-1, output_type=tf.int32), tf.cast(targets, tf.int32))
        axes = tuple(range(1, loss.shape.rank))
        return tf.reduce_mean(loss, axes), tf.reduce_mean(tf.cast(correct, tf.float32), axes)
