"""Gradients and compiled calls of a Keras layer or model, on whichever backend runs the tests."""

import keras
import numpy as np
import pytest

BACKEND = keras.backend.backend()


def randomise(layer, seed=11, scale=0.3):
    """Fills every weight with random numbers, so that no zero or one of an initialiser hides a mistake."""
    rng = np.random.default_rng(seed)
    for weight in layer.weights:
        offset = 1.0 if weight.path.endswith("scale") else 0.0
        weight.assign(offset + rng.normal(0, scale, weight.shape))
    return layer


def gradients(layer, x, training=False):
    """Gradients of a random weighting of the output: ({weight path: array}, gradient of the input)."""
    x = keras.ops.convert_to_tensor(x)
    cotangent = np.random.default_rng(7).normal(size=layer(x).shape).astype("float32")
    keywords = {"training": training} if layer._call_has_training_arg else {}

    def loss_of(y):
        return keras.ops.sum(keras.ops.cast(y, "float32") * cotangent)

    weights = layer.trainable_weights
    if BACKEND == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = loss_of(layer(x, **keywords))
        found = tape.gradient(loss, [weight.value for weight in weights] + [x])
    elif BACKEND == "jax":
        import jax

        fixed = [v.value for v in layer.non_trainable_variables]

        def loss(values, x):
            return loss_of(layer.stateless_call(values, fixed, x, **keywords)[0])

        by_weight, by_input = jax.grad(loss, argnums=(0, 1))([weight.value for weight in weights], x)
        found = [*by_weight, by_input]
    else:
        pytest.skip(f"no gradient helper for the {BACKEND} backend")
    found = [None if g is None else keras.ops.convert_to_numpy(keras.ops.cast(g, "float32")) for g in found]
    return {weight.path: gradient for weight, gradient in zip(weights, found)}, found[-1]


def compiled(layer, how):
    """`layer` as one traced function: "graph" (tf.function), or "xla" (jit_compile=True; jax.jit on JAX)."""
    if BACKEND == "tensorflow":
        import tensorflow as tf

        return tf.function(lambda x: layer(x), jit_compile=how == "xla", autograph=False)
    if BACKEND == "jax":
        if how == "graph":
            pytest.skip("JAX has one kind of compiled call, tested as xla")
        import jax

        trainable, fixed = ([v.value for v in g] for g in (layer.trainable_variables, layer.non_trainable_variables))
        return jax.jit(lambda x: layer.stateless_call(trainable, fixed, x)[0])
    pytest.skip(f"no compile helper for the {BACKEND} backend")


def traced_for_any_size(model):
    """`model` as one graph whose height and width are not known while it is traced."""
    if BACKEND != "tensorflow":
        pytest.skip(f"the {BACKEND} backend traces a graph for each size: there is none without known sides")
    import tensorflow as tf

    signature = [tf.TensorSpec((None, None, None, model.input_shape[-1]), "float32")]
    return tf.function(lambda x: model(x), input_signature=signature, autograph=False)
