"""Seconds to build a model with random weights: ViT-L/16 here against KerasHub's, if it is installed.

    python benchmarks/construction.py [--rounds 5 --json out.json]

Each build runs in a fresh process, after a small one that takes the framework's first-use costs; the rounds interleave
the libraries, and the median of the per-round ratios is printed.

KerasHub brings its own TensorFlow (`pip install keras-hub`, here or in an environment that --kerashub-python names);
without it that row is left out, and the output says so.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

BUILD = {
    "vitkeras": """
import vitkeras
def build(layers): return vitkeras.ViTL16(weights=None, num_layers=layers)
""",
    "kerashub": """
import keras_hub
def build(layers):
    backbone = keras_hub.models.ViTBackbone(
        image_shape=(224, 224, 3), patch_size=16, num_layers=layers, num_heads=16, hidden_dim=1024, mlp_dim=4096
    )
    return keras_hub.models.ViTImageClassifier(backbone=backbone, num_classes=1000)
""",
}
TIME = """
import time
build(1)
start = time.perf_counter()
model = build(24)
print(time.perf_counter() - start, model.count_params())
"""


def build(library, python):
    """Returns the seconds that a fresh process took for the model, and its number of parameters."""
    environment = {**os.environ, "KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [python, "-c", BUILD[library] + TIME]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    seconds, parameters = done.stdout.split("\n")[-2].split()
    return float(seconds), int(parameters)


def main():
    """Runs the rounds and prints the numbers."""
    parse = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parse.add_argument("--rounds", type=int, default=5)
    parse.add_argument("--json", metavar="PATH")
    parse.add_argument(
        "--kerashub-python", default=sys.executable, metavar="PATH", help="interpreter that has KerasHub"
    )
    arguments = parse.parse_args()
    pythons = {"vitkeras": sys.executable, "kerashub": arguments.kerashub_python}
    if subprocess.run([pythons["kerashub"], "-c", "import keras_hub"], capture_output=True).returncode:
        print("KerasHub is not installed: its row is left out.")
        del pythons["kerashub"]
    seconds = {library: [] for library in pythons}
    result = {"model": "ViT-L/16", "rounds": arguments.rounds}
    for _ in range(arguments.rounds):
        for library, python in pythons.items():
            taken, result[f"{library}_parameters"] = build(library, python)
            seconds[library].append(taken)
    for library, values in seconds.items():
        result[f"{library}_seconds"] = statistics.median(values)
    if "kerashub" in seconds:
        result["of_kerashub"] = statistics.median(a / b for a, b in zip(seconds["vitkeras"], seconds["kerashub"]))
    for key, value in result.items():
        print(f"{key:24s} {value:.3f}" if isinstance(value, float) else f"{key:24s} {value}")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
