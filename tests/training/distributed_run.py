"""Trains the same small net under several strategies and prints one JSON line each; run by test_distribution."""

import json
import sys

import keras
import numpy as np
import tensorflow as tf

import vitkeras
from vitkeras.training import Engine, WarmupDecay, make_optimizer


def run(strategy, optimizer, accumulate, clip):
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    images, labels = rng.normal(size=(64, 32, 48, 3)).astype("float32"), rng.integers(0, 7, 64).astype("int32")
    with strategy.scope():
        model = vitkeras.VisionTransformer((32, 48, 3), 16, 2, 48, 3, 96, classes=7, classifier_activation=None)
        rate = WarmupDecay(3e-3, total_steps=20, warmup_steps=3)
        decay = 0.1 if optimizer == "adamw" else 0.0
        engine = Engine(
            model, make_optimizer(optimizer, rate, weight_decay=decay, clip_norm=clip), strategy, accumulate
        )
    iterator = engine.iterator(
        tf.data.Dataset.from_tensor_slices((images, labels)).batch(16, drop_remainder=True).repeat()
    )
    losses = [*engine.run(iterator, 4)["loss"].tolist(), *engine.run(iterator, 4)["loss"].tolist()]
    weights = (np.arange(60) < 50).astype("float32")
    metrics = engine.evaluate(tf.data.Dataset.from_tensor_slices((images[:60], labels[:60], weights)).batch(20))
    return {"losses": losses, "metrics": metrics, "steps": engine.step, "replicas": strategy.num_replicas_in_sync}


if __name__ == "__main__":
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategies = {
        "default": tf.distribute.get_strategy(),
        "one": tf.distribute.OneDeviceStrategy("CPU:0"),
        "mirrored": tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]),
    }
    for optimizer in ("sgd", "adamw"):
        for accumulate, clip in ((1, None), (1, 0.5), (2, 0.5)):
            for name, strategy in strategies.items():
                result = run(strategy, optimizer, accumulate, clip)
                print(json.dumps({"strategy": name, "setting": [optimizer, clip], **result}))
                sys.stdout.flush()
