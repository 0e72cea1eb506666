"""Knowledge distillation: a student learns what a trained model says of the same images.

Legend: B examples, K classes.
"""

import keras

from vitkeras._tensorflow import tf
from vitkeras.training.tasks import Classification

DISTANCES = ("kl", "mse")


class Distillation:
    """Task of the engine: bring a student's logits to a teacher's (Hinton et al., arXiv 1503.02531).

    The loss of an example is `alpha * distance + (1 - alpha) * classification`. The distance "kl" is
    `temperature ** 2 * KL(teacher || student)` of the softmax at that temperature, whose gradient keeps its size when
    the temperature rises; "mse" is the mean over the classes of the squared difference of the logits.

    The teacher sees each training batch as the student does, crops and flips included. It isn't part of the engine's
    model: no gradient reaches it, and checkpoints don't hold it.

    Args:
        teacher: a `keras.Model` from the student's inputs to its logits, made in the strategy's scope.
        alpha: float in [0, 1], the teacher's share; 1 (default) leaves the labels to the accuracy alone.
        distance: "kl" (default) or "mse".
        temperature: float > 0, of "kl". Default 1.
        classification: `Classification` for the labels' share. Default: softmax without smoothing.

    Call arguments:
        outputs: the student's logits (B, K).
        targets: int labels (B,) or floating targets (B, K).
        inputs: what the student was called with.

    Returns:
        (loss (B,), correct (B,)), float32; correct is `Classification`'s, against the targets.

    Raises:
        ValueError: for an argument outside its range, or a teacher that has other inputs or classes than the student.

    Example:
        >>> teacher = keras.Sequential([keras.Input((3,)), keras.layers.Dense(5)])
        >>> inputs, labels = tf.ones((2, 3)), tf.constant([0, 4])
        >>> loss, _ = Distillation(teacher)(teacher(inputs), labels, inputs)
        >>> [round(abs(float(value)), 4) for value in loss]
        [0.0, 0.0]
    """

    needs_inputs = True

    def __init__(self, teacher, alpha=1.0, distance="kl", temperature=1.0, classification=None):
        if not 0 <= alpha <= 1:
            raise ValueError(f"alpha must be in [0, 1], received {alpha!r}.")
        if distance not in DISTANCES:
            raise ValueError(f"distance must be one of {DISTANCES}, received {distance!r}.")
        if not 0 < temperature < float("inf"):
            raise ValueError(f"temperature must be above 0 and finite, received {temperature!r}.")
        if distance == "mse" and temperature != 1:
            raise ValueError(f"temperature is for distance 'kl', received {temperature!r} with 'mse'.")
        self.classification = classification or Classification()
        self.classification.check(teacher)
        self.teacher = teacher
        self.alpha = alpha
        self.distance = distance
        self.temperature = temperature

    def check(self, model):
        """Raises ValueError unless `model` ends in logits and has the teacher's inputs and classes."""
        self.classification.check(model)
        for what in ("input_shape", "output_shape"):
            own, other = getattr(model, what), getattr(self.teacher, what)
            if own != other:
                raise ValueError(f"teacher must have the student's {what} {own}, received {other}.")

    def __call__(self, outputs, targets, inputs):
        loss, correct = self.classification(outputs, targets)
        student = tf.cast(outputs, tf.float32)
        teacher = tf.stop_gradient(tf.cast(self.teacher(inputs, training=False), tf.float32))
        distance = self._distance(student, teacher)
        return (distance if self.alpha == 1 else self.alpha * distance + (1 - self.alpha) * loss), correct

    def _distance(self, student, teacher):
        if self.distance == "mse":
            return tf.reduce_mean(tf.math.squared_difference(student, teacher), axis=-1)
        student, teacher = (keras.ops.log_softmax(logits / self.temperature) for logits in (student, teacher))
        return self.temperature**2 * tf.reduce_sum(tf.exp(teacher) * (teacher - student), axis=-1)
