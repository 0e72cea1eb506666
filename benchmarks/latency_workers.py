"""The processes behind export_latency.py: each makes one file, or runs one thing whenever it is asked to.

    python benchmarks/latency_workers.py ROLE JSON

It runs in the interpreter of the library that the role needs and imports nothing else. What makes a file prints one
line of JSON at the end; a server writes the seconds of a turn for each line that it reads.
"""

import json
import os
import resource
import sys
import time

RUNS = 3
SIDE = 4096  # of the float32 product that the floor is taken from


def turn(run):
    """Seconds of the fastest of three runs, after one that brings the weights back into the caches."""
    run()
    seconds = []
    for _ in range(RUNS):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def peak_bytes():
    """The most memory that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def vitkeras_model(variant, image_size):
    """The variant with random weights, always the same, and logits as output."""
    import keras

    from vitkeras import models

    keras.utils.set_random_seed(0)
    shape = (image_size, image_size, 3)
    return models.build_variant(variant, weights=None, input_shape=shape, classifier_activation=None)


def describe(variant, image_size, presets):
    """The multiply-adds of one image, and of a plain ViT the sizes from which others build it; or an "error"."""
    from vitkeras import models
    from vitkeras.analysis import flops
    from vitkeras.export.presets import find_preset

    if variant not in models.VARIANTS:
        return {"error": f"variant must be one of {', '.join(models.VARIANTS)}; received {variant!r}."}
    try:
        if any(find_preset(preset).learned for preset in presets):
            return {"error": f"presets must be for models as they are built, received {','.join(presets)}."}
        macs = flops(vitkeras_model(variant, image_size)).macs
    except ValueError as error:
        return {"error": str(error)}
    names = ("patch_size", "num_layers", "num_heads", "hidden_dim", "mlp_dim")
    row = models.VARIANTS[variant]
    return {"macs": macs, "sizes": {name: getattr(row, name) for name in names} if variant.startswith("vit_") else None}


def make_vitkeras(variant, image_size, preset, path, threads):
    """Exports a preset; the seconds are the export's alone, the memory is all that its process took."""
    from vitkeras import export
    from vitkeras.export.images import synthetic_images
    from vitkeras.export.presets import find_preset

    model = vitkeras_model(variant, image_size)
    images = None
    if find_preset(preset).images == "needed":
        images = synthetic_images((image_size, image_size, 3), count=128)
    start = time.perf_counter()
    report = export.to_tflite(model, path, preset=preset, calibration_images=images, num_threads=threads)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "peak_bytes": peak_bytes(), "partitions": report.partitions}


def make_kerashub(image_size, sizes, quantizes, path):
    """KerasHub's classifier through Keras' own export, as its documentation writes it."""
    import keras
    import keras_hub
    import tensorflow as tf

    keras.utils.set_random_seed(0)
    backbone = keras_hub.models.ViTBackbone(image_shape=(image_size, image_size, 3), **sizes)
    model = keras_hub.models.ViTImageClassifier(backbone=backbone, num_classes=1000)
    options = {"optimizations": [tf.lite.Optimize.DEFAULT]} if quantizes else {}
    start = time.perf_counter()
    model.export(path, format="litert", **options)
    return {"seconds": time.perf_counter() - start, "peak_bytes": peak_bytes()}


def make_timm(image_size, sizes, quantizes, path):
    """timm's model as an ONNX file; quantized: ONNX Runtime's dynamic int8 with its defaults."""
    import tempfile

    import timm
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic

    torch.manual_seed(0)
    model = timm.models.VisionTransformer(
        img_size=image_size,
        patch_size=sizes["patch_size"],
        embed_dim=sizes["hidden_dim"],
        depth=sizes["num_layers"],
        num_heads=sizes["num_heads"],
        mlp_ratio=sizes["mlp_dim"] / sizes["hidden_dim"],
    ).eval()
    image = torch.zeros(1, 3, image_size, image_size)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(dir=os.path.dirname(path)) as folder:
        plain = os.path.join(folder, "plain.onnx") if quantizes else path
        torch.onnx.export(model, (image,), plain, input_names=["image"], opset_version=17, dynamo=False)
        if quantizes:
            quantize_dynamic(plain, path, weight_type=QuantType.QInt8)
    return {"seconds": time.perf_counter() - start, "peak_bytes": peak_bytes()}


def serve_sgemm(threads):
    """A float32 product of TensorFlow's, as in compute.py."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    a, b = tf.random.normal((SIDE, SIDE)), tf.random.normal((SIDE, SIDE))
    product = tf.function(lambda: tf.linalg.matmul(a, b))
    return lambda: product().numpy()[0, 0]


def serve_onnx(path, image_size, threads):
    """An ONNX file in ONNX Runtime."""
    import numpy as np
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    image = np.random.default_rng(0).normal(size=(1, 3, image_size, image_size)).astype("float32")
    return lambda: session.run(None, {"image": image})


def main():
    """Runs the role that the first argument names with the arguments of the second."""
    role, arguments = sys.argv[1], json.loads(sys.argv[2])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # frameworks may print; only answers go to the pipe
    makers = {"describe": describe, "vitkeras": make_vitkeras, "kerashub": make_kerashub, "timm": make_timm}
    if role in makers:
        print(json.dumps(makers[role](**arguments)), file=answers, flush=True)
        return
    run = {"sgemm": serve_sgemm, "onnx": serve_onnx}[role](**arguments)
    for _ in sys.stdin:
        print(turn(run), file=answers, flush=True)


if __name__ == "__main__":
    main()
