"""Polyak averaging: a moving average of the weights, kept apart from them (paper Table 2, factor 0.9999)."""

import keras

from vitkeras._tensorflow import tf


class WeightAverage:
    """An exponential moving average of the trainable weights of a model.

    Args:
        model: a built `keras.Model`; call in its strategy's scope.
        decay: float in (0, 1), the share of the average that stays in a step.

    Raises:
        ValueError: if `decay` is outside its range.
    """

    def __init__(self, model, decay):
        if not 0 < decay < 1:
            raise ValueError(f"ema_decay must be in (0, 1) or None, received {decay!r}.")
        self._model = model
        self.decay = decay
        # Each replica averages its own copy of weights that are the same everywhere: nothing has to be sent.
        self.variables = {
            v.path: tf.Variable(
                tf.identity(v.value),
                trainable=False,
                synchronization=tf.VariableSynchronization.ON_READ,
                aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
                name="ema",
            )
            for v in model.trainable_variables
        }
        self._strategy = tf.distribute.get_strategy()

    def start(self):
        """Sets the average to the weights as they are."""
        with self._strategy.scope():
            for average, weight in self._pairs():
                average.assign(weight.value.numpy())

    def update(self):
        """One step towards the weights; called in a replica."""
        for average, weight in self._pairs():
            average.assign_sub((1 - self.decay) * (average - weight.value))

    def in_place(self):
        """Context in which the model computes with the averaged weights; called in a replica."""
        return keras.StatelessScope([(weight, average.read_value()) for average, weight in self._pairs()])

    def arrays(self):
        """dict of variable path -> NumPy array."""
        return {path: average.numpy() for path, average in self.variables.items()}

    def model(self):
        """Returns a copy of the model that has the averaged weights."""
        copy = keras.models.clone_model(self._model)
        averaged = self.arrays()
        for new, old in zip(copy.weights, self._model.weights, strict=True):
            new.assign(averaged[old.path] if old.path in averaged else old.value.numpy())
        return copy

    def _pairs(self):
        return zip(self.variables.values(), self._model.trainable_variables, strict=True)
