"""Masked-patch prediction on one device, two replicas and two micro-batches; run by test_masked_patch_training."""

import json

import keras
import numpy as np
import tensorflow as tf

import vitkeras
from vitkeras.training import (
    Engine,
    MaskedPatchPrediction,
    WarmupDecay,
    make_optimizer,
    masked_patch_batches,
    masked_patch_model,
)


def run(strategy, accumulate, target):
    keras.utils.set_random_seed(0)
    images = np.random.default_rng(0).uniform(-1, 1, (24, 21, 25, 3)).astype("float32")
    with strategy.scope():
        backbone = vitkeras.VisionTransformer((21, 25, 3), (7, 5), 1, 26, 2, 37, include_top=False)
        model = masked_patch_model(backbone, target)
        optimizer = make_optimizer("adamw", WarmupDecay(3e-3, 20, 3), clip_norm=0.5)
    engine = Engine(model, optimizer, strategy, accumulate, MaskedPatchPrediction(target))
    data = tf.data.Dataset.from_tensor_slices((images, np.zeros(24, "int32"))).batch(8, drop_remainder=True).repeat()
    losses = engine.run(engine.iterator(masked_patch_batches(data, (7, 5), target, seed=3)), 8)["loss"]
    weights = (np.arange(24) < 19).astype("float32")
    test = tf.data.Dataset.from_tensor_slices((images, np.zeros(24, "int32"), weights)).batch(8, drop_remainder=True)
    metrics = engine.evaluate(masked_patch_batches(test, (7, 5), target))
    replicas = strategy.num_replicas_in_sync
    return {"losses": losses.tolist(), "metrics": metrics, "replicas": replicas, "accumulate": accumulate}


if __name__ == "__main__":
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})  # as in tests/conftest.py
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    one, two = tf.distribute.get_strategy(), tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    for target in ("mean_color", "color_4x4", "pixels"):
        for strategy, accumulate in ((one, 1), (two, 1), (one, 2)):
            print(json.dumps({"target": target, **run(strategy, accumulate, target)}), flush=True)
