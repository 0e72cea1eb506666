import keras
import numpy as np
import pytest

from vitkeras.training import AdamW, MomentumSGD, WarmupDecay, make_optimizer

RATES = [0.1, 0.03, 0.07]


def _variables():
    rng = np.random.default_rng(3)
    shapes = {"kernel": (3, 5), "bias": (5,), "embedding": (1, 7, 2)}
    return [keras.Variable(rng.normal(size=shape).astype("float32"), name=name) for name, shape in shapes.items()]


def _gradients(step):
    rng = np.random.default_rng(100 + step)
    return [rng.normal(size=v.shape).astype("float32") for v in _variables()]


class _Table(keras.optimizers.schedules.LearningRateSchedule):
    def __call__(self, step):
        return keras.ops.take(keras.ops.convert_to_tensor(RATES), keras.ops.cast(step, "int32"))


def _run(optimizer):
    variables = _variables()
    optimizer.build(variables)
    for step in range(len(RATES)):
        optimizer.apply([keras.ops.convert_to_tensor(g) for g in _gradients(step)])
    return [v.numpy() for v in variables]


def _clipped(gradients, norm):
    total = np.sqrt(sum((g.astype("float64") ** 2).sum() for g in gradients))
    return [g * min(1, norm / total) for g in gradients]


@pytest.mark.parametrize("clip", [None, 0.5])
def test_momentum_sgd_equals_numpy(clip):
    expected = [v.numpy().astype("float64") for v in _variables()]
    traces = [np.zeros_like(w) for w in expected]
    for step, rate in enumerate(RATES):
        gradients = _gradients(step) if clip is None else _clipped(_gradients(step), clip)
        traces = [0.9 * m + g for m, g in zip(traces, gradients)]
        expected = [w - rate * m for w, m in zip(expected, traces)]
    for actual, wanted in zip(_run(MomentumSGD(_Table(), momentum=0.9, clip_norm=clip)), expected):
        np.testing.assert_allclose(actual, wanted, rtol=0, atol=1e-6)


def test_keras_sgd_differs_when_the_rate_changes():
    ours, theirs = _run(MomentumSGD(_Table())), _run(keras.optimizers.SGD(_Table(), momentum=0.9))
    assert max(np.abs(a - b).max() for a, b in zip(ours, theirs)) > 1e-2


def test_adamw_equals_numpy_and_decays_kernels_only():
    expected = [v.numpy().astype("float64") for v in _variables()]
    first, second = [np.zeros_like(w) for w in expected], [np.zeros_like(w) for w in expected]
    for step, rate in enumerate(RATES):
        gradients, t = _clipped(_gradients(step), 1.0), step + 1
        first = [0.9 * m + 0.1 * g for m, g in zip(first, gradients)]
        second = [0.999 * v + 0.001 * g**2 for v, g in zip(second, gradients)]
        for i, decay in enumerate((0.3, 0.0, 0.0)):
            update = (first[i] / (1 - 0.9**t)) / (np.sqrt(second[i] / (1 - 0.999**t)) + 1e-8)
            expected[i] = expected[i] * (1 - rate * decay) - rate * update
    for actual, wanted in zip(_run(AdamW(_Table(), weight_decay=0.3, clip_norm=1.0)), expected):
        np.testing.assert_allclose(actual, wanted, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "mask, decayed",
    [
        (None, {"head/kernel", "block/Dense_0/kernel"}),
        ("head/.*", {"head/kernel", "head/bias", "head/no_kernel"}),
        (r".*kernel$", {"head/kernel", "block/Dense_0/kernel", "head/no_kernel"}),
        ("kernel", set()),
    ],
)
def test_the_mask_names_what_decays(mask, decayed):
    variables = []
    for path in ("head/kernel", "head/bias", "head/no_kernel", "block/Dense_0/kernel", "class_token/token"):
        variables.append(keras.Variable(np.ones(3, "float32"), name=path.rpartition("/")[2]))
        variables[-1]._path = path  # what a layer's name scope does
    optimizer = AdamW(0.5, weight_decay=0.1, **({} if mask is None else {"decay_mask": mask}))
    optimizer.build(variables)
    optimizer.apply([keras.ops.zeros(3) for _ in variables])
    assert {v.path for v in variables if v.numpy()[0] < 1} == decayed
    assert all(abs(v.numpy()[0] - (0.95 if v.path in decayed else 1)) < 1e-6 for v in variables)


def test_a_wrong_mask_is_refused():
    with pytest.raises(ValueError, match=r"decay_mask must be a regular expression, received '\(' \(missing"):
        make_optimizer("adamw", 0.1, decay_mask="(")


@pytest.mark.parametrize("optimizer", [MomentumSGD(0.1, clip_norm=0.5), AdamW(WarmupDecay(0.1, 9), 0.2, clip_norm=2.0)])
def test_config_round_trip(optimizer):
    if isinstance(optimizer, AdamW):
        optimizer.decay_mask = "head/kernel"
    again = type(optimizer).from_config(optimizer.get_config())
    assert again.get_config() == optimizer.get_config()
    assert again.clip_norm == optimizer.clip_norm


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("sdg", 0.1), "optimizer must be 'sgd' or 'adamw', received 'sdg'; nearest: 'sgd'"),
        (("sgd", 0.1, 0.9, 0.1), "weight_decay is for optimizer 'adamw', received 0.1 with 'sgd'"),
        (("sgd", 0.1, 0.9, 0.0, 0.0), "clip_norm must be > 0 or None, received 0.0"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_optimizer(*arguments)


@pytest.mark.parametrize("arguments", [dict(momentum=0.0), dict(momentum=1.0), dict(nesterov=True)])
def test_other_momentum_is_refused(arguments):
    with pytest.raises(ValueError, match=r"momentum must be in \(0, 1\) and not nesterov"):
        MomentumSGD(**arguments)


def test_amsgrad_is_refused():
    with pytest.raises(ValueError, match="amsgrad must be False, received True"):
        AdamW(amsgrad=True)
