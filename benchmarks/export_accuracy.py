"""What each export preset costs in accuracy, on a trained ViT-S/14 and photos of twelve flowers.

    python benchmarks/export_accuracy.py [--presets fp32,int8_static] [--calibration 144] [--json PATH]

The head is fitted to 720 training photos by least squares; every fifth of them calibrates; model and file are compared
on 240 test photos. Latencies are of one image, all files in turns, as ratios to fp32. Targets are those of
docs/results.md; the command ends with code 1 if one is missed.
"""

import argparse
import json
import os
import sys
import tempfile
import time

import numpy as np
from flowers_net import flowers_net

import vitkeras
from vitkeras.export import PRESETS, checks, run_tflite, to_tflite
from vitkeras.export.agreement import accuracy
from vitkeras.export.runtime import TFLiteRunner

SLOW = 6  # every so many-th photo for files that no fast kernels run
# Preset -> (most points lost, least agreement, least SQNR in dB), None for no target.
TARGETS = {
    "fp32": (0, 1, None),
    "fp16": (0, 1, None),
    "int8_dynamic": (0, None, 34),
    "int8_static": (0.5, 0.985, 24),
    "int8_static_safe": (None, 0.99, 30),
    "int4_weights": (2, None, None),
}


def main(argv=None):
    """Runs the benchmark; returns the exit code."""
    parse = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    known = [name for name, preset in PRESETS.items() if not preset.learned]
    parse.add_argument("--presets", default=",".join(known), help=f"some of {', '.join(known)}")
    parse.add_argument("--calibration", type=int, default=144, metavar="N", help="training photos (default 144)")
    parse.add_argument("--json", metavar="PATH", help="write the rows as JSON, too")
    parse.add_argument("--keep", metavar="DIR", help="keep the files there")
    parse.add_argument("--rounds", type=int, default=30, help="of the latencies (default 30)")
    arguments = parse.parse_args(argv)
    presets = arguments.presets.split(",")
    if unknown := [name for name in presets if name not in known]:
        parse.error(f"--presets must hold some of {', '.join(known)}, received {unknown[0]!r}")
    net = flowers_net()
    calibration = net.train_x[:: max(1, len(net.train_x) // arguments.calibration)]
    with tempfile.TemporaryDirectory() as folder:
        folder = arguments.keep or folder
        os.makedirs(folder, exist_ok=True)
        inputs = vitkeras.preprocess_input(net.test_x.astype("float32"))
        exact = net.model.predict(inputs, batch_size=16, verbose=0)
        print(f"Keras: accuracy {100 * accuracy(exact, net.test_y):.2f} % of {len(exact)} photos", flush=True)
        rows = {name: _row(name, net, exact, calibration, folder) for name in presets}
        paths = {name: os.path.join(folder, f"{name}.tflite") for name in presets if PRESETS[name].accelerated}
        found = latencies(paths, net.test_x[0], arguments.rounds)
    for name, row in rows.items():
        row |= found.get(name, {"latency_ms": None, "latency_ratio": None})
    print(_table(rows))
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    missed = [name for name, row in rows.items() if row["missed"]]
    for name in missed:
        print(f"target missed: {name}: {', '.join(rows[name]['missed'])}")
    return 1 if missed else 0


def _row(name, net, exact, calibration, folder):
    start = time.perf_counter()
    path = os.path.join(folder, f"{name}.tflite")
    report = to_tflite(
        net.model,
        path,
        name,
        calibration_images=calibration if PRESETS[name].images != "none" else None,
        verify_images=net.test_x[::20],
        overwrite=True,
    )
    seconds = time.perf_counter() - start
    photos = net.test_x[:: SLOW if not report.partitions else 1]
    exact, labels = (values[:: SLOW if not report.partitions else 1] for values in (exact, net.test_y))
    answers = run_tflite(path, photos)
    found = checks.compare(exact, answers)
    before, after = accuracy(exact, labels), accuracy(answers, labels)
    row = {
        "accuracy": 100 * after,
        "points_lost": 100 * (before - after),
        "photos": len(photos),
        "top1_agreement": found["top1_agreement"],
        "sqnr_db": found["sqnr_db"],
        "megabytes": report.size_bytes / 1e6,
        "partitions": report.partitions,
        "equalized": len(report.equalized),
        "kept_float": len(report.kept_float),
        "seconds": seconds,
    }
    lost, agreement, sqnr = TARGETS.get(name, (None, None, None))
    row["missed"] = [
        text
        for text, missed in (
            (f"at most {lost} points lost", lost is not None and row["points_lost"] > lost + 1e-9),
            (f"agreement of at least {agreement}", agreement is not None and row["top1_agreement"] < agreement),
            (f"at least {sqnr} dB", sqnr is not None and row["sqnr_db"] < sqnr),
        )
        if missed
    ]
    print(f"{name}: {row}", flush=True)
    return row


def latencies(paths, image, rounds):
    """Milliseconds and ratios of each file to the first, taken in turns."""
    runners = {name: TFLiteRunner(path) for name, path in paths.items()}
    times = {name: [] for name in runners}
    for turn in range(rounds + 1):
        for name, runner in runners.items():
            start = time.perf_counter()
            runner.one(image)
            if turn:
                times[name].append(1e3 * (time.perf_counter() - start))
    first = np.array(next(iter(times.values()), []))
    return {
        name: {"latency_ms": float(np.median(own)), "latency_ratio": float(np.median(np.array(own) / first))}
        for name, own in times.items()
    }


def _table(rows):
    lines = [
        "| preset | accuracy % | points lost | same top-1 % | SQNR dB | MB | ms | times fp32 | partitions |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, row in rows.items():
        milliseconds, ratio = row["latency_ms"], row["latency_ratio"]
        lines.append(
            f"| {name} | {row['accuracy']:.2f} | {row['points_lost']:.2f} | {100 * row['top1_agreement']:.2f} | "
            f"{row['sqnr_db']:.1f} | {row['megabytes']:.1f} | {_number(milliseconds, 1)} | {_number(ratio, 2)} | "
            f"{row['partitions']} |"
        )
    return "\n".join(lines)


def _number(value, digits):
    return "" if value is None else f"{value:.{digits}f}"


if __name__ == "__main__":
    sys.exit(main())
