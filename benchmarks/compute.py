"""A ViT on the CPU against the sgemm bound, and against timm and KerasHub where they are installed.

    python benchmarks/compute.py [--variant vit_b16 --batch 8 --rounds 7 --json out.json]
    python benchmarks/compute.py --variant r50_b16          # a hybrid: against timm only
    python benchmarks/compute.py --against kerashub --kerashub-python /path/of/another/environment/bin/python

The bound is the time that all matrix products of the model would take at the rate of a 4096 x 4096 x 4096 float32
product measured in the same round; a train step (momentum SGD, global norm clipped at 1) counts three forward passes.
The rounds interleave everything that is compared, each framework in a process of its own, and the medians of the
per-round ratios are printed; beside them, of the bound, the fastest round of each, which a busy machine disturbs less
(a median above 1 says that the product itself was slowed down). TensorFlow's oneDNN kernels, which it leaves off on x86
processors without AVX-512, are on unless TF_ENABLE_ONEDNN_OPTS says otherwise.

timm needs PyTorch (`pip install torch torchvision timm`, here or in an environment that --timm-python names); without
it that row is left out, and the output says so. KerasHub's likewise: `pip install tensorflow-cpu keras-hub`,
`--kerashub-python`; best in an environment of its own, with this one's versions of TensorFlow and Keras. Against it
both nets are trained by one short step written by hand, because the engine of this library isn't installed there.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time


def forward_flops(variant, batch, size=224, classes=1000):
    """Floating-point operations of a plain ViT's matrix products in one forward pass, two a multiply-add."""
    from vitkeras.models import VARIANTS

    v = VARIANTS[variant]
    patches = (size // v.patch_size) ** 2
    tokens, d = patches + 1, v.hidden_dim
    block = 4 * tokens * d * d + 2 * tokens * tokens * d + 2 * tokens * d * v.mlp_dim
    return 2 * batch * (patches * 3 * v.patch_size**2 * d + v.num_layers * block + d * classes)


def vit_sizes(variant):
    """What KerasHub's `ViTBackbone` calls the sizes of a plain ViT."""
    from vitkeras.models import VARIANTS

    names = ("patch_size", "num_layers", "num_heads", "hidden_dim", "mlp_dim")
    return {name: getattr(VARIANTS[variant], name) for name in names}


def vitkeras_tasks(variant, batch):
    """name -> function that runs once and waits for the result."""
    import keras
    import tensorflow as tf

    from vitkeras import models, training

    a, b = tf.random.normal((4096, 4096)), tf.random.normal((4096, 4096))
    product = tf.function(lambda: tf.linalg.matmul(a, b))
    model = models.build_variant(variant, weights=None, classifier_activation=None)
    images = tf.random.normal((batch, 224, 224, 3))
    labels = tf.random.uniform((batch,), 0, 1000, tf.int32)
    infer = tf.function(lambda x: model(x, training=False))
    engine = training.Engine(model, training.make_optimizer("sgd", 1e-4, clip_norm=1.0))
    iterator = engine.iterator(tf.data.Dataset.from_tensors((images, labels)).repeat())
    keras.utils.set_random_seed(0)
    return {
        "sgemm": lambda: product().numpy()[0, 0],
        "inference": lambda: infer(images).numpy(),
        "train": lambda: engine.run(iterator, 1),
        "bare_train": bare_train(model, batch),  # after the engine's, of the same weights
    }


def bare_train(model, batch):
    """A compiled train step of any Keras classifier that gives logits: momentum SGD, global norm clipped at 1."""
    import keras
    import tensorflow as tf

    images = tf.random.normal((batch, 224, 224, 3))
    labels = tf.random.uniform((batch,), 0, 1000, tf.int32)
    optimizer = keras.optimizers.SGD(1e-4, momentum=0.9, global_clipnorm=1.0)
    optimizer.build(model.trainable_variables)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        variables = model.trainable_variables
        optimizer.apply(tape.gradient(loss, [v.value for v in variables]), variables)
        return loss

    return lambda: step().numpy()


def kerashub_tasks(batch, sizes):
    """The same of KerasHub's ViT with these sizes and a head on the class token."""
    import keras_hub
    import tensorflow as tf

    backbone = keras_hub.models.ViTBackbone(image_shape=(224, 224, 3), **sizes)
    model = keras_hub.models.ViTImageClassifier(backbone=backbone, num_classes=1000)
    images = tf.random.normal((batch, 224, 224, 3))
    infer = tf.function(lambda x: model(x, training=False))
    return {"inference": lambda: infer(images).numpy(), "bare_train": bare_train(model, batch)}


def timm_name(variant):
    """What timm calls a variant: vit_b16 is vit_base_patch16_224, r50_b16 is vit_base_r50_s16_224."""
    sizes = {"ti": "tiny", "s": "small", "b": "base", "l": "large", "h": "huge"}
    stem, letters, stride = re.fullmatch(r"(vit|r\d+)_([a-z]+)(\d+)", variant).groups()
    return f"vit_{sizes[letters]}_" + (f"patch{stride}_224" if stem == "vit" else f"{stem}_s{stride}_224")


def timm_tasks(variant, batch):
    """The same in PyTorch eager mode."""
    import timm
    import torch

    model = timm.create_model(timm_name(variant), pretrained=False, num_classes=1000)
    images, labels = torch.randn(batch, 3, 224, 224), torch.randint(0, 1000, (batch,))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)

    def infer():
        model.eval()
        with torch.inference_mode():
            return model(images).sum().item()

    def train():
        model.train()
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    return {"inference": infer, "train": train}


