"""Randomness inside the train step, as a function of where in the run it is drawn.

Keras keeps a counter in a variable of every layer that draws. Under `tf.distribute` all replicas hold the same
counters and drop the same units, and a resumed run starts them anew. Here the counters get values computed from
(seed, step, replica, micro-batch) for the length of one forward pass, and nothing needs to be saved.
"""

import keras

from vitkeras._tensorflow import tf

STATE = "seed_generator_state"  # the name Keras gives these variables


def seed_states(layer):
    """The variables of all random number generators inside `layer`, in the order of its layers."""
    return [v for v in layer.variables if v.name == STATE]


def check_seed(seed):
    """Raises ValueError unless `seed` is an int in 0...2**31 - 1."""
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**31:
        raise ValueError(f"seed must be an int in 0...2147483647, received {seed!r}.")


def draw_states(count, seed, *position):
    """Computes `count` generator states.

    Args:
        count: int >= 1.
        seed: int in 0...2**31 - 1.
        *position: ints or int scalar tensors, such as step, replica and micro-batch.

    Returns:
        list of `count` int32 tensors (2,), different for each seed, position and place in the list.
    """
    key = tf.constant([seed, 0], tf.int32)
    # Philox by name: what "auto_select" means differs between devices.
    for number in position:
        key = tf.random.experimental.stateless_fold_in(key, tf.cast(number, tf.int32), alg="philox")
    drawn = tf.random.stateless_uniform(
        (count,), key, minval=0, maxval=2**31 - 1, dtype=tf.int32, alg="philox"
    )  # (count,)
    # Keras counts the second number up with every draw; the first one tells the generators apart.
    return [tf.stack([drawn[i], 0]) for i in range(count)]


class PureRandomness:
    """Context in which the generators of `model` have the given states and no variable of it is written.

    Args:
        states: list of Keras variables, from `seed_states`.
        values: list of tensors (2,), their values.

    Raises:
        ValueError: on leaving, if something else was written, such as the moving averages of batch
            normalisation or the global generator: such state differs between replicas and isn't saved.
    """

    def __init__(self, states, values):
        cast = [tf.cast(value, state.dtype) for state, value in zip(states, values)]
        self._scope = keras.StatelessScope(list(zip(states, cast)))
        self._known = {id(state) for state in states}

    def __enter__(self):
        self._scope.__enter__()
        return self

    def __exit__(self, kind, error, trace):
        self._scope.__exit__(kind, error, trace)
        if kind is None and set(self._scope.state_mapping) - self._known:
            raise ValueError(
                "a layer of the model writes variables while it trains (batch normalisation, or random numbers "
                "without a SeedGenerator of its own), which replicas would not share; use GroupNorm or LayerNorm, "
                "and a SeedGenerator in each layer that draws."
            )
