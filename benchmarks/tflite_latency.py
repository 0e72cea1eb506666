"""Latency and size of exported files: fp32 against int8_dynamic, in one run.

    python benchmarks/tflite_latency.py [--variant vit_b16 --image-size 224 --rounds 15 --threads 2 --json out.json]

The weights are random; latency does not depend on them. The rounds interleave the files, each image alone (batch 1),
and the ratio is the median of the per-round ratios.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time


def main():
    """Exports both files, runs the rounds and prints the table."""
    parse = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parse.add_argument("--variant", default="vit_b16")
    parse.add_argument("--image-size", type=int, default=224)
    parse.add_argument("--rounds", type=int, default=15)
    parse.add_argument("--threads", type=int, default=2)
    parse.add_argument("--json", metavar="PATH")
    arguments = parse.parse_args()

    from vitkeras import export, models
    from vitkeras.export.runtime import TFLiteRunner
    from vitkeras.export.tflite import synthetic_images

    shape = (arguments.image_size, arguments.image_size, 3)
    model = models.build_variant(arguments.variant, weights=None, input_shape=shape, classifier_activation=None)
    image = synthetic_images(shape, count=1)[0]
    seconds, reports, milliseconds = {}, {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for preset in ("fp32", "int8_dynamic"):
            start = time.perf_counter()
            path = os.path.join(folder, preset + ".tflite")
            reports[preset] = export.to_tflite(model, path, preset=preset, num_threads=arguments.threads)
            seconds[preset] = time.perf_counter() - start
        runners = {p: TFLiteRunner(report.path, arguments.threads) for p, report in reports.items()}
        milliseconds = {p: [] for p in runners}
        for i in range(arguments.rounds + 2):
            for preset, runner in runners.items():
                start = time.perf_counter()
                runner.one(image)
                if i >= 2:  # warm-up
                    milliseconds[preset].append(1e3 * (time.perf_counter() - start))
    result = {"variant": arguments.variant, "image_size": arguments.image_size, "threads": arguments.threads}
    for preset, report in reports.items():
        result[f"{preset}_ms"] = statistics.median(milliseconds[preset])
        result[f"{preset}_bytes"] = report.size_bytes
        result[f"{preset}_partitions"] = report.partitions
        result[f"{preset}_export_seconds"] = seconds[preset]
    result["int8_speedup"] = statistics.median(
        f / q for f, q in zip(milliseconds["fp32"], milliseconds["int8_dynamic"])
    )
    result["int8_size_ratio"] = reports["int8_dynamic"].size_bytes / reports["fp32"].size_bytes
    for key, value in result.items():
        print(f"{key:32s} {value:.3f}" if isinstance(value, float) else f"{key:32s} {value}")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
