"""Every train step lowers for a TPU: it is traced under a TPU strategy, XLA knows its ops, and XLA compiles it.

This shows that a step lowers, not that it runs on a TPU. A new task is one function of tpu_cases.py and one line here.
"""

import fake_tpu
import keras
import numpy as np
import pytest
import tensorflow as tf
import tpu_cases

from vitkeras.training import Engine, WarmupDecay, make_optimizer

# (case, optimizer, the engine's arguments)
STEPS = [
    pytest.param(tpu_cases.softmax, "adamw", {"ema_decay": 0.99}, id="softmax"),
    pytest.param(tpu_cases.softmax, "sgd", {"accumulate": 2, "remat": True}, id="accumulation-and-remat"),
    pytest.param(tpu_cases.sigmoid_of_mixed_targets, "adamw", {}, id="sigmoid-mixup"),
    pytest.param(tpu_cases.two_dimensional_positions, "sgd", {}, id="2-d-positions", marks=pytest.mark.slow),
    pytest.param(tpu_cases.relative_positions, "sgd", {}, id="relative-positions", marks=pytest.mark.slow),
    pytest.param(tpu_cases.hybrid, "sgd", {"remat": True}, id="hybrid", marks=pytest.mark.slow),
    pytest.param(tpu_cases.resnet, "adamw", {}, id="resnet", marks=pytest.mark.slow),
    pytest.param(tpu_cases.masked_patches, "adamw", {"remat": True}, id="masked-patches"),
    pytest.param(
        tpu_cases.masked_colors_without_class_token, "adamw", {"accumulate": 2}, id="masked-4x4", marks=pytest.mark.slow
    ),
    pytest.param(tpu_cases.masked_pixels, "adamw", {}, id="masked-pixels", marks=pytest.mark.slow),
    pytest.param(tpu_cases.axial, "sgd", {}, id="axial", marks=pytest.mark.slow),
]


def build(case, optimizer, arguments, strategy=None):
    keras.config.set_dtype_policy("mixed_bfloat16")
    model, task, *specs = case()
    rate = WarmupDecay(1e-3, total_steps=100, warmup_steps=10)
    return Engine(model, make_optimizer(optimizer, rate), strategy, task=task, **arguments), specs


@pytest.mark.parametrize("case, optimizer, arguments", STEPS)
def test_traces_under_a_tpu_strategy_with_xla_ops_only(case, optimizer, arguments):
    def make_step(strategy):
        engine, specs = build(case, optimizer, arguments, strategy)
        return engine._replica_step, specs

    graph = fake_tpu.trace(make_step)
    ops = fake_tpu.replicated_ops(graph)
    assert {"MatMul", "CrossReplicaSum"} <= ops  # the step's products, and its sum over the cores
    assert ("ResourceApplyMomentum" in ops) == (optimizer == "sgd")
    assert fake_tpu.unsupported(graph) == []


@pytest.mark.slow
@pytest.mark.parametrize("case, optimizer, arguments", STEPS)
def test_compiles_as_a_whole(case, optimizer, arguments):
    engine, specs = build(case, optimizer, arguments)
    rng = np.random.default_rng(3)

    def draw(spec):
        if spec.dtype.is_integer:
            return tf.constant(rng.integers(0, 7, spec.shape), spec.dtype)
        return tf.constant(rng.uniform(size=spec.shape), spec.dtype)

    step = tf.function(engine._step, jit_compile=True)
    first = step(keras.tree.map_structure(draw, tuple(specs))).numpy()
    assert np.isfinite(first).all() and engine.step == 1


@pytest.mark.parametrize("case", [tpu_cases.softmax])
def test_evaluation_traces_too(case):
    def make_step(strategy):
        engine, specs = build(case, "sgd", {"ema_decay": 0.99}, strategy)
        weights = tf.TensorSpec((tpu_cases.BATCH,), tf.float32)
        return lambda *batch: engine._replica_evaluate(*batch, use_ema=True), [*specs, weights]

    assert fake_tpu.unsupported(fake_tpu.trace(make_step)) == []


@pytest.mark.parametrize(
    "function, op",
    [
        (lambda x: keras.ops.image.resize(x, (24, 40), interpolation="bicubic"), "ResizeBicubic"),
        (lambda x: tf.boolean_mask(x, x[:, 0, 0, 0] > 0), "Where"),
        (lambda x: tf.numpy_function(np.abs, [x], tf.float32), "PyFunc"),
    ],
)
def test_the_reader_sees_ops_that_xla_lacks(function, op):
    graph = fake_tpu.trace(lambda strategy: (lambda x: tf.reduce_sum(function(x)), [tpu_cases.SPEC]))
    if op == "Where":  # XLA has a kernel, of a shape that isn't known when it compiles
        assert op in fake_tpu.replicated_ops(graph)
    else:
        assert op in fake_tpu.unsupported(graph)
