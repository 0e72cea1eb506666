import importlib.util
import types

import numpy as np
import pytest
import tensorflow as tf

import vitkeras
from vitkeras.training import Engine, MagnitudePruning, make_optimizer, measured_sparsity

if importlib.util.find_spec("tensorflow_model_optimization") is None:
    pytest.skip('tensorflow-model-optimization is absent: pip install "vitkeras[qat]"', allow_module_level=True)


def build():
    import keras

    keras.utils.set_random_seed(5)
    return vitkeras.VisionTransformer((32, 48, 3), 16, 2, 18, 3, 23, classes=7, classifier_activation=None)


def batches():
    rng = np.random.default_rng(7)
    images, labels = rng.normal(size=(30, 32, 48, 3)).astype("float32"), rng.integers(0, 7, 30).astype("int32")
    return tf.data.Dataset.from_tensor_slices((images, labels)).batch(6, drop_remainder=True).repeat()


def engine(sparsity=0.6, end_step=4, model=None, **kwargs):
    pruning = MagnitudePruning(sparsity, end_step, **kwargs)
    return Engine(model or build(), make_optimizer("adamw", 1e-2), pruning=pruning)


def kernels(model):
    return {v.path: v.numpy() for v in model.trainable_variables if "block" in v.path and v.name == "kernel"}


def test_sparsity_follows_the_schedule_and_stays():
    """With a rate that moves weights far, so that masked ones would not stay zero by themselves."""
    first = engine()
    iterator, shares = first.iterator(batches()), []
    for step in range(1, 7):
        before = kernels(first.model)
        first.run(iterator, 1)
        share = 0.6 * (1 - (1 - min(step / 4, 1)) ** 3)
        for path, kernel in kernels(first.model).items():
            # The k largest are kept, k rounded.
            assert (kernel != 0).sum() == round(kernel.size * (1 - share)), (step, path)
            if step > 4:
                np.testing.assert_array_equal(kernel == 0, before[path] == 0)
                assert np.abs(kernel - before[path]).max() > 1e-4
        shares.append(measured_sparsity(first.model))
    assert len(kernels(first.model)) == 12
    assert shares == sorted(shares) and abs(shares[-1] - 0.6) < 0.002
    untouched = [v.numpy() for v in first.model.trainable_variables if v.path not in kernels(first.model)]
    assert all(np.count_nonzero(array) > 0.9 * array.size for array in untouched)


@pytest.mark.slow
def test_a_resumed_run_is_the_same():
    whole, first = engine(), engine()
    whole.run(whole.iterator(batches()), 6)
    first.run(first.iterator(batches()), 3)
    second = engine()
    state = first.state()
    assert sum(name.startswith("mask/") for name in state) == 12
    second.restore(state)
    second.run(second.iterator(batches().skip(3)), 3)
    for name, array in whole.state().items():
        np.testing.assert_array_equal(array, second.state()[name], err_msg=name)
    with pytest.raises(ValueError, match="the state lacks array 'mask/encoder_block_00"):
        second.restore({name: array for name, array in state.items() if not name.startswith("mask/")})


def test_the_masks_keep_the_largest():
    model = build()
    before = kernels(model)
    Engine(model, make_optimizer("sgd", 1e-12), pruning=(pruning := MagnitudePruning(0.3, 1))).run(iter(batches()), 1)
    for path, kernel in kernels(model).items():
        kept = np.abs(before[path])[kernel != 0]
        assert kept.min() >= np.abs(before[path])[kernel == 0].max()
        np.testing.assert_array_equal(pruning.masks[path].numpy() != 0, kernel != 0)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (dict(sparsity=1.0), r"sparsity must be in \(0, 1\), received 1.0"),
        (dict(begin_step=4), "begin_step must be >= 0 and below end_step 4, received 4"),
        (dict(pattern="tail/.*"), "needs a trainable variable with a path like 'tail/"),
    ],
)
def test_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        engine(**arguments)


def test_what_does_not_go_together():
    model, pruning = build(), MagnitudePruning(0.5, 3)
    with pytest.raises(ValueError, match="pruning needs an optimizer and no ema_decay"):
        Engine(model, make_optimizer("sgd", 0.1), ema_decay=0.9, pruning=pruning)
    Engine(model, make_optimizer("sgd", 0.1), pruning=pruning)
    with pytest.raises(ValueError, match="a MagnitudePruning of its own"):
        Engine(model, make_optimizer("sgd", 0.1), pruning=pruning)


def test_several_replicas_are_refused():
    strategy = types.SimpleNamespace(num_replicas_in_sync=2)
    with pytest.raises(ValueError, match="pruning needs one device, received 2 replicas"):
        Engine(build(), make_optimizer("sgd", 0.1), strategy, pruning=MagnitudePruning(0.5, 3))


def test_long_schedules_end_on_their_last_step():
    pruning = MagnitudePruning(0.5, end_step=1234, begin_step=17)
    assert 17 <= pruning.begin_step < 17 + 13 and pruning.end_step == 1234
    turns = [step for step in range(1, 1300) if bool(pruning._schedule(tf.constant(step, tf.int64))[0])]
    assert turns[-1] == 1234 and 80 < len(turns) <= 101
