"""The engine against a bare train step, with an input pipeline and without; the memory that rematerialisation saves.

    python benchmarks/engine.py [--variant vit_b16 --batch 8 --steps 2 --rounds 7 --json out.json]

The bare step is a `tf.function` of model, gradient tape and the same optimizer (momentum SGD, global norm clipped at 1)
on one batch in memory. Beside it `Engine.run` on the same batch, and `Engine.run` on JPEG files of about 100 KB that
`train_batches` decodes, crops and mirrors. The rounds interleave the three, in an order that turns from round to round,
and the medians of the per-round ratios are printed. A process of its own measures the peak of the resident memory in
one step, without and with rematerialisation (--no-memory leaves that out). TensorFlow's oneDNN kernels are on unless
TF_ENABLE_ONEDNN_OPTS says otherwise.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

CLASSES = 2


def write_pictures(folder, count, side=500):
    """Writes `count` JPEG files of smooth noise in two class folders and returns their mean size in bytes."""
    import tensorflow as tf

    total = 0
    for index in range(count):
        coarse = tf.random.stateless_uniform((side // 4, side // 4, 3), (index, 0), 0.0, 255.0)
        image = tf.cast(tf.clip_by_value(tf.image.resize(coarse, (side, side), "bicubic"), 0, 255), tf.uint8)
        data = tf.io.encode_jpeg(image, quality=90).numpy()
        path = os.path.join(folder, f"class_{index % CLASSES}", f"{index}.jpg")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
        total += len(data)
    return total / count


def build(variant):
    """The model, with logits of two classes, and its optimizer."""
    from vitkeras import models, training

    model = models.build_variant(variant, weights=None, classes=CLASSES, classifier_activation=None)
    return model, training.make_optimizer("sgd", 1e-4, clip_norm=1.0)


def bare_step(variant):
    """A train step written by hand, as short as it can be."""
    import tensorflow as tf

    model, optimizer = build(variant)
    optimizer.build(model.trainable_variables)

    @tf.function
    def step(images, labels):
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        variables = model.trainable_variables
        optimizer.apply(tape.gradient(loss, [v.value for v in variables]), variables)
        return loss

    return step


def measure(arguments):
    """Runs the rounds; returns name -> list of seconds a step."""
    import tensorflow as tf

    from vitkeras import data, training

    images = tf.random.normal((arguments.batch, 224, 224, 3))
    labels = tf.random.uniform((arguments.batch,), 0, CLASSES, tf.int32)
    step, engine = bare_step(arguments.variant), training.Engine(*build(arguments.variant))
    with tempfile.TemporaryDirectory() as folder:
        size = write_pictures(folder, max(40, 2 * arguments.batch))
        splits = data.open_dataset(f"folder:{folder}")
        pictures = engine.iterator(data.train_batches(splits.train, arguments.batch, 224))
        memory = engine.iterator(tf.data.Dataset.from_tensors((images, labels)).repeat())

        def bare():
            for _ in range(arguments.steps):
                loss = step(images, labels)
            return loss.numpy()

        tasks = {
            "bare": bare,
            "engine": lambda: engine.run(memory, arguments.steps),
            "engine_with_data": lambda: engine.run(pictures, arguments.steps),
        }
        for _ in range(2):  # tracing, then one warm round
            for task in tasks.values():
                task()
        seconds, order = {name: [] for name in tasks}, list(tasks)
        for _ in range(arguments.rounds):
            order = order[1:] + order[:1]
            for name in order:
                start = time.perf_counter()
                tasks[name]()
                seconds[name].append((time.perf_counter() - start) / arguments.steps)
    return seconds, size


def peak_memory(variant, batch, remat):
    """MiB of resident memory at the peak of one engine step in a new process."""
    command = [sys.executable, __file__, "--variant", variant, "--batch", str(batch), "--peak", str(int(remat))]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])


def print_peak(arguments):
    """Worker of `peak_memory`."""
    import tensorflow as tf

    from vitkeras import training

    engine = training.Engine(*build(arguments.variant), remat=bool(arguments.peak))
    batch = tf.random.normal((arguments.batch, 224, 224, 3)), tf.zeros((arguments.batch,), tf.int32)
    engine.run(engine.iterator(tf.data.Dataset.from_tensors(batch)), 1)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def ratio(seconds, above, below):
    """Median over the rounds of one time by another."""
    return statistics.median(a / b for a, b in zip(seconds[above], seconds[below]))


def main():
    """Runs the rounds and prints the table."""
    parse = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parse.add_argument("--variant", default="vit_b16")
    parse.add_argument("--batch", type=int, default=8)
    parse.add_argument("--steps", type=int, default=2, help="steps that are timed together")
    parse.add_argument("--rounds", type=int, default=7)
    parse.add_argument("--no-memory", action="store_true", help="leave the memory out")
    parse.add_argument("--json", metavar="PATH")
    parse.add_argument("--peak", type=int, help=argparse.SUPPRESS)
    arguments = parse.parse_args()
    if arguments.peak is not None:
        return print_peak(arguments)

    seconds, size = measure(arguments)
    result = {
        "variant": arguments.variant,
        "batch": arguments.batch,
        "steps": arguments.steps,
        "rounds": arguments.rounds,
        "cpus": os.cpu_count(),
        "onednn": os.environ["TF_ENABLE_ONEDNN_OPTS"],
        "picture_kilobytes": size / 1000,
        **{f"{name}_seconds": statistics.median(values) for name, values in seconds.items()},
        "engine_over_bare": ratio(seconds, "engine", "bare"),
        "data_over_none": ratio(seconds, "engine_with_data", "engine"),
    }
    if not arguments.no_memory:
        for name, remat in (("peak_mebibytes", False), ("peak_mebibytes_remat", True)):
            result[name] = peak_memory(arguments.variant, arguments.batch, remat)
    for key, value in result.items():
        print(f"{key:28s} {value:.3f}" if isinstance(value, float) else f"{key:28s} {value}")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
