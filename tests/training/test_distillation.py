import keras
import numpy as np
import pytest
import tensorflow as tf

import vitkeras
from vitkeras.training import Classification, Distillation, Engine, make_optimizer

LABELS = np.array([4, 0, 6, 2, 4], "int32")


def build(seed, classes=7, size=(32, 48, 3), **kwargs):
    keras.utils.set_random_seed(seed)
    kwargs = {"classifier_activation": None, **kwargs}
    model = vitkeras.VisionTransformer(size, 16, 1, 16, 2, 24, classes=classes, **kwargs)
    head = model.get_layer("head")
    head.kernel.assign(np.random.default_rng(seed).normal(scale=0.3, size=head.kernel.shape))
    return model


@pytest.fixture(scope="module")
def teacher():
    return build(1)


@pytest.fixture
def images(rng):
    return rng.normal(size=(5, 32, 48, 3)).astype("float32")


def log_softmax(z):
    return z - np.log(np.exp(z).sum(axis=1, keepdims=True))


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("distance, temperature", [("kl", 1.0), ("kl", 3.0), ("mse", 1.0)])
def test_losses_equal_numpy(teacher, images, rng, assert_close, alpha, distance, temperature):
    student = rng.normal(size=(5, 7)).astype("float32")
    task = Distillation(teacher, alpha, distance, temperature, Classification("softmax", 0.1))
    loss, correct = task(tf.constant(student), tf.constant(LABELS), tf.constant(images))
    says = keras.ops.convert_to_numpy(teacher(images)).astype("float64")
    s, t = log_softmax(student.astype("float64") / temperature), log_softmax(says / temperature)
    apart = {"kl": temperature**2 * (np.exp(t) * (t - s)).sum(axis=1), "mse": ((student - says) ** 2).mean(axis=1)}
    smooth = np.eye(7)[LABELS] * 0.9 + 0.1 / 7
    labels = -(smooth * log_softmax(student.astype("float64"))).sum(axis=1)
    assert_close(loss, alpha * apart[distance] + (1 - alpha) * labels, atol=5e-6)
    assert_close(correct, (student.argmax(axis=1) == LABELS).astype("float32"), atol=0)


def test_a_student_comes_to_its_teacher(teacher, images):
    before = [v.numpy() for v in teacher.variables]
    student = build(1)
    for variable in student.trainable_variables:
        variable.assign(variable + 0.02 * keras.random.normal(variable.shape, seed=3))
    task = Distillation(teacher, distance="mse")
    engine = Engine(student, make_optimizer("adamw", 1e-3), task=task)
    batch = tf.data.Dataset.from_tensors((images, LABELS))
    loss = engine.run(engine.iterator(batch.repeat()), 30)["loss"]
    assert loss[-1] < 0.1 * loss[0]
    weighted = batch.map(lambda x, y: (x, y, tf.ones(5)))
    assert (
        abs(engine.evaluate(weighted)["loss"] - np.mean(task(student(images), tf.constant(LABELS), images)[0])) < 1e-6
    )
    for variable, old in zip(teacher.variables, before):
        np.testing.assert_array_equal(variable.numpy(), old)
    assert len([name for name in engine.state() if name.endswith("head/kernel")]) == 1


@pytest.mark.parametrize(
    "arguments, message",
    [
        (dict(alpha=1.5), r"alpha must be in \[0, 1\], received 1.5"),
        (dict(distance="l1"), r"distance must be one of \('kl', 'mse'\), received 'l1'"),
        (dict(temperature=0), "temperature must be above 0 and finite, received 0"),
        (dict(distance="mse", temperature=2.0), "temperature is for distance 'kl', received 2.0 with 'mse'"),
    ],
)
def test_errors(teacher, arguments, message):
    with pytest.raises(ValueError, match=message):
        Distillation(teacher, **arguments)


def test_a_teacher_that_does_not_fit(teacher):
    with pytest.raises(ValueError, match=r"student's output_shape \(None, 5\), received \(None, 7\)"):
        Engine(build(2, classes=5), task=Distillation(teacher))
    with pytest.raises(ValueError, match=r"student's input_shape \(None, 48, 48, 3\), received \(None, 32, 48, 3\)"):
        Engine(build(2, size=(48, 48, 3)), task=Distillation(teacher))
    with pytest.raises(ValueError, match="must end in logits"):
        Distillation(build(2, classifier_activation="softmax"))