def serve(tasks):
    """Worker: reads task names from stdin, writes seconds to stdout."""
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # frameworks may print; only times go to the pipe
    for line in sys.stdin:
        start = time.perf_counter()
        tasks[line.strip()]()
        print(time.perf_counter() - start, file=answer, flush=True)


class Worker:
    """A process that runs the tasks of one framework."""

    def __init__(self, framework, arguments):
        command = [python_of(framework, arguments), __file__, "--worker", framework, "--variant", arguments.variant]
        if framework == "kerashub":
            command += ["--sizes", json.dumps(vit_sizes(arguments.variant))]  # vitkeras isn't importable there
        self.process = subprocess.Popen(
            [*command, "--batch", str(arguments.batch)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def time(self, task):
        """Returns the seconds that `task` took, after a pause in which other processes' threads stop spinning."""
        time.sleep(0.5)
        self.process.stdin.write(task + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the worker stopped in task {task!r}; run with --worker to see its error.")
        return float(line)


def python_of(framework, arguments):
    """The interpreter of a framework's process."""
    return {"timm": arguments.timm_python, "kerashub": arguments.kerashub_python}.get(framework, sys.executable)


def others(arguments):
    """The frameworks to compare with that are installed; says which of them are left out, and why."""
    found = []
    for framework in arguments.against:
        if framework == "kerashub" and not arguments.variant.startswith("vit_"):
            print("KerasHub has plain ViTs only: its row is left out.")
            continue
        module, name = {"timm": ("timm", "timm"), "kerashub": ("keras_hub", "KerasHub")}[framework]
        python = python_of(framework, arguments)
        if subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0:
            found.append(framework)
        else:
            print(f"{name} is not installed: its row is left out.")
    return found


def main():
    """Runs the rounds and prints the table."""
    parse = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parse.add_argument("--variant", default="vit_b16")
    parse.add_argument("--batch", type=int, default=8)
    parse.add_argument("--rounds", type=int, default=7)
    parse.add_argument("--json", metavar="PATH")
    parse.add_argument("--timm-python", default=sys.executable, metavar="PATH", help="interpreter that has timm")
    parse.add_argument("--kerashub-python", default=sys.executable, metavar="PATH", help="interpreter with KerasHub")
    parse.add_argument(
        "--against", nargs="+", choices=("timm", "kerashub"), default=["timm", "kerashub"], help="default: both"
    )
    parse.add_argument("--worker", choices=("vitkeras", "timm", "kerashub"), help=argparse.SUPPRESS)
    parse.add_argument("--sizes", type=json.loads, help=argparse.SUPPRESS)
    arguments = parse.parse_args()
    if arguments.worker == "kerashub":
        return serve(kerashub_tasks(arguments.batch, arguments.sizes))
    if arguments.worker:
        tasks = {"vitkeras": vitkeras_tasks, "timm": timm_tasks}[arguments.worker]
        return serve(tasks(arguments.variant, arguments.batch))

    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # read by the workers' TensorFlow
    workers = {"vitkeras": Worker("vitkeras", arguments)}
    workers |= {framework: Worker(framework, arguments) for framework in others(arguments)}
    tasks = {
        "vitkeras": ("sgemm", "inference", "train", *(("bare_train",) if "kerashub" in workers else ())),
        "timm": ("inference", "train"),
        "kerashub": ("inference", "bare_train"),
    }
    plan = [(framework, task) for framework in workers for task in tasks[framework]]
    for framework, task in plan * 2:
        workers[framework].time(task)  # warm-up and tracing
    seconds = {key: [] for key in plan}
    for _ in range(arguments.rounds):
        for framework, task in plan:
            seconds[framework, task].append(workers[framework].time(task))

    is_plain = arguments.variant.startswith("vit_")
    if is_plain:
        flops = forward_flops(arguments.variant, arguments.batch)
        bound = [flops / (2 * 4096**3 / s) for s in seconds["vitkeras", "sgemm"]]
    result = {
        "variant": arguments.variant,
        "batch": arguments.batch,
        "cpus": os.cpu_count(),
        "rounds": arguments.rounds,
        "onednn": os.environ["TF_ENABLE_ONEDNN_OPTS"],
    }
    for task, passes in (("inference", 1), ("train", 3)):
        ours = seconds["vitkeras", task]
        result[f"{task}_images_per_second"] = arguments.batch / statistics.median(ours)
        if is_plain:
            result[f"{task}_of_sgemm_bound"] = statistics.median(passes * b / s for b, s in zip(bound, ours))
            result[f"{task}_of_sgemm_bound_best"] = passes * min(bound) / min(ours)
        if "timm" in workers:
            result[f"{task}_of_timm"] = statistics.median(t / s for t, s in zip(seconds["timm", task], ours))
    for task in ("inference", "bare_train") if "kerashub" in workers else ():
        pairs = list(zip(seconds["kerashub", task], seconds["vitkeras", task]))
        result[f"{task}_of_kerashub"] = statistics.median(hub / own for hub, own in pairs)
        result[f"{task}_of_kerashub_best"] = min(hub for hub, _ in pairs) / min(own for _, own in pairs)
    for key, value in result.items():
        print(f"{key:32s} {value:.3f}" if isinstance(value, float) else f"{key:32s} {value}")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
