"""Rematerialisation: a block's activations are forgotten after the forward pass and computed again for the gradient.

Memory falls from all activations of all blocks to the blocks' inputs and the activations of one block, for one more
forward pass (Chen et al., arXiv 1604.06174). `keras.remat` draws new dropout masks when it computes a block again, so
its gradients belong to another network than its loss; here both passes get the same random states.
"""

import contextlib
import inspect

import keras

from vitkeras import layers
from vitkeras._tensorflow import tf
from vitkeras.training.seeds import seed_states

BLOCKS = (layers.EncoderBlock, layers.AxialEncoderBlock, layers.ResidualUnit)
_DRAWS = 1 << 16  # more than any block draws in a pass


def blocks_of(model):
    """Returns the encoder blocks and residual units of `model`; ValueError if it has none."""
    blocks = [layer for layer in model._flatten_layers() if isinstance(layer, BLOCKS)]
    if not blocks:
        raise ValueError(
            f"rematerialisation needs a model of encoder blocks or residual units, {model.name!r} has none."
        )
    return blocks


@contextlib.contextmanager
def rematerialized(model):
    """Context in which every block of `model` that is traced for training is computed again in the backward pass.

    Args:
        model: a built `keras.Model`; `EncoderBlock`, `AxialEncoderBlock` and `ResidualUnit` layers are its blocks.
    """
    blocks = blocks_of(model)
    for block in blocks:
        block.call = _twice(block, block.call)
    try:
        yield model
    finally:
        for block in blocks:
            del block.call  # the class's own is below it


def _twice(block, call):
    """The call of `block` as a function of its inputs, weights and random states, run again for its gradient."""
    states, weights = seed_states(block), block.trainable_variables
    takes_training = "training" in inspect.signature(call).parameters  # a residual unit is the same in both
    keywords = {"training": True} if takes_training else {}

    def rematerialized_call(x, training=None):
        if takes_training and not training:
            return call(x, training=training)

        def compute(x, seeds, values):
            with keras.StatelessScope([*zip(states, seeds), *zip(weights, values)]):
                return call(x, **keywords)

        seeds = [state.value + 0 for state in states]

        @tf.custom_gradient
        def run(x, *values):
            def gradient(dy):
                # A zero made of `dy`: without it, nothing tells a compiler that the second pass has to wait for the
                # backward pass, and it would merge both passes into one.
                zero = tf.cast(tf.minimum(tf.abs(tf.reshape(dy, (-1,))[0]), 0), x.dtype)
                with tf.GradientTape() as tape:
                    again = x + zero
                    tape.watch([again, *values])
                    y = compute(again, seeds, values)
                return tape.gradient(y, [again, *values], output_gradients=dy)

            return compute(x, seeds, values), gradient

        y = run(x, *[tf.convert_to_tensor(v.value) for v in weights])
        for state in states:
            state.assign(state + tf.constant([0, _DRAWS], state.dtype))
        return y

    return rematerialized_call
