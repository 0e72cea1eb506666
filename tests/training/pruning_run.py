"""Prunes the same net on one device and on two replicas; run by test_pruning, which reads the printed line.

python pruning_run.py
"""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np
import tensorflow as tf

import vitkeras
from vitkeras.training import Engine, MagnitudePruning, make_optimizer

RNG = np.random.default_rng(0)
IMAGES, LABELS = RNG.normal(size=(24, 16, 48, 3)).astype("float32"), RNG.integers(0, 7, 24).astype("int32")


def run(strategy):
    keras.utils.set_random_seed(0)
    with strategy.scope():
        model = vitkeras.VisionTransformer((16, 48, 3), 16, 1, 18, 3, 23, classes=7, classifier_activation=None)
        optimizer = make_optimizer("sgd", 0.1)
    engine = Engine(model, optimizer, strategy, pruning=MagnitudePruning(0.5, 3))
    data = tf.data.Dataset.from_tensor_slices((IMAGES, LABELS)).batch(8, drop_remainder=True).repeat()
    engine.run(engine.iterator(data), 5)
    return engine.state()


if __name__ == "__main__":
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    one, two = run(tf.distribute.get_strategy()), run(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]))
    masks = [name for name in one if name.startswith("mask/")]
    same = all((one[name] == two[name]).all() for name in masks)
    worst = max(np.abs(one[name] - two[name]).max() for name in one if name.startswith("model/"))
    zeros = np.mean(np.concatenate([(two["model" + name[4:]] == 0).ravel() for name in masks]))
    print(f"masks {len(masks)} same {same} zeros {zeros:.3f} difference {worst:.1e}")
