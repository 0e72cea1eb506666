"""The training loop: `strategy.run` inside a `tf.function` loop, the same numbers on one device and on several.

Legend: B global batch, R replicas, K classes.
"""

import contextlib

import keras
import numpy as np

from vitkeras._tensorflow import tf
from vitkeras.training.distribute import batch_size, distribute, distribute_training
from vitkeras.training.ema import WeightAverage
from vitkeras.training.rematerialize import blocks_of, rematerialized
from vitkeras.training.seeds import PureRandomness, check_seed, draw_states, seed_states
from vitkeras.training.state import check_state, named_variables
from vitkeras.training.tasks import Classification


class TrainingError(RuntimeError):
    """The run cannot go on; the message says at which step and why."""


class Engine:
    """Trains and evaluates a model for a task under a `tf.distribute` strategy.

    The losses are summed over the examples and divided by the global batch, so that replicas and micro-batches add
    up to the same gradient; the optimizer clips after the all-reduce. Inputs and targets may be nested structures.
    Dropout and stochastic depth are a pure function of (`seed`, step, replica, micro-batch): replicas drop different
    units, and a run that is resumed from `state()` drops those of an uninterrupted one.

    Args:
        model: a `keras.Model`, built in the strategy's scope; for classification from images to logits
            (`classifier_activation=None`).
        optimizer: from `vitkeras.training.make_optimizer`, made in the strategy's scope; needed to train.
        strategy: a `tf.distribute.Strategy`; default: the current one.
        accumulate: int >= 1, micro-batches in a step whose gradients are added in float32 before the one
            update. Default 1.
        task: what to train for, see `vitkeras.training.tasks`. Default `Classification()`.
        seed: int >= 0, of the randomness inside the model. Default 0.
        ema_decay: float in (0, 1), such as the paper's 0.9999 (Table 2), or None (default): the decay a step of a
            moving average of the weights, which is kept apart from them.
        remat: bool, whether encoder blocks and residual units are computed again in the backward pass, which saves
            memory. Default False.
        jit_compile: bool, whether loss and gradients are compiled by XLA, for GPUs. On a TPU everything is, whatever
            is said here; on a CPU it is slower. Default False.
        pruning: `MagnitudePruning` or None (default). An average of the weights isn't sparse, so not with `ema_decay`;
            on one device.

    Raises:
        ValueError: if the task can't train the model, or an argument is outside its range.

    Example:
        >>> import vitkeras
        >>> model = vitkeras.ViTTi16(weights=None, input_shape=(32, 32, 3), classes=7, classifier_activation=None)
        >>> engine = Engine(model, vitkeras.training.make_optimizer("sgd", 0.01))
        >>> engine.step
        0
    """

    def __init__(
        self,
        model,
        optimizer=None,
        strategy=None,
        accumulate=1,
        task=None,
        seed=0,
        ema_decay=None,
        remat=False,
        jit_compile=False,
        pruning=None,
    ):
        if accumulate < 1:
            raise ValueError(f"accumulate must be >= 1, received {accumulate}.")
        check_seed(seed)
        if model.losses:
            raise ValueError(
                f"model {model.name!r} adds {len(model.losses)} losses of its own, which the engine doesn't train; "
                "use the optimizer's weight decay instead of regularizers."
            )
        self.task = task or Classification()
        if hasattr(self.task, "check"):
            self.task.check(model)
        if remat:
            blocks_of(model)
        if pruning is not None and (optimizer is None or ema_decay is not None):
            raise ValueError("pruning needs an optimizer and no ema_decay, whose average of the weights isn't sparse.")
        self.model = model
        self.optimizer = optimizer
        self.strategy = strategy or tf.distribute.get_strategy()
        if pruning is not None and self.strategy.num_replicas_in_sync > 1:
            raise ValueError(f"pruning needs one device, received {self.strategy.num_replicas_in_sync} replicas.")
        self.accumulate = accumulate
        self.seed = seed
        self.remat = remat
        self._states = seed_states(model)
        # Gradients alone: replicas can't meet inside a compiled function. A TPU strategy compiles the whole step.
        compiles = jit_compile and not isinstance(self.strategy, tf.distribute.TPUStrategy)
        compiled = tf.function(self._loss_and_gradients, jit_compile=True, autograph=False)
        self._gradients = compiled if compiles else self._loss_and_gradients
        self._run_steps = tf.function(self._loop)
        self._evaluate_batch = tf.function(self._evaluate_step, autograph=False)
        with self.strategy.scope():
            if optimizer is not None and not optimizer.built:
                optimizer.build(model.trainable_variables)
            self._average = None if ema_decay is None else WeightAverage(model, ema_decay)
            self._pruning = pruning
            if pruning is not None:
                pruning.attach(model, lambda: optimizer.iterations.value)

    @property
    def step(self):
        """int, the number of updates done so far."""
        return int(self.optimizer.iterations.numpy())

    @property
    def ema(self):
        """dict of variable path -> float32 array, the averaged weights; None without `ema_decay`."""
        return None if self._average is None else self._average.arrays()

    def ema_model(self):
        """Returns a copy of the model that has the averaged weights, to save or export.

        Raises:
            ValueError: without `ema_decay`.
        """
        return self._needed_average().model()

    def iterator(self, dataset):
        """Returns an iterator over training batches, split over the replicas.

        Args:
            dataset: `tf.data.Dataset` of (inputs, targets), global batches of a static size. Or a function of a
                `tf.distribute.InputContext` that returns the data set of one host: endless batches of one replica's
                size, from the host's own part of the data.

        Raises:
            ValueError: if the batch isn't static or not a multiple of the replicas times `accumulate`.
        """
        return iter(distribute_training(dataset, self.strategy, self.accumulate))

    def run(self, iterator, num_steps):
        """Makes `num_steps` updates.

        Args:
            iterator: from `iterator()`, of (inputs, targets) with a static batch size.
            num_steps: int >= 1.

        Returns:
            dict of float32 NumPy arrays (num_steps,): "loss" and "accuracy" of each step, before its update.

        Raises:
            TrainingError: if a loss isn't finite; the first such step is named.
        """
        first = self.step
        if first == 0 and self._average is not None:
            self._average.start()
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

    def evaluate(self, dataset, use_ema=False):
        """Counts every example of `dataset` once.

        Args:
            dataset: finite `tf.data.Dataset` of (inputs, targets, float weights); padding has weight 0.
            use_ema: bool, whether the averaged weights are evaluated. Default False.

        Returns:
            dict: "loss" and "accuracy" (floats, means over the examples), "count" (int).

        Raises:
            ValueError: if the data set is empty, or for `use_ema` without `ema_decay`.
        """
        if use_ema:
            self._needed_average()
        totals = np.zeros(3)
        for batch in distribute(dataset, self.strategy):
            totals += self._evaluate_batch(batch, use_ema).numpy()
        loss, correct, count = totals.tolist()
        if not count:
            raise ValueError("dataset must hold at least one image, received none.")
        return {"loss": loss / count, "accuracy": correct / count, "count": int(count)}

    def state(self):
        """Everything that the next steps depend on, but the data.

        Returns:
            dict of name -> NumPy array: "model/...", "optimizer/..." (step count included), "ema/..." and "mask/...".
        """
        return {name: np.array(_numpy(variable)) for name, variable in self._variables().items()}

    def restore(self, state):
        """Puts a `state()` back.

        Args:
            state: dict of name -> array.

        Raises:
            ValueError: if an array is missing, unexpected or of another shape or dtype; nothing is changed then.
        """
        variables = self._variables()
        check_state(variables, state)
        with self.strategy.scope():
            for name, variable in variables.items():
                variable.assign(state[name])

    def _variables(self):
        groups = {"model": [(v.path, v) for v in self.model.weights]}
        if self.optimizer is not None:
            groups["optimizer"] = [(v.path, v) for v in self.optimizer.variables]
        if self._average is not None:
            groups["ema"] = self._average.variables.items()
        if self._pruning is not None:
            groups["mask"] = self._pruning.masks.items()
        return named_variables(groups)

    def _needed_average(self):
        if self._average is None:
            raise ValueError("the engine keeps no average of the weights; give it an ema_decay, such as 0.9999.")
        return self._average

    def _loop(self, iterator, num_steps):
        losses = tf.TensorArray(tf.float32, size=num_steps)
        correct = tf.TensorArray(tf.float32, size=num_steps)
        for i in tf.range(num_steps):
            totals = self._step(next(iterator))
            losses = losses.write(i, totals[0])
            correct = correct.write(i, totals[1])
        return losses.stack(), correct.stack()

    @tf.autograph.experimental.do_not_convert  # whose rewriting costs a quarter of the tracing time
    def _step(self, batch):
        """One update of all replicas; returns (loss, accuracy) of the global batch."""
        with rematerialized(self.model) if self.remat else contextlib.nullcontext():
            per_replica = self.strategy.run(self._replica_step, args=batch)
        if self._pruning is not None:
            self._pruning.step()  # outside the replicas: one mask for all of them
        return self.strategy.reduce("SUM", per_replica, axis=None)

    def _replica_step(self, inputs, targets):
        """One replica's share of one update; returns (loss, accuracy), already divided by the global batch."""
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        position = tf.convert_to_tensor(self.optimizer.iterations.value), tf.convert_to_tensor(replica)
        sums, gradients = self._gradients(inputs, targets, *position)
        self.optimizer.apply(gradients, self.model.trainable_variables)
        if self._average is not None:
            self._average.update()
        return sums

    def _loss_and_gradients(self, inputs, targets, step, replica):
        """float32 ((loss, accuracy), gradients) of one replica's share, divided by the global batch."""
        share = batch_size(inputs)
        size = share // self.accumulate
        total = share * self.strategy.num_replicas_in_sync
        variables = self.model.trainable_variables
        gradients, sums = None, tf.zeros(2)
        for i in range(self.accumulate):  # unrolled: XLA and the replicas see straight-line code
            x, y = (
                keras.tree.map_structure(lambda t, i=i: t[i * size : (i + 1) * size], part)
                for part in (inputs, targets)
            )
            drawn = draw_states(len(self._states), self.seed, step, replica, i) if self._states else []
            with tf.GradientTape() as tape:
                with PureRandomness(self._states, drawn):
                    outputs = self.model(x, training=True)
                loss, correct = self._assess(outputs, y, x)
                loss = tf.reduce_sum(loss) / total
            part = [_float32(g, v) for g, v in zip(tape.gradient(loss, [v.value for v in variables]), variables)]
            gradients = part if gradients is None else [a + b for a, b in zip(gradients, part)]
            sums += tf.stack([loss, tf.reduce_sum(correct) / total])
        return sums, gradients

    def _assess(self, outputs, targets, inputs):
        """The task's (loss, correct); a task that says so gets the inputs too."""
        more = (inputs,) if getattr(self.task, "needs_inputs", False) else ()
        return self.task(outputs, targets, *more)

    def _evaluate_step(self, batch, use_ema):
        run = self.strategy.run(self._replica_evaluate, args=(*batch, use_ema))
        return self.strategy.reduce("SUM", run, axis=None)

    def _replica_evaluate(self, inputs, targets, weights, use_ema):
        with self._average.in_place() if use_ema else contextlib.nullcontext():
            loss, correct = self._assess(self.model(inputs, training=False), targets, inputs)
        return tf.stack([tf.reduce_sum(weights * loss), tf.reduce_sum(weights * correct), tf.reduce_sum(weights)])


def _float32(gradient, variable):
    """The gradient in float32, in which replicas are summed; a variable without one is an error."""
    if gradient is None:
        raise ValueError(
            f"the task's loss doesn't depend on {variable.path}; freeze its layer (layer.trainable = False) or drop it."
        )
    return tf.cast(gradient, tf.float32)


def _numpy(variable):
    value = variable.value if isinstance(variable, keras.Variable) else variable
    return value.numpy()
