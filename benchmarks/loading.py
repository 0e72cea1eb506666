"""What loading a large checkpoint costs beside the built model: memory in units of the largest array, and seconds.

    python benchmarks/loading.py [--variant vit_l16 --rounds 3 --folder /tmp --json out.json]

Random weights are written by one process, in the original's `.npz` and in timm's `.safetensors` (fused query, key and
value), and loaded by another into a model that is built there and whose memory is resident. Memory is the peak of the
resident set, which the kernel keeps (Linux), less that of the built model. A tiny file of the same layout is loaded
first, because the backend's first-use costs are not the loader's. The largest array is the model's largest, and the
files lie in a temporary folder that is deleted.

Two settings: "as it is", where building leaves free memory in the process that loading uses again, and "exact", where
every array of 3 MB or more gets pages of its own (`MALLOC_MMAP_THRESHOLD_`, glibc) and the peak is what is in use; the
seconds are those of the first.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

TINY = dict(num_layers=2, hidden_dim=48, num_heads=3, mlp_dim=96, classes=7, input_shape=(32, 32, 3))

EXACT = {"MALLOC_MMAP_THRESHOLD_": "3000000"}

WRITE = """
import sys
sys.path.insert(0, sys.argv[1])
import loading
loading.write(*sys.argv[2:])
"""

LOAD = """
import gc, math, sys, time
sys.path.insert(0, sys.argv[1])
import keras, loading
from vitkeras import load_checkpoint
variant, tiny, path = sys.argv[2:]
load_checkpoint(loading.build(variant, tiny, **loading.TINY), tiny)
model = loading.build(variant, path)
gc.collect()
before = loading.resident("VmRSS")
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")                                            # the peak counts from here
start = time.perf_counter()
load_checkpoint(model, path)
seconds = time.perf_counter() - start
largest = 4 * max(math.prod(weight.shape) for weight in model.weights)
print(seconds, (loading.resident("VmHWM") - before) / largest, largest)
"""


def resident(field):
    """Returns a field of /proc/self/status, in bytes."""
    with open("/proc/self/status", encoding="utf-8") as file:
        return 1024 * int(next(line for line in file if line.startswith(field)).split()[1])


def build(variant, path, **arguments):
    """Returns the random model that a file of this benchmark fits."""
    from vitkeras.models import build_variant

    activation = "gelu" if path.endswith(".safetensors") else "gelu_tanh"
    return build_variant(variant, weights=None, activation=activation, **arguments)


def write(variant, path, tiny_path):
    """Writes random weights of a variant, and a tiny file of the same layout."""
    import numpy as np

    from vitkeras.checkpoints.google import google_slots

    rng = np.random.default_rng(0)
    for target, arguments in ((path, {}), (tiny_path, TINY)):
        shapes = {slot.key: slot.shape for slot in google_slots(build(variant, path, **arguments))}
        arrays = {key: (lambda shape=shape: random(rng, shape)) for key, shape in shapes.items()}
        if target.endswith(".npz"):
            np.savez(target, **{key: array() for key, array in arrays.items()})
        else:
            write_safetensors(target, timm_shapes(shapes), rng)


def random(rng, shape):
    """Returns random weights."""
    return rng.standard_normal(shape, "float32") * 0.02


def timm_shapes(shapes):
    """{timm's name: shape} of a plain ViT, from the original's."""
    from vitkeras.checkpoints.timm import _name

    found = {}
    for key, shape in shapes.items():
        name = _name(key)
        if name.endswith("qkv.weight"):
            shape = (3 * shape[0], shape[0])
        elif name.endswith("qkv.bias"):
            shape = (3 * shape[0] * shape[1],)
        elif name.endswith("attn.proj.weight"):
            shape = (shape[2], shape[2])
        elif name.endswith(".weight") and len(shape) in (2, 4):
            shape = shape[::-1]
        found[name] = shape
    return found


def write_safetensors(path, shapes, rng):
    """Writes random arrays, one at a time."""
    import math

    header, end = {}, 0
    for name, shape in shapes.items():
        size = 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for shape in shapes.values():
            random(rng, shape).tofile(file)


def run(code, *arguments, **environment):
    """Runs Python code in a fresh process and returns the floats of its last line, if there are any."""
    command = [sys.executable, "-c", code, os.path.dirname(os.path.abspath(__file__)), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    if done.returncode:
        raise RuntimeError(done.stderr)
    return [float(word) for word in done.stdout.split("\n")[-2].split()] if done.stdout else []


def main():
    """Writes the files, loads each in fresh processes, and prints the numbers."""
    parse = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parse.add_argument("--variant", default="vit_l16")
    parse.add_argument("--rounds", type=int, default=3)
    parse.add_argument("--folder", help="where the temporary folder is made")
    parse.add_argument("--json", metavar="PATH")
    arguments = parse.parse_args()
    result = {}
    for suffix in ("npz", "safetensors"):
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            path, tiny = (os.path.join(folder, f"{name}.{suffix}") for name in ("model", "tiny"))
            run(WRITE, arguments.variant, path, tiny)
            loads = (LOAD, arguments.variant, tiny, path)
            rows = [run(*loads) for _ in range(arguments.rounds)]
            exact = [run(*loads, **EXACT)[1] for _ in range(arguments.rounds)]
            seconds, extra, largest = map(statistics.median, zip(*rows))
            result[suffix] = {
                "file_megabytes": os.path.getsize(path) / 1e6,
                "largest_array_megabytes": largest / 1e6,
                "load_seconds": seconds,
                "extra_memory_in_largest_arrays_as_it_is": extra,
                "extra_memory_in_largest_arrays_exact": statistics.median(exact),
            }
            for key, value in result[suffix].items():
                print(f"{suffix:12s} {key:40s} {value:.3f}", flush=True)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
