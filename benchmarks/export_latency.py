"""Latency, size and cost of exported files, against KerasHub's, ONNX Runtime and what the processor's sgemm allows.

    python benchmarks/export_latency.py [--variant vit_b16 --rounds 15 --threads 2 --json out.json]
        [--kerashub-python PATH --timm-python PATH --folder made]

One image at a time (batch 1), random weights: latency does not depend on them. The rounds take turns between all
files; a turn is one untimed run and the fastest of three. Printed are the median and the fastest turn of each file, and
ratios of times: the median of the ratios within each round, and the ratio of the two fastest turns, which a busy
machine disturbs less. The goals beside them are those for ViT-B/16 at 224 on two threads.

The floor is the time that all multiply-adds would take at four times the rate of a 4096 x 4096 x 4096 float32 product,
measured in the same rounds. Each file is made in a process that does nothing else, which gives its peak memory;
static presets are calibrated on 128 made-up images.

KerasHub's model goes through Keras' `export(format="litert")`, as float32 and with its dynamic-range quantization;
timm's goes to ONNX and runs as float32 and as ONNX Runtime's dynamic int8. Both are installed here or in environments
that --kerashub-python (keras-hub) and --timm-python (torch timm onnx onnxruntime) name; what is missing is left out,
and the output says so. --folder keeps the files, and a later run takes from it what it finds.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from latency_workers import SIDE, turn

WORKERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "latency_workers.py")
PRESETS = ("fp32", "int8_dynamic", "int8_static", "int4_weights")
KERASHUB, KERASHUB_INT8 = "kerashub fp32", "kerashub dynamic"
ONNX, ONNX_INT8 = "onnxruntime fp32", "onnxruntime dynamic"
TIMES = (  # of the first in the time of the second, at most
    ("fp32", KERASHUB, 0.93),
    ("int8_dynamic", KERASHUB_INT8, 0.93),
    ("int8_dynamic", "fp32", 0.34),
    ("int8_dynamic", ONNX_INT8, 0.85),
    ("int8_dynamic", "floor", 1.25),
    ("int8_static", "int8_dynamic", 1.0),
    ("fp32", ONNX, None),
    ("int4_weights", "int8_dynamic", None),
)
SIZES = (("int8_dynamic", "fp32", 0.27), ("int8_static", "fp32", 0.27), ("int4_weights", "fp32", 0.16))
SECONDS, GIGABYTES = 90, 4  # for making an int8 file


def ask(python, role, **arguments):
    """What a worker that ends by itself answers."""
    command = [python, WORKERS, role, json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)


def made(folder, name, python, role, **arguments):
    """Makes a file and what is known of it, unless the folder has both. Returns that, with the path and the bytes."""
    path = os.path.join(folder, name)
    if not (os.path.exists(path) and os.path.exists(path + ".json")):
        print(f"making {name}", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(dir=folder) as aside:
            draft = os.path.join(aside, name)
            facts = ask(python, role, path=draft, **arguments)
            with open(draft + ".json", "w", encoding="utf-8") as file:
                json.dump(facts, file)
            os.replace(draft, path)
            os.replace(draft + ".json", path + ".json")
    with open(path + ".json", encoding="utf-8") as file:
        return {**json.load(file), "path": path, "bytes": os.path.getsize(path)}


def make_all(arguments, folder, sizes, others):
    """dict of name -> facts of its file."""
    stem = f"{arguments.variant}_{arguments.image_size}"
    files = {}
    for preset in arguments.presets:
        options = {"variant": arguments.variant, "preset": preset, "threads": arguments.threads}
        name = f"{stem}_{preset}.tflite"
        files[preset] = made(folder, name, sys.executable, "vitkeras", image_size=arguments.image_size, **options)
    kinds = {
        "kerashub": (arguments.kerashub_python, ".tflite", (KERASHUB, KERASHUB_INT8)),
        "timm": (arguments.timm_python, ".onnx", (ONNX, ONNX_INT8)),
    }
    for role in others:
        python, ending, names = kinds[role]
        for name, quantizes in zip(names, (False, True)):
            options = {"image_size": arguments.image_size, "sizes": sizes, "quantizes": quantizes}
            files[name] = made(folder, f"{stem}_{name.replace(' ', '_')}{ending}", python, role, **options)
    return files


class Server:
    """A worker that takes its turn whenever it is called; it returns seconds."""

    def __init__(self, python, role, **arguments):
        self.role, pipe = role, subprocess.PIPE
        command = [python, WORKERS, role, json.dumps(arguments)]
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)

    def __call__(self):
        self.process.stdin.write("turn\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the worker {self.role!r} stopped; run `{' '.join(self.process.args)}` to see why.")
        return float(line)

    def close(self):
        """Ends the worker and waits for it."""
        self.process.stdin.close()
        self.process.wait()


def measure(arguments, files):
    """dict of name -> seconds of each round, and of "sgemm"."""
    from vitkeras.export.images import synthetic_images
    from vitkeras.export.runtime import TFLiteRunner

    size = arguments.image_size
    image = synthetic_images((size, size, 3), count=1)[0]
    servers = {"sgemm": Server(sys.executable, "sgemm", threads=arguments.threads)}
    turns = {}
    for name, facts in files.items():
        if facts["path"].endswith(".onnx"):
            options = {"path": facts["path"], "image_size": size, "threads": arguments.threads}
            servers[name] = Server(arguments.timm_python, "onnx", **options)
        else:
            runner = TFLiteRunner(facts["path"], arguments.threads)
            facts["partitions"] = runner.partitions()
            turns[name] = lambda runner=runner: turn(lambda: runner.one(image))
    turns |= servers
    seconds = {name: [] for name in turns}
    try:
        for i in range(arguments.rounds + 1):
            for name, take in turns.items():
                time.sleep(0.2)  # until the threads of the one before have stopped spinning
                taken = take()
                if i:  # round 0 starts the servers and warms up
                    seconds[name].append(taken)
    finally:
        for server in servers.values():
            server.close()
    return seconds


def ratios(seconds):
    """dict of "a / b" -> (median of the ratios of each round, ratio of the fastest, goal)."""
    found = {}
    for a, b, goal in TIMES:
        if a in seconds and b in seconds:
            of_rounds = statistics.median(x / y for x, y in zip(seconds[a], seconds[b]))
            found[f"{a} / {b}"] = of_rounds, min(seconds[a]) / min(seconds[b]), goal
    return found


def table(files, seconds):
    """Lines for people."""
    lines = [f"{'':24s} median ms  fastest ms        MB  partitions  made in s  peak GB"]
    for name in seconds:
        median, fastest = 1e3 * statistics.median(seconds[name]), 1e3 * min(seconds[name])
        line = f"{name:24s} {median:9.2f} {fastest:11.2f}"
        if name in files:
            facts = files[name]
            line += f" {facts['bytes'] / 1e6:9.1f} {facts.get('partitions', '-'):>11}"
            line += f" {facts['seconds']:10.1f} {facts['peak_bytes'] / 1e9:8.2f}"
        lines.append(line)
    lines += ["", f"{'time':42s} median  fastest  at most"]
    for name, (median, fastest, goal) in ratios(seconds).items():
        lines.append(f"{name:42s} {median:6.3f} {fastest:8.3f}  {goal or ''}")
    lines += ["", f"{'size':42s}  ratio           at most"]
    for a, b, goal in SIZES:
        if a in files and b in files:
            lines.append(f"{a + ' / ' + b:42s} {files[a]['bytes'] / files[b]['bytes']:6.3f}           {goal}")
    int8 = [name for name in files if name.startswith("int8")]
    lines += ["", f"making an int8 file: at most {SECONDS} s and {GIGABYTES} GB"] * bool(int8)
    for name in int8:
        lines.append(f"{name:24s} {files[name]['seconds']:7.1f} s {files[name]['peak_bytes'] / 1e9:6.2f} GB")
    return lines


def others_here(arguments, parser):
    """Names of the libraries to compare with; says which are left out."""
    wanted = {
        "kerashub": ("KerasHub", arguments.kerashub_python, ("keras_hub",)),
        "timm": ("timm with ONNX Runtime", arguments.timm_python, ("timm", "torch", "onnx", "onnxruntime")),
    }
    found = []
    for role, (title, python, modules) in wanted.items():
        code = f"import importlib.util as u, sys; sys.exit(any(u.find_spec(m) is None for m in {modules}))"
        try:
            missing = subprocess.run([python, "-c", code], capture_output=True).returncode
        except OSError:
            parser.error(f"--{role}-python must be a Python interpreter, received {python!r}.")
        if missing:
            print(f"{title} is not installed: its rows are left out.")
        elif not arguments.variant.startswith("vit_"):
            print(f"{title} is compared for plain ViTs only: its rows are left out.")
        else:
            found.append(role)
    return found


def parsed(argv):
    """(arguments, parser); bad ones end the program with one sentence and exit code 2."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--variant", default="vit_b16")
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--presets", default=",".join(PRESETS), help="separated by commas")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", metavar="PATH")
    parser.add_argument("--folder", metavar="PATH", help="keeps the files; a later run takes those that are there")
    parser.add_argument("--kerashub-python", default=sys.executable, metavar="PATH")
    parser.add_argument("--timm-python", default=sys.executable, metavar="PATH")
    arguments = parser.parse_args(argv)
    for name in ("image_size", "rounds", "threads"):
        if getattr(arguments, name) < 1:
            option = name.replace("_", "-")
            parser.error(f"--{option} must be 1 or more, received {getattr(arguments, name)}.")
    for option in ("json", "folder"):
        path = getattr(arguments, option)
        if path and not os.path.isdir(os.path.dirname(os.path.abspath(path))):
            parser.error(f"--{option} must lie in a folder that exists, received {path!r}.")
    if arguments.folder and os.path.exists(arguments.folder) and not os.path.isdir(arguments.folder):
        parser.error(f"--folder must be a folder, received the file {arguments.folder!r}.")
    if arguments.folder:
        os.makedirs(arguments.folder, exist_ok=True)
    arguments.presets = arguments.presets.split(",")
    return arguments, parser


