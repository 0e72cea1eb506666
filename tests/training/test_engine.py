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


@pytest.mark.parametrize("clip", [None, 0.5])
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
    with pytest.raises(ValueError, match="must be static .* received None"):
        engine.iterator(tf.data.Dataset.from_tensor_slices(examples(10)).batch(5))
