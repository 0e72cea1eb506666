"""Magnitude pruning: while a model trains, more and more of its smallest weights become zero and stay it."""

import re

from vitkeras._tensorflow import tf
from vitkeras._tfmot import tfmot

KERNELS = r"encoder_block_\d+/.*/kernel"
UPDATES = 100  # most mask updates of a run: each sorts every pruned weight
PURPOSE = "pruning"


class MagnitudePruning:
    """Zeroes the smallest weights of each kernel, by tfmot's `PolynomialDecay` (Zhu and Gupta, arXiv 1710.01878).

    After update t the share of zeros is `sparsity * (1 - (1 - p) ** 3)`, p the part of the way from `begin_step` to
    `end_step`; from there on the masks stay. Masked weights are put back to zero after every update of the optimizer.
    Every kernel gets the same share of zeros, exactly: its size times the sparsity, rounded.

    Args:
        sparsity: float in (0, 1), the share of zeros at the end.
        end_step: int, the update after which it is reached; training on behind it lets the other weights adapt.
        begin_step: int >= 0 below `end_step`. Default 0.
        pattern: str, a regular expression for the whole paths of the pruned variables. Default: the kernels of the
            encoder blocks.

    Raises:
        ImportError: if tensorflow-model-optimization is missing.
        ValueError: for an argument outside its range.

    Example:
        >>> engine = Engine(model, optimizer, pruning=MagnitudePruning(0.5, end_step=800))     # doctest: +SKIP
    """

    def __init__(self, sparsity, end_step, begin_step=0, pattern=KERNELS):
        if not 0 < sparsity < 1:
            raise ValueError(f"sparsity must be in (0, 1), received {sparsity!r}.")
        if not 0 <= begin_step < end_step:
            raise ValueError(f"begin_step must be >= 0 and below end_step {end_step}, received {begin_step}.")
        self.sparsity = sparsity
        self.pattern = pattern
        # tfmot updates the masks every so many steps and must hit the last one.
        every = -(-(end_step - begin_step) // UPDATES)
        self.begin_step, self.end_step = end_step - (end_step - begin_step) // every * every, end_step
        decay = tfmot(PURPOSE).sparsity.keras.PolynomialDecay
        self._schedule = decay(0.0, sparsity, self.begin_step, self.end_step, frequency=every)
        self.masks = {}

    def attach(self, model, iterations):
        """Makes the masks, all ones; called by the engine in its strategy's scope.

        Args:
            model: a built `keras.Model`.
            iterations: function that returns the number of updates done so far.

        Raises:
            ValueError: if no variable of the model is pruned, or the masks are another engine's.
        """
        if self.masks:
            raise ValueError("an engine needs a MagnitudePruning of its own, received one that another engine has.")
        pruned = pruned_variables(model, self.pattern)
        self.masks = {v.path: tf.Variable(tf.ones(v.shape), trainable=False, name="mask") for v in pruned}
        triples = [(v.value, self.masks[v.path], tf.Variable(0.0, trainable=False, name="threshold")) for v in pruned]
        implementation = tfmot(PURPOSE, "tensorflow_model_optimization.python.core.sparsity.keras.pruning_impl")
        self._pruning = implementation.Pruning(
            lambda: tf.cast(iterations(), tf.int64),
            triples,
            self._schedule,
            block_size=(1, 1),
            block_pooling_type="AVG",
        )

    def step(self):
        """Updates the masks if it is their turn, and applies them; called after an update of the optimizer."""
        with tf.control_dependencies([self._pruning.conditional_mask_update()]):
            return self._pruning.weight_mask_op()


def pruned_variables(model, pattern=KERNELS):
    """Returns the trainable variables of `model` whose whole path matches; ValueError if there are none."""
    found = [v for v in model.trainable_variables if re.fullmatch(pattern, v.path)]
    if not found:
        raise ValueError(f"pruning needs a trainable variable with a path like {pattern!r}, {model.name!r} has none.")
    return found


def measured_sparsity(model, pattern=KERNELS):
    """Counts the zeros in the pruned variables of a model.

    Args:
        model: a `keras.Model`.
        pattern: str, as `MagnitudePruning` takes it.

    Returns:
        float, their share.

    Raises:
        ValueError: if no variable matches.
    """
    arrays = [v.numpy() for v in pruned_variables(model, pattern)]
    return float(sum((array == 0).sum() for array in arrays) / sum(array.size for array in arrays))
