"""Trains the same small net in several ways and writes one .npz each; test_distribution starts it in processes."""

import os

import keras
import numpy as np
import tensorflow as tf

import vitkeras
from vitkeras.training import Engine, WarmupDecay, make_optimizer, make_strategy

RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=(64, 16, 48, 3)).astype("float32")
LABELS = RNG.integers(0, 7, 64).astype("int32")
# Runs of one group must agree, whatever the strategy: group -> name -> (optimizer, clip, the engine's arguments).
GROUPS = {
    "plain": {"plain": ("sgd", None, {})},
    "clip": {
        "clip": ("sgd", 0.5, {}),
        "clip_accumulate": ("sgd", 0.5, {"accumulate": 2}),
        "clip_remat": ("sgd", 0.5, {"remat": True}),
        "clip_xla": ("sgd", 0.5, {"jit_compile": True}),
    },
    "adamw": {"adamw": ("adamw", 0.5, {}), "adamw_accumulate": ("adamw", 0.5, {"accumulate": 2})},
}
PLANS = {
    "default": ["plain", "clip", "clip_accumulate", "clip_remat", "clip_xla", "adamw", "adamw_accumulate"],
    "one": ["clip"],
    "mirrored": ["plain", "clip", "clip_accumulate", "clip_remat", "clip_xla", "adamw_accumulate"],
    "multiworker": ["plain", "clip_accumulate", "adamw"],
}


def build(rate=0.0):
    keras.utils.set_random_seed(0)
    model = vitkeras.VisionTransformer(
        (16, 48, 3), 16, 1, 24, 3, 48, classes=7, classifier_activation=None, dropout_rate=rate
    )
    head = model.get_layer("head")
    head.kernel.assign(np.random.default_rng(6).normal(scale=0.1, size=head.kernel.shape))
    return model


def run(strategy, optimizer, clip, arguments):
    """Eight steps and two evaluations; the losses, the metrics and the state as arrays."""
    with strategy.scope():
        schedule = WarmupDecay(3e-3, total_steps=20, warmup_steps=3)
        decay = 0.1 if optimizer == "adamw" else 0.0
        optimizer = make_optimizer(optimizer, schedule, weight_decay=decay, clip_norm=clip)
        engine = Engine(build(), optimizer, strategy, ema_decay=0.9, **arguments)
    data = tf.data.Dataset.from_tensor_slices((IMAGES, LABELS)).batch(16, drop_remainder=True).repeat()
    iterator = engine.iterator(data)
    losses = np.concatenate([engine.run(iterator, 5)["loss"], engine.run(iterator, 3)["loss"]])
    weights = (np.arange(60) < 50).astype("float32")
    part = tf.data.Dataset.from_tensor_slices((IMAGES[:60], LABELS[:60], weights)).batch(20)
    metrics = [list(engine.evaluate(part, use_ema=use_ema).values()) for use_ema in (False, True)]
    return {"losses": losses, "metrics": np.array(metrics), **engine.state()}


def replica_losses(strategy, rate):
    """The first loss of each replica of this process; all replicas see the same eight examples."""
    with strategy.scope():
        engine = Engine(build(rate), make_optimizer("sgd", 0.01), strategy)
    copies = strategy.num_replicas_in_sync
    data = tf.data.Dataset.from_tensors((np.tile(IMAGES[:8], (copies, 1, 1, 1)), np.tile(LABELS[:8], copies)))
    step = tf.function(lambda batch: strategy.run(engine._replica_step, args=batch))
    local = strategy.experimental_local_results(step(next(engine.iterator(data))))
    return np.array([values.numpy()[0] * copies for values in local])


def write(path, arrays):
    np.savez(str(path) + ".part.npz", **{name.replace("/", "|"): array for name, array in arrays.items()})
    os.replace(str(path) + ".part.npz", str(path) + ".npz")


def main(folder, strategies, suffix=""):
    for name, strategy in strategies.items():
        for group, settings in GROUPS.items():
            for setting in set(PLANS[name]) & set(settings):
                write(folder / f"{group}.{setting}.{name}{suffix}", run(strategy, *settings[setting]))
        rates = {f"rate_{rate}": replica_losses(strategy, rate) for rate in (0.0, 0.3)}
        write(folder / f"replicas.dropout.{name}{suffix}", rates)


def run_all(folder, device=None):
    """Every run of this process: as a worker, or else on one device and on two logical CPUs."""
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})  # as in tests/conftest.py
    if device is not None:
        strategy = make_strategy(device)
        main(folder, {device: strategy}, f"{strategy.cluster_resolver.task_id}")
        return
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    main(
        folder,
        {
            "default": tf.distribute.get_strategy(),
            "one": tf.distribute.OneDeviceStrategy("CPU:0"),
            "mirrored": make_strategy("cpu"),
        },
    )