def main(argv=None):
    """Makes the files, runs the rounds and prints the tables."""
    arguments, parser = parsed(argv)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # for the product, as in compute.py
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    others = others_here(arguments, parser)
    size = {"variant": arguments.variant, "image_size": arguments.image_size}
    with tempfile.TemporaryDirectory() as temporary:
        about = ask(sys.executable, "describe", presets=arguments.presets, **size)
        if "error" in about:
            parser.error(about["error"])
        files = make_all(arguments, arguments.folder or temporary, about["sizes"], others)
        seconds = measure(arguments, files)
    sgemm = seconds["sgemm"]
    seconds["floor"] = [about["macs"] / SIDE**3 * s / 4 for s in sgemm]
    print(f"{arguments.variant} at {arguments.image_size}, {arguments.threads} threads, {arguments.rounds} rounds")
    print(f"sgemm {2e-9 * SIDE**3 / min(sgemm):.0f} GFLOP/s, {about['macs'] / 1e9:.2f} G multiply-adds an image\n")
    print("\n".join(table(files, seconds)))
    if arguments.json:
        facts = {name: {k: v for k, v in f.items() if k != "path"} for name, f in files.items()}
        result = {**size, "threads": arguments.threads, "cpus": os.cpu_count(), "macs": about["macs"]}
        result |= {"files": facts, "seconds": seconds, "ratios": ratios(seconds)}
        with open(arguments.json + ".part", "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
        os.replace(arguments.json + ".part", arguments.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
