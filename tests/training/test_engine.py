import keras
import numpy as np
import pytest
import tensorflow as tf

import vitkeras
from vitkeras.training import Engine, TrainingError, WarmupDecay, make_optimizer

CLASSES = 7


def build(activation=None, **kwargs):
    keras.utils.set_random_seed(5)
    model = vitkeras.VisionTransformer(
        (32, 48, 3), 16, 2, 48, 3, 96, classes=CLASSES, classifier_activation=activation, **kwargs
    )
    head = model.get_layer("head")
    rng = np.random.default_rng(6)
    head.kernel.assign(rng.normal(scale=0.1, size=head.kernel.shape))
    return model


def examples(count):
    rng = np.random.default_rng(7)
    images, labels = rng.normal(size=(40, 32, 48, 3)), rng.integers(0, CLASSES, 40)
    return images[:count].astype("float32"), labels[:count].astype("int32")


def batches(count, batch_size):
    return tf.data.Dataset.from_tensor_slices(examples(count)).batch(batch_size, drop_remainder=True).repeat()


def losses(accumulate=1, clip=None, optimizer="adamw", model=None, steps=5):
    engine = Engine(
        model or build(), make_optimizer(optimizer, WarmupDecay(3e-3, 20, 3), clip_norm=clip), accumulate=accumulate
    )
    iterator = engine.iterator(batches(24, 12))
    return np.concatenate([engine.run(iterator, 2)["loss"], engine.run(iterator, steps - 2)["loss"]])


def test_first_loss_is_the_mean_cross_entropy():
    images, labels = examples(12)
    logits = build()(images).numpy().astype("float64")
    log_sum = np.log(np.exp(logits).sum(axis=1))
    assert abs(losses()[0] - (log_sum - logits[np.arange(12), labels]).mean()) < 1e-6


def test_one_sgd_step_equals_tape_and_numpy():
    images, labels = examples(12)
    reference, model = build(), build()
    with tf.GradientTape() as tape:
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(labels, reference(images, training=True))
    gradients = [g.numpy() for g in tape.gradient(loss, reference.trainable_variables)]
    norm = np.sqrt(sum((g.astype("float64") ** 2).sum() for g in gradients))
    engine = Engine(model, make_optimizer("sgd", 0.1, clip_norm=0.5))
    engine.run(engine.iterator(batches(12, 12)), 1)
    assert norm > 0.5
    for before, after, gradient in zip(reference.trainable_variables, model.trainable_variables, gradients):
        expected = before.numpy() - 0.1 * gradient * 0.5 / norm
        np.testing.assert_allclose(after.numpy(), expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize("clip", [pytest.param(None, marks=pytest.mark.slow), 0.5])
def test_micro_batches_add_up(clip):
    np.testing.assert_allclose(losses(accumulate=3, clip=clip), losses(clip=clip), rtol=0, atol=1e-6)


def test_clipping_changes_the_run():
    assert np.abs(losses(clip=0.05, optimizer="sgd") - losses(optimizer="sgd")).max() > 1e-5


def test_mixed_bfloat16_trains_float32_weights():
    keras.config.set_dtype_policy("mixed_bfloat16")
    model = build()
    assert {v.dtype for v in model.trainable_variables} == {"float32"}
    values = losses(model=model, steps=8)
    assert np.isfinite(values).all() and values[-1] < values[0]


def test_gradients_of_mixed_bfloat16_are_summed_in_float32():
    keras.config.set_dtype_policy("mixed_bfloat16")
    engine = Engine(build(), make_optimizer("sgd", 0.1), accumulate=2)
    images, labels = examples(6)
    _, gradients = engine._loss_and_gradients(tf.constant(images), tf.constant(labels), tf.constant(0), tf.constant(0))
    assert {g.dtype for g in gradients} == {tf.float32}


class SumOfTwo:
    """A task of nested inputs and targets: the squared distance of two outputs from two targets."""

    def __call__(self, outputs, targets):
        loss = sum(tf.reduce_sum((outputs[key] - targets[key]) ** 2, axis=-1) for key in ("a", "b"))
        return loss, tf.cast(loss < 1, tf.float32)


def nested(units=5):
    keras.utils.set_random_seed(5)
    inputs = {key: keras.Input((3,), name=key) for key in ("a", "b")}
    return keras.Model(inputs, {key: keras.layers.Dense(units, name=f"dense_{key}")(x) for key, x in inputs.items()})


def test_nested_inputs_and_targets_of_another_task():
    rng = np.random.default_rng(7)
    inputs, targets = ({key: rng.normal(size=(12, size)).astype("float32") for key in ("a", "b")} for size in (3, 5))
    model = nested()
    outputs = model(inputs)
    expected = np.mean([sum(((outputs[k][i] - targets[k][i]) ** 2).numpy().sum() for k in "ab") for i in range(12)])
    data = tf.data.Dataset.from_tensors((inputs, targets)).repeat()
    values = []
    for accumulate in (1, 3):
        engine = Engine(nested(), make_optimizer("sgd", 0.01), accumulate=accumulate, task=SumOfTwo())
        values.append(engine.run(engine.iterator(data), 3)["loss"])
    assert abs(values[0][0] - expected) < 1e-5 and values[0][2] < values[0][0]
    np.testing.assert_allclose(values[1], values[0], rtol=0, atol=2e-6)
    weights = (np.arange(12) < 11).astype("float32")
    metrics = engine.evaluate(tf.data.Dataset.from_tensors((inputs, targets, weights)))
    assert metrics["count"] == 11 and np.isfinite(metrics["loss"])


def test_a_weight_that_the_loss_does_not_see_is_named():
    class OnlyA(SumOfTwo):
        def __call__(self, outputs, targets):
            return tf.reduce_sum(outputs["a"], axis=-1), tf.zeros(12)

    engine = Engine(nested(), make_optimizer("sgd", 0.01), task=OnlyA())
    x = {key: np.ones((12, 3), "float32") for key in ("a", "b")}
    with pytest.raises(ValueError, match=r"loss doesn't depend on dense_b/kernel; freeze its layer"):
        engine.run(engine.iterator(tf.data.Dataset.from_tensors((x, x))), 1)


def test_a_function_gives_each_host_its_data():
    seen = []

    def on_host(context):
        seen.append((context.num_input_pipelines, context.input_pipeline_id, context.get_per_replica_batch_size(12)))
        return batches(24, context.get_per_replica_batch_size(12))

    engine = Engine(build(), make_optimizer("sgd", 0.01))
    inputs, targets = next(engine.iterator(on_host))
    assert seen == [(1, 0, 12)] and inputs.shape == (12, 32, 48, 3) and targets.shape == (12,)
    with pytest.raises(ValueError, match="static and a multiple of accumulate = 5, received 12"):
        Engine(build(), make_optimizer("sgd", 0.01), accumulate=5).iterator(on_host)


def test_evaluation_counts_every_image_once():
    model = build()
    images, labels = examples(13)
    logits = model(images).numpy().astype("float64")
    loss = (np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(13), labels]).mean()
    accuracy = (logits.argmax(axis=1) == labels).mean()
    padded = [np.concatenate([a, np.repeat(a[:1], 2, axis=0)]) for a in (images, labels)]
    weights = np.array([1.0] * 13 + [0.0] * 2, "float32")
    metrics = Engine(model).evaluate(tf.data.Dataset.from_tensor_slices((*padded, weights)).batch(5))
    assert metrics["count"] == 13
    assert abs(metrics["loss"] - loss) < 1e-6 and abs(metrics["accuracy"] - accuracy) < 1e-7


