"""Images a second and the largest batch against the image's size (paper appendix D.5).

    python benchmarks/throughput.py [--json out.json --plot out.png]
    python benchmarks/throughput.py --variants vit_b16,r50_b16,bit_r50x2 --image-sizes 64,128,224,384,512 --memory 14

By default a ViT, a hybrid and a ResNet of 3.5 to 4.6 G multiply-adds at 224 pixels, about ten minutes on two cores.
Weights are random: speed does not depend on them. A batch has about as many pixels at every size. The rounds take turns
between all points, each variant in a process of its own, and medians are printed.

Beside them stands what the calculated multiply-adds promise: images a second that fall as these grow, scaled to the
measured speed at `--scaled-at`. A variant that falls faster is slowed by something else than its products.

The largest batch in a budget of memory comes from a line through two measured batches, a + b x batch, and a third one
between them says how good the line is. The memory is the peak of a fresh process that runs the forward pass (with
Python, TensorFlow and the weights); on a GPU what TensorFlow has taken there.

`--clock processor` counts the seconds of all processors together instead of those on the wall: lower figures, which
other work on the machine disturbs less. Not for GPUs.

TFLite files of the first variant run one image at a time. They and the memory are measured once and kept in `--folder`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

from throughput_plot import draw

WORKERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "throughput_workers.py")
PIXELS = 512 * 512  # of a batch
ENDING = ".json"
CLOCKS = ("wall", "processor")


def batch_of(image_size):
    """int, images of this side that have about `PIXELS` pixels."""
    return max(1, round(PIXELS / image_size**2))


def ask(role, **arguments):
    """What a worker that ends by itself answers."""
    command = [sys.executable, WORKERS, role, json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)


def once(folder, name, role, **arguments):
    """The answer of a worker, kept in the folder; a file that the worker makes is put there too."""
    path = os.path.join(folder, name)
    if not os.path.exists(path + ENDING):
        print(f"measuring {name}" if role == "peaks" else f"making {name}", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(dir=folder) as aside:
            if role == "file":
                arguments["path"] = os.path.join(aside, name)
            answer = ask(role, **arguments)
            with open(os.path.join(aside, "answer"), "w", encoding="utf-8") as file:
                json.dump(answer, file)
            if role == "file":
                os.replace(arguments["path"], path)
            os.replace(os.path.join(aside, "answer"), path + ENDING)
    with open(path + ENDING, encoding="utf-8") as file:
        return json.load(file)


class Server:
    """A worker that runs a batch whenever it is called; it returns seconds of the clock and of the processors."""

    def __init__(self, role, **arguments):
        command, pipe = [sys.executable, WORKERS, role, json.dumps(arguments)], subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)

    def __call__(self, image_size, batch):
        print(json.dumps([image_size, batch]), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"a worker stopped; run `{' '.join(self.process.args)}` to see why.")
        return json.loads(line)

    def close(self):
        """Ends the worker and waits for it."""
        self.process.stdin.close()
        self.process.wait()


def memory_line(batches, peaks):
    """(bytes without images, bytes an image, how far the middle batch is off the line through the others, relative).

    >>> memory_line([2, 4, 6], [120, 145, 160])
    (100.0, 10.0, 0.0357...)
    """
    slope = (peaks[2] - peaks[0]) / (batches[2] - batches[0])
    start = peaks[0] - slope * batches[0]
    return start, slope, peaks[1] / (start + slope * batches[1]) - 1


def measure(arguments, files):
    """dict of (name, image size) -> images a second of each round, of the variants and the presets."""
    servers = {variant: Server("keras", variant=variant) for variant in arguments.variants}
    servers |= {p: Server("files", paths=paths, threads=arguments.threads) for p, paths in files.items()}
    plan = [(name, size) for size in arguments.image_sizes for name in arguments.variants]
    plan += [(preset, int(size)) for preset, paths in files.items() for size in paths]
    speeds = {point: [] for point in plan}
    try:
        for number in range(arguments.rounds + 1):
            print(f"round {number} of {arguments.rounds}", file=sys.stderr, flush=True)
            for name, size in plan:
                batch = max(1, batch_of(size) // 2) if name in files else batch_of(size)
                seconds = servers[name](size, batch)[CLOCKS.index(arguments.clock)]
                if number:  # round 0 builds, traces and warms up
                    speeds[name, size].append(batch / seconds)
    finally:
        for server in servers.values():
            server.close()
    return speeds


def rows_of(arguments, about, speeds, peaks):
    """dict of variant -> a dict for each image size."""
    found, place = {}, arguments.image_sizes.index(arguments.scaled_at)
    for variant in arguments.variants:
        macs, rows = about["macs"][variant], []
        measured = [statistics.median(speeds[variant, size]) for size in arguments.image_sizes]
        for k, size in enumerate(arguments.image_sizes):
            line = memory_line(batches_of(size), peaks[variant, size])
            spare = arguments.memory * 2**30 - line[0]
            rows.append(
                {
                    "image_size": size,
                    "gmacs": macs[k] / 1e9,
                    "images_per_second": measured[k],
                    "calculated": measured[place] * macs[place] / macs[k],
                    "rounds": speeds[variant, size],
                    "batches": batches_of(size),
                    "peak_bytes": peaks[variant, size],
                    "megabytes_an_image": line[1] / 1e6,
                    "line_off": line[2],
                    "largest_batch": max(0, int(spare // line[1])) if line[1] > 0 else None,
                }
            )
        found[variant] = rows
    return found


def batches_of(image_size):
    """The three batches whose memory is measured."""
    return [k * batch_of(image_size) for k in (1, 2, 3)]


def table(result):
    """Lines for people."""
    lines = [
        f"{result['device']}, TensorFlow {result['tensorflow']}, {result['rounds']} rounds, seconds: {result['clock']}",
        "",
        f"{'variant':14s} side  GMAC/image  images/s  calculated  MB/image  line off  "
        f"batch in {result['memory_gib']:g} GiB",
    ]
    for variant, rows in result["variants"].items():
        for row in rows:
            batch = "-" if row["largest_batch"] is None else f"{row['largest_batch']:,}"
            lines.append(
                f"{variant:14s} {row['image_size']:4d} {row['gmacs']:11.2f} {row['images_per_second']:9.2f} "
                f"{row['calculated']:11.2f} {row['megabytes_an_image']:9.1f} {100 * row['line_off']:7.1f} % {batch:>14}"
            )
    lines += ["", f"{'preset of ' + result['exported']:24s} side  images/s"] * bool(result["presets"])
    for preset, rows in result["presets"].items():
        lines += [f"{preset:24s} {row['image_size']:4d} {row['images_per_second']:9.2f}" for row in rows]
    return lines


def parsed(argv):
    """(arguments, parser); bad ones end the program with one sentence and exit code 2."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--variants", default="vit_s16,r26_s32,bit_r50x1", help="named models, separated by commas")
    parser.add_argument("--image-sizes", default="64,128,224,320,512", help="sides in pixels, separated by commas")
    parser.add_argument("--scaled-at", type=int, metavar="SIDE", help="where the calculated speed is the measured one")
    parser.add_argument("--presets", default="fp32,int8_dynamic,int8_static", help="of TFLite; '' for none")
    parser.add_argument("--preset-sizes", default="64,128,224", help="sides of the TFLite files")
    parser.add_argument("--memory", type=float, default=4.0, metavar="GIB", help="budget of the largest batch")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2, help="of TFLite")
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="what a second is (default: wall)")
    parser.add_argument("--json", metavar="PATH")
    parser.add_argument("--plot", metavar="PATH", help="a PNG")
    parser.add_argument("--folder", metavar="PATH", help="keeps files and memory for a later run")
    arguments = parser.parse_args(argv)
    for name in ("image_sizes", "preset_sizes"):
        text = getattr(arguments, name)
        sizes = text.split(",")
        if not all(size.isdecimal() and int(size) for size in sizes):
            parser.error(f"--{name.replace('_', '-')} must be pixels, such as 64,224, received {text!r}.")
        setattr(arguments, name, sorted({int(size) for size in sizes}))
    for name in ("rounds", "threads", "memory"):
        if not getattr(arguments, name) > 0:
            parser.error(f"--{name} must be above 0, received {getattr(arguments, name)}.")
    sizes = arguments.image_sizes
    arguments.scaled_at = arguments.scaled_at or sizes[len(sizes) // 2]
    if arguments.scaled_at not in sizes:
        parser.error(f"--scaled-at must be one of the image sizes {sizes}, received {arguments.scaled_at}.")
    for option in ("json", "plot", "folder"):
        path = getattr(arguments, option)
        if path and not os.path.isdir(os.path.dirname(os.path.abspath(path))):
            parser.error(f"--{option} must lie in a folder that exists, received {path!r}.")
    if arguments.folder and os.path.exists(arguments.folder) and not os.path.isdir(arguments.folder):
        parser.error(f"--folder must be a folder, received the file {arguments.folder!r}.")
    if arguments.folder:
        os.makedirs(arguments.folder, exist_ok=True)
    arguments.variants = arguments.variants.split(",")
    arguments.presets = [preset for preset in arguments.presets.split(",") if preset]
    return arguments, parser


def main(argv=None):
    """Measures memory, makes the files, runs the rounds and prints the table."""
    arguments, parser = parsed(argv)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # as in compute.py
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    variants, sizes, first = arguments.variants, arguments.image_sizes, arguments.variants[0]
    about = ask("describe", variants=variants, image_sizes=sizes, presets=arguments.presets)
    if "error" in about:
        parser.error(about["error"])
    with tempfile.TemporaryDirectory() as temporary:
        folder, peaks, files = arguments.folder or temporary, {}, {}
        for variant in variants:
            for size in sizes:
                options = {"variant": variant, "image_size": size, "batches": batches_of(size)}
                peaks[variant, size] = once(folder, f"{variant}_{size}_memory", "peaks", **options)["peaks"]
        for preset in arguments.presets:
            files[preset] = {}
            for size in arguments.preset_sizes:
                name = f"{first}_{size}_{preset}.tflite"
                options = {"variant": first, "image_size": size, "preset": preset, "threads": arguments.threads}
                once(folder, name, "file", **options)
                files[preset][size] = os.path.join(folder, name)
        speeds = measure(arguments, files)
    presets = {
        preset: [
            {"image_size": size, "images_per_second": statistics.median(speeds[preset, size])}
            for size in arguments.preset_sizes
        ]
        for preset in files
    }
    result = {"device": about["device"], "tensorflow": about["tensorflow"], "rounds": arguments.rounds}
    result["clock"] = arguments.clock
    result |= {"memory_gib": arguments.memory, "image_sizes": sizes, "scaled_at": arguments.scaled_at}
    result |= {"exported": first, "variants": rows_of(arguments, about, speeds, peaks), "presets": presets}
    print("\n".join(table(result)))
    if arguments.json:
        with open(arguments.json + ".part", "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
        os.replace(arguments.json + ".part", arguments.json)
    if arguments.plot:
        draw(result, arguments.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
