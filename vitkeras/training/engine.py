"""The training loop: `strategy.run` inside a `tf.function` loop, the same numbers on one device and on several.

Legend: B global batch, R replicas, K classes.
"""

import keras
import numpy as np

from vitkeras._tensorflow import tf


class TrainingError(RuntimeError):
    """The run cannot go on; the message says at which step and why."""


class Engine:
    """Trains and evaluates a classifier under a `tf.distribute` strategy.

    The loss is softmax cross-entropy, summed over the examples and divided by the global batch, so that
    replicas and micro-batches add up to the same gradient; the optimizer clips after the all-reduce.

    Args:
        model: a `keras.Model` from images to logits (`classifier_activation=None`), built in the
            strategy's scope.
        optimizer: from `vitkeras.training.make_optimizer`, built in the strategy's scope; needed to train.
        strategy: a `tf.distribute.Strategy`; default: the current one.
        accumulate: int >= 1, micro-batches in a step whose gradients are added in float32 before the one
            update. Default 1.

    Raises:
        ValueError: if the model doesn't end in logits, or `accumulate` is below 1.

    Example:
        >>> import vitkeras
        >>> model = vitkeras.ViTTi16(weights=None, input_shape=(32, 32, 3), classes=7, classifier_activation=None)
        >>> engine = Engine(model, vitkeras.training.make_optimizer("sgd", 0.01))
        >>> engine.step
        0
    """

    def __init__(self, model, optimizer=None, strategy=None, accumulate=1):
        activation = getattr(model.layers[-1], "activation", None)
        if activation is not None and activation is not keras.activations.linear:
            raise ValueError(
                f"model must end in logits (classifier_activation=None), its last layer has {activation.__name__!r}."
            )
        if accumulate < 1:
            raise ValueError(f"accumulate must be >= 1, received {accumulate}.")
        self.model = model
        self.optimizer = optimizer
        self.strategy = strategy or tf.distribute.get_strategy()
        self.accumulate = accumulate
        self._run_steps = tf.function(self._loop)
        self._evaluate_batch = tf.function(self._evaluate_step)
        if optimizer is not None and not optimizer.built:
            with self.strategy.scope():
                optimizer.build(model.trainable_variables)

    @property
    def step(self):
        """int, the number of updates done so far."""
        return int(self.optimizer.iterations.numpy())

    def iterator(self, dataset):
        """Returns an iterator over training batches, split over the replicas.

        Args:
            dataset: `tf.data.Dataset` of (images, int labels), global batches of a static size.

        Raises:
            ValueError: if the batch isn't static or not a multiple of the replicas times `accumulate`.
        """
        batch = dataset.element_spec[0].shape[0]
        parts = self.strategy.num_replicas_in_sync * self.accumulate
        if batch is None or batch % parts:
            raise ValueError(
                f"the batch must be static and a multiple of replicas x accumulate = {parts}, received {batch}."
            )
        return iter(self.strategy.experimental_distribute_dataset(dataset))

    def run(self, iterator, num_steps):
        """Makes `num_steps` updates.

        Args:
            iterator: from `iterator()`, of (images, int labels) with a static batch size.
            num_steps: int >= 1.

        Returns:
            dict of float32 NumPy arrays (num_steps,): "loss" and "accuracy" of each step, before its update.

        Raises:
            TrainingError: if a loss isn't finite; the first such step is named.
        """
        first = self.step
        loss, correct = self._run_steps(iterator, tf.constant(num_steps))
        loss, correct = loss.numpy(), correct.numpy()
        if not np.isfinite(loss).all():
            index = int(np.flatnonzero(~np.isfinite(loss))[0])
            raise TrainingError(
                f"loss is {loss[index]} at step {first + index + 1}; lower the learning rate "
                f"(now {self.learning_rate(first + index):.3g}) or the clipping norm, or check the images and labels."
            )
        return {"loss": loss, "accuracy": correct}

    def learning_rate(self, step):
        """Returns the float learning rate of the update that follows `step` updates."""
        rate = self.optimizer._learning_rate
        return float(rate(step) if callable(rate) else keras.ops.convert_to_numpy(rate))

    def evaluate(self, dataset):
        """Counts every image of `dataset` once.

        Args:
            dataset: finite `tf.data.Dataset` of (images, int labels, float weights); padding has weight 0.

        Returns:
            dict: "loss" and "accuracy" (floats, means over the images), "count" (int).

        Raises:
            ValueError: if the data set is empty.
        """
        totals = np.zeros(3)
        for batch in self.strategy.experimental_distribute_dataset(dataset):
            totals += self._evaluate_batch(batch).numpy()
        loss, correct, count = totals.tolist()
        if not count:
            raise ValueError("dataset must hold at least one image, received none.")
        return {"loss": loss / count, "accuracy": correct / count, "count": int(count)}

    def _loop(self, iterator, num_steps):
        losses = tf.TensorArray(tf.float32, size=num_steps)
        correct = tf.TensorArray(tf.float32, size=num_steps)
        for i in tf.range(num_steps):
            per_replica = self.strategy.run(self._replica_step, args=next(iterator))
            totals = self.strategy.reduce("SUM", per_replica, axis=None)
            losses = losses.write(i, totals[0])
            correct = correct.write(i, totals[1])
        return losses.stack(), correct.stack()

    def _replica_step(self, images, labels):
        """One replica's share of one update; returns (loss, accuracy), already divided by the global batch."""
        share = images.shape[0]
        size = share // self.accumulate
        total = share * self.strategy.num_replicas_in_sync
        variables = self.model.trainable_variables
        gradients, sums = None, tf.zeros(2)
        for i in range(self.accumulate):  # unrolled: XLA and the replicas see straight-line code
            x, y = images[i * size : (i + 1) * size], labels[i * size : (i + 1) * size]
            with tf.GradientTape() as tape:
                logits = tf.cast(self.model(x, training=True), tf.float32)
                loss = tf.reduce_sum(_cross_entropy(y, logits)) / total
            part = [tf.cast(g, tf.float32) for g in tape.gradient(loss, variables)]
            gradients = part if gradients is None else [a + b for a, b in zip(gradients, part)]
            sums += tf.stack([loss, tf.reduce_sum(_correct(y, logits)) / total])
        self.optimizer.apply(gradients, variables)
        return sums

    def _evaluate_step(self, batch):
        return self.strategy.reduce("SUM", self.strategy.run(self._replica_evaluate, args=batch), axis=None)

    def _replica_evaluate(self, images, labels, weights):
        logits = tf.cast(self.model(images, training=False), tf.float32)
        loss = tf.reduce_sum(weights * _cross_entropy(labels, logits))
        return tf.stack([loss, tf.reduce_sum(weights * _correct(labels, logits)), tf.reduce_sum(weights)])


def _cross_entropy(labels, logits):
    """float32 (B,) softmax cross-entropy of int labels (B,) and logits (B, K)."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)


def _correct(labels, logits):
    """float32 (B,), 1 where the highest logit is the label."""
    return tf.cast(tf.argmax(logits, axis=-1, output_type=labels.dtype) == labels, tf.float32)