def test_an_empty_evaluation_is_refused():
    empty = tf.data.Dataset.from_tensor_slices((*examples(4), np.ones(4, "float32"))).take(0).batch(2)
    with pytest.raises(ValueError, match="at least one image"):
        Engine(build()).evaluate(empty)


def test_nan_loss_names_the_step():
    images, labels = examples(36)
    images[24 + 1] = np.nan  # the third batch of twelve
    data = tf.data.Dataset.from_tensor_slices((images, labels)).batch(12, drop_remainder=True).repeat()
    engine = Engine(build(), make_optimizer("sgd", 0.01))
    iterator = engine.iterator(data)
    engine.run(iterator, 1)
    with pytest.raises(TrainingError, match=r"loss is nan at step 3; lower the learning rate \(now 0.01\)"):
        engine.run(iterator, 4)


def test_steps_and_rates_are_counted():
    engine = Engine(build(), make_optimizer("sgd", WarmupDecay(0.1, 10, decay="linear", linear_end=0.0)))
    engine.run(engine.iterator(batches(12, 12)), 3)
    assert engine.step == 3
    assert abs(engine.learning_rate(3) - 0.07) < 1e-7
    assert abs(Engine(build(), make_optimizer("sgd", 0.25)).learning_rate(9) - 0.25) < 1e-7


def test_bad_arguments():
    with pytest.raises(ValueError, match=r"must end in logits .* its last layer has 'softmax'"):
        Engine(build("softmax"))
    with pytest.raises(ValueError, match="accumulate must be >= 1, received 0"):
        Engine(build(), accumulate=0)
    engine = Engine(build(), make_optimizer("sgd", 0.1), accumulate=5)
    with pytest.raises(ValueError, match="multiple of replicas x accumulate = 5, received 12"):
        engine.iterator(batches(12, 12))
    image = keras.Input((32, 48, 3))
    dense = keras.layers.Dense(7, kernel_regularizer="l2", name="head")(keras.layers.GlobalAveragePooling2D()(image))
    with pytest.raises(
        ValueError, match="model 'regular' adds 1 losses of its own, .* use the optimizer's weight decay"
    ):
        Engine(keras.Model(image, dense, name="regular"))
    with pytest.raises(ValueError, match="must be static .* received None"):
        engine.iterator(tf.data.Dataset.from_tensor_slices(examples(10)).batch(5))
