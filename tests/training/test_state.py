"""`Engine.state` and `Engine.restore`: a resumed run is the uninterrupted one, bit for bit."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import vitkeras
from vitkeras.training import Engine, WarmupDecay, make_optimizer
from vitkeras.training.state import named_variables

RNG = np.random.default_rng(7)
IMAGES = RNG.normal(size=(5, 6, 16, 48, 3)).astype("float32")
LABELS = RNG.integers(0, 5, (5, 6)).astype("int32")


def engine(seed=0, optimizer="adamw", **kwargs):
    keras.utils.set_random_seed(seed)
    model = vitkeras.VisionTransformer(
        (16, 48, 3), 16, 1, 12, 3, 24, classes=5, classifier_activation=None, dropout_rate=0.1
    )
    return Engine(model, make_optimizer(optimizer, WarmupDecay(1e-2, 9, 2)), ema_decay=0.9, **kwargs)


def run(engine, first, last):
    batches = tf.data.Dataset.from_tensor_slices((IMAGES[first:last], LABELS[first:last]))
    return engine.run(engine.iterator(batches), last - first)["loss"]


def test_a_restored_run_is_bit_identical():
    whole, half, rest = engine(1), engine(1), engine(2)
    losses = run(whole, 0, 5)
    first = run(half, 0, 2)
    rest.restore(half.state())
    assert rest.step == 2
    np.testing.assert_array_equal(np.concatenate([first, run(rest, 2, 5)]), losses)
    ours, theirs = rest.state(), whole.state()
    assert sorted(ours) == sorted(theirs)
    for name, array in theirs.items():
        assert array.dtype == ours[name].dtype
        np.testing.assert_array_equal(ours[name], array, err_msg=name)


@pytest.fixture(scope="module")
def trained():
    trained = engine(1)
    run(trained, 0, 1)
    return trained


def test_the_names(trained):
    state = trained.state()
    assert {name.partition("/")[0] for name in state} == {"model", "optimizer", "ema"}
    assert state["model/encoder_block_00/attention/query/kernel"].shape == (12, 12)
    assert state["ema/head/kernel"].shape == (12, 5)
    assert state["optimizer/adamw/iteration"] == 1
    weights = len(trained.model.trainable_variables)
    assert len(state) == 4 * weights + 1  # weights, two moments, average; the step count
    state["model/head/kernel"][:] = 7  # a copy
    assert trained.model.get_layer("head").kernel.numpy().max() < 7


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda s: s.pop("ema/head/bias"), "the state lacks array 'ema/head/bias'; it belongs to another model"),
        (lambda s: [s.pop(k) for k in sorted(s)[:3]], "the state lacks array 'ema/class_token/.*' and 2 more"),
        (lambda s: s.update({"model/x": np.zeros(3)}), "the state has the unexpected array 'model/x'; it belongs"),
        (
            lambda s: s.update({"model/head/kernel": np.zeros((12, 4), "float32")}),
            r"array 'model/head/kernel' of the state must have shape \(12, 5\), received \(12, 4\)",
        ),
        (
            lambda s: s.update({"model/head/bias": np.zeros(5, "float16")}),
            "array 'model/head/bias' of the state must be float32, received float16",
        ),
    ],
)
def test_a_wrong_state_is_refused_and_nothing_changes(trained, change, message):
    before, state = trained.state(), {name: array + 1 for name, array in trained.state().items()}
    change(state)
    with pytest.raises(ValueError, match=message):
        trained.restore(state)
    for name, array in trained.state().items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)


def test_without_optimizer_only_weights():
    names = Engine(engine().model).state()
    assert all(name.startswith("model/") for name in names)


def test_two_layers_of_one_path_are_refused():
    with pytest.raises(ValueError, match="two variables are called 'model/a/kernel'; give each layer a name"):
        named_variables({"model": [("a/kernel", 1), ("a/kernel", 2)]})
