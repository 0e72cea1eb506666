"""What it costs to start: `import vitkeras` after `import keras`, ViT-B/16 from a local `.npz`, a recipe's first step.

    python benchmarks/startup.py [--rounds 5 --json out.json]

Each round is a fresh process, and medians are printed. The checkpoint is random, in the original layout, and lies in a
temporary folder. The recipe is `finetune --config digits` on a CPU; it is timed from the start of Python to the log row
of its first step, once by the clock and once by the processor time that the process spent in user mode: on a machine
that does other things as well, the second is the one to compare.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

IMPORTS = """
import time
start = time.perf_counter()
import keras
middle = time.perf_counter()
import vitkeras
print(middle - start, time.perf_counter() - middle)
"""

LOAD = """
import resource, sys, threading, time
import keras, vitkeras, tensorflow as tf
def resident():
    with open("/proc/self/statm") as f: return int(f.read().split()[1]) * resource.getpagesize()
vitkeras.ViTTi16(weights=None, num_layers=1)                 # first-use costs of TensorFlow are not the loader's
before, peak, stop = resident(), [0], threading.Event()
def watch():
    while not stop.is_set():
        peak[0] = max(peak[0], resident()); time.sleep(0.002)
thread = threading.Thread(target=watch); thread.start()
t = time.perf_counter()
model = vitkeras.ViTB16(weights=sys.argv[1], input_shape=(224, 224, 3))
seconds = time.perf_counter() - t
stop.set(); thread.join()
print(seconds, peak[0] - before)
"""


FIRST_STEP = """
import sys
from vitkeras.recipes import finetune
sys.exit(finetune.main(sys.argv[1:]))
"""


def first_step(folder):
    """Starts the recipe, stops it after its first step and returns (seconds, seconds in user mode) up to there."""
    options = ["--config", "digits", "--device", "cpu", "--set", "train.log_every=1", "--set", "train.steps=1000"]
    command = [sys.executable, "-c", FIRST_STEP, "--workdir", folder, *options]
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        lines = []
        for line in process.stderr:
            lines.append(line)
            if line.startswith("step 1/"):
                seconds = time.perf_counter() - start
                with open(f"/proc/{process.pid}/stat", encoding="ascii") as file:
                    ticks = int(file.read().rpartition(")")[2].split()[11])
                process.kill()
                return seconds, ticks / os.sysconf("SC_CLK_TCK")
    raise RuntimeError("the recipe ended before its first step:\n" + "".join(lines[-20:]))


def run(*command):
    """Runs Python code in a fresh process and returns the floats of its last line."""
    done = subprocess.run([sys.executable, "-c", *command], capture_output=True, text=True, check=True)
    return [float(word) for word in done.stdout.split("\n")[-2].split()]


def write_checkpoint(path):
    """Writes a random ViT-B/16 in the original layout."""
    import numpy as np

    import vitkeras
    from vitkeras.checkpoints.google import google_slots

    rng = np.random.default_rng(0)
    slots = google_slots(vitkeras.ViTB16(weights=None))
    np.savez(path, **{s.key: rng.normal(scale=0.02, size=s.shape).astype("float32") for s in slots})


def main():
    """Runs the rounds and prints the numbers."""
    parse = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parse.add_argument("--rounds", type=int, default=5)
    parse.add_argument("--json", metavar="PATH")
    arguments = parse.parse_args()
    imports = [run(IMPORTS) for _ in range(arguments.rounds)]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "vit_b16.npz")
        write_checkpoint(path)
        size = os.path.getsize(path)
        loads = [run(LOAD, path) for _ in range(arguments.rounds)]
        steps = [first_step(os.path.join(folder, f"run_{number}")) for number in range(arguments.rounds)]
    result = {
        "import_keras_seconds": statistics.median(keras for keras, _ in imports),
        "vitkeras_adds_seconds": statistics.median(adds for _, adds in imports),
        "build_and_load_vit_b16_seconds": statistics.median(seconds for seconds, _ in loads),
        "recipe_first_step_seconds": statistics.median(seconds for seconds, _ in steps),
        "recipe_first_step_user_seconds": statistics.median(user for _, user in steps),
        "extra_memory_of_file_size": statistics.median(extra for _, extra in loads) / size,
    }
    for key, value in result.items():
        print(f"{key:32s} {value:.3f}")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
