"""Masked-patch prediction: the loss and the training."""

import json
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from masked_patch_cases import TARGETS, M, N, P, Q, backbone, dataset, first, images, model_for

from vitkeras.training import (
    Engine,
    MaskedPatchPrediction,
    WarmupDecay,
    make_optimizer,
    masked_patch_batches,
    masked_patch_model,
)
from vitkeras.training.patch_targets import patch_targets

SCRIPT = pathlib.Path(__file__).with_name("masked_patch_run.py")


# The loss


def numpy_loss(outputs, targets, target):
    outputs = outputs.astype("float64")
    if target == "pixels":
        right = np.clip(np.floor((outputs + 1) * 4), 0, 7) == np.clip(np.floor((targets + 1) * 4), 0, 7)
        return ((outputs - targets) ** 2).mean(axis=(1, 2)), right.mean(axis=(1, 2))
    logits = outputs.reshape(*targets.shape, 512)
    chosen = np.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    loss = np.log(np.exp(logits).sum(axis=-1)) - chosen
    axes = tuple(range(1, loss.ndim))
    return loss.mean(axis=axes), (logits.argmax(axis=-1) == targets).mean(axis=axes)


@pytest.mark.parametrize("target", TARGETS)
def test_loss_equals_numpy(target, assert_close):
    inputs, targets = first(dataset(target))
    outputs = model_for(target)(inputs)
    loss, correct = MaskedPatchPrediction(target)(outputs, tf.constant(targets))
    expected = numpy_loss(outputs.numpy(), targets, target)
    assert loss.shape == correct.shape == (6,)
    assert_close(loss, expected[0], atol=2e-6)
    assert_close(correct, expected[1], atol=1e-6)


def test_only_corrupted_patches_enter_the_loss(assert_close):
    model, (inputs, targets) = model_for(), first(dataset())
    loss = MaskedPatchPrediction()(model(inputs), tf.constant(targets))[0].numpy()
    all_patches = inputs | {"positions": np.tile(np.arange(N, dtype="int32"), (6, 1))}
    outputs = model(all_patches).numpy()
    every = patch_targets(tf.constant(inputs["image"]), (P, Q), "mean_color").numpy()
    per_patch = np.stack([numpy_loss(outputs[:, [i]], every[:, [i]], "mean_color")[0] for i in range(N)], axis=1)
    corrupted = np.zeros((6, N), bool)
    np.put_along_axis(corrupted, inputs["positions"], True, axis=1)
    assert corrupted.sum() == 6 * M
    assert_close(loss, (per_patch * corrupted).sum(axis=1) / M, atol=5e-6)
    assert np.abs(loss - per_patch.mean(axis=1)).min() > 1e-3  # the mean over all patches is another number
    with tf.GradientTape() as tape:
        logits = tf.Variable(outputs)
        picked = tf.gather(logits, inputs["positions"], batch_dims=1)
        value = tf.reduce_sum(MaskedPatchPrediction()(picked, tf.constant(targets))[0])
    gradient = tf.convert_to_tensor(tape.gradient(value, logits)).numpy()
    np.testing.assert_array_equal(np.abs(gradient).max(axis=2) > 0, corrupted)


@pytest.mark.parametrize("target", TARGETS)
def test_a_new_model_knows_nothing(target):
    engine = Engine(masked_patch_model(backbone(), target), task=MaskedPatchPrediction(target))
    x = tf.data.Dataset.from_tensors((images(), np.zeros(6), np.ones(6, "float32")))
    metrics = engine.evaluate(masked_patch_batches(x, (P, Q), target))
    expected = np.log(512) if target != "pixels" else (first(dataset(target))[1].astype("float64") ** 2).mean()
    assert abs(metrics["loss"] - expected) < 2e-6 and metrics["count"] == 6


# Training


def engine_for(model, target="mean_color", **kwargs):
    optimizer = make_optimizer("adamw", WarmupDecay(3e-3, 40, 3), clip_norm=1.0)
    return Engine(model, optimizer, task=MaskedPatchPrediction(target), **kwargs)


@pytest.mark.parametrize("target, falls_to", [("mean_color", 0.8), ("color_4x4", 0.97), ("pixels", 0.99)])
def test_it_learns(target, falls_to):
    engine = engine_for(masked_patch_model(backbone(), target), target)
    loss = engine.run(engine.iterator(dataset(target)), 25)["loss"]
    assert loss[-1] < falls_to * loss[0]


@pytest.mark.parametrize("classifier", ["token", "gap"])
def test_every_weight_gets_a_gradient(classifier):
    model = model_for(classifier=classifier)
    inputs, targets = next(iter(dataset()))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(MaskedPatchPrediction()(model(inputs), targets)[0])
    for weight, gradient in zip(
        model.trainable_variables, tape.gradient(loss, [v.value for v in model.trainable_variables])
    ):
        if not weight.path.endswith("key/bias"):  # moves all scores of a row alike, which softmax does not see
            assert np.abs(tf.convert_to_tensor(gradient).numpy()).max() > 1e-6, weight.path


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_the_step_compiles_with_xla_and_gives_the_same_losses(target):
    runs = []
    for jit_compile in (False, True):
        engine = engine_for(masked_patch_model(backbone(), target), target, jit_compile=jit_compile)
        runs.append(engine.run(engine.iterator(dataset(target)), 3)["loss"])
    np.testing.assert_allclose(*runs, rtol=0, atol=2e-5)


def test_bfloat16_with_dropout_and_rematerialisation():
    keras.config.set_dtype_policy("mixed_bfloat16")
    model = masked_patch_model(backbone(dropout_rate=0.1, stochastic_depth_rate=0.1))
    assert {v.dtype for v in model.trainable_variables} == {"float32"} and model.output.dtype == "float32"
    engine = engine_for(model, remat=True)
    loss = engine.run(engine.iterator(dataset()), 12)["loss"]
    assert np.isfinite(loss).all() and loss[-1] < loss[0]


@pytest.fixture(scope="module")
def runs():
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.mark.slow
def test_one_device_two_replicas_and_two_micro_batches_agree(runs):
    assert len(runs) == 9 and {r["replicas"] for r in runs} == {1, 2}
    for target in TARGETS:
        own = [r for r in runs if r["target"] == target]
        assert [(r["replicas"], r["accumulate"]) for r in own] == [(1, 1), (2, 1), (1, 2)]
        for other in own[1:]:
            np.testing.assert_allclose(other["losses"], own[0]["losses"], rtol=0, atol=1e-6)
            assert abs(other["metrics"]["loss"] - own[0]["metrics"]["loss"]) < 1e-6
        assert abs(own[0]["losses"][-1] - own[0]["losses"][0]) > 1e-3
