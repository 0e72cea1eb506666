"""The processes behind throughput.py: each measures memory, makes a file, or runs batches whenever it is asked to.

    python benchmarks/throughput_workers.py ROLE JSON

A server writes the seconds of one batch, by the clock and of all processors together, for each line of JSON that it
reads; the others print one line at the end.
"""

import json
import os
import sys
import time

from latency_workers import peak_bytes, vitkeras_model


def forward(variant, image_size):
    """A compiled forward pass of a random model: function of a batch size that waits for the result."""
    import tensorflow as tf

    model = vitkeras_model(variant, image_size)
    shape = (image_size, image_size, 3)
    infer = tf.function(lambda x: model(x, training=False), input_signature=[tf.TensorSpec((None, *shape))])
    images = {}

    def run(batch):
        if batch not in images:
            images[batch] = tf.random.stateless_normal((batch, *shape), (1, 2))
        return infer(images[batch]).numpy()

    return run


def measure_peaks(variant, image_size, batches):
    """The most memory that a forward pass of each of the ascending batches took: of the process, or of the GPU."""
    import tensorflow as tf

    run = forward(variant, image_size)
    on_gpu = bool(tf.config.list_physical_devices("GPU"))
    peaks = []
    for batch in batches:
        run(batch)
        peaks.append(tf.config.experimental.get_memory_info("GPU:0")["peak"] if on_gpu else peak_bytes())
    return {"peaks": peaks}


def make_file(variant, image_size, preset, path, threads):
    """Exports a preset, static ones calibrated on a few made-up images: latency does not depend on the ranges."""
    from vitkeras import export
    from vitkeras.export.images import synthetic_images
    from vitkeras.export.presets import find_preset

    shape = (image_size, image_size, 3)
    images = synthetic_images(shape, count=8) if find_preset(preset).images == "needed" else None
    few = synthetic_images(shape, count=2)
    export.to_tflite(
        vitkeras_model(variant, image_size),
        path,
        preset=preset,
        calibration_images=images,
        verify_images=few,
        num_threads=threads,
    )
    return {"bytes": os.path.getsize(path)}


def describe(variants, image_sizes, presets):
    """What is calculated: multiply-adds of one image by variant and size; and what this runs on; or an "error"."""
    import tensorflow as tf

    from vitkeras.analysis import variant_cost
    from vitkeras.export.presets import find_preset

    try:
        if any(find_preset(preset).learned for preset in presets):
            return {"error": f"presets must be for models as they are built, received {','.join(presets)}."}
        macs = {variant: [variant_cost(variant, size).macs for size in image_sizes] for variant in variants}
    except ValueError as error:
        return {"error": str(error)}
    gpus = [tf.config.experimental.get_device_details(gpu) for gpu in tf.config.list_physical_devices("GPU")]
    device = gpus[0].get("device_name", "a GPU") if gpus else f"{processor()}, {os.cpu_count()} logical cores"
    return {"macs": macs, "device": device, "tensorflow": tf.__version__}


def processor():
    """The processor's name, as Linux knows it."""
    import platform

    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def now():
    """(seconds of the clock, seconds of this process on all processors)."""
    return time.perf_counter(), time.process_time()


def since(start):
    """What both have gone on since `now()`."""
    return [b - a for a, b in zip(start, now())]


def serve_keras(variant):
    """A variant at any size; models are built when they are first asked for."""
    runs = {}

    def turn(image_size, batch):
        if image_size not in runs:
            runs[image_size] = forward(variant, image_size)
        start = now()
        runs[image_size](batch)
        return since(start)

    return turn


def serve_files(paths, threads):
    """Files of one preset, by image size; a batch goes through one image at a time."""
    from vitkeras.export.images import synthetic_images
    from vitkeras.export.runtime import TFLiteRunner

    runners = {}

    def turn(image_size, batch):
        if image_size not in runners:
            image = synthetic_images((image_size, image_size, 3), count=1)[0]
            runners[image_size] = TFLiteRunner(paths[str(image_size)], threads), image
        runner, image = runners[image_size]
        start = now()
        for _ in range(batch):
            runner.one(image)
        return since(start)

    return turn


def main():
    """Runs the role that the first argument names with the arguments of the second."""
    role, arguments = sys.argv[1], json.loads(sys.argv[2])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # frameworks may print; only answers go to the pipe
    once = {"describe": describe, "peaks": measure_peaks, "file": make_file}
    if role in once:
        print(json.dumps(once[role](**arguments)), file=answers, flush=True)
        return
    turn = {"keras": serve_keras, "files": serve_files}[role](**arguments)
    for line in sys.stdin:
        print(json.dumps(turn(*json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
