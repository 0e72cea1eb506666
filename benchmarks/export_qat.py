"""What quantization-aware training gives back, on a trained ViT-S/14 and photos of twelve flowers.

    python benchmarks/export_qat.py [--steps 240] [--kinds int8,float_mix] [--workdir DIR] [--json PATH]

The net and the photos are those of benchmarks/export_accuracy.py. `vitkeras-qat` distils the net from itself on the
training photos; its files, before and after, are compared with the float model on 240 test photos, beside the preset
int8_static, whose decibels + 3 are the target. A run in `--workdir` goes on where it was stopped. The command ends with
code 1 if no trained file reaches the target.
"""

import argparse
import json
import os
import sys
import tempfile

import keras
from export_accuracy import latencies
from flowers_net import flowers_net, flowers_spec

import vitkeras
from vitkeras.export import checks, prepare_qat, run_tflite, to_tflite
from vitkeras.export.agreement import accuracy
from vitkeras.recipes import qat

KINDS = {"int8": False, "float_mix": True}  # whether the attention's weighted sum of the values stays float
GAIN = 3.0  # dB above int8_static


def main(argv=None):
    """Runs the benchmark; returns the exit code."""
    parse = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parse.add_argument("--steps", type=int, default=240, help="of 16 photos (default 240); 0: no training")
    parse.add_argument("--kinds", default=",".join(KINDS), help=f"some of {', '.join(KINDS)}")
    parse.add_argument("--set", action="append", default=[], metavar="A.B=V", help="of vitkeras-qat, after the others")
    parse.add_argument("--calibration", type=int, default=144, metavar="N", help="training photos (default 144)")
    parse.add_argument("--rounds", type=int, default=30, help="of the latencies (default 30)")
    parse.add_argument("--workdir", metavar="DIR", help="keep runs and files there")
    parse.add_argument("--json", metavar="PATH", help="write the rows as JSON, too")
    arguments = parse.parse_args(argv)
    kinds = arguments.kinds.split(",")
    if unknown := [name for name in kinds if name not in KINDS]:
        parse.error(f"--kinds must hold some of {', '.join(KINDS)}, received {unknown[0]!r}")
    net = flowers_net()
    images = net.train_x[:: max(1, len(net.train_x) // arguments.calibration)]
    exact = net.model.predict(vitkeras.preprocess_input(net.test_x.astype("float32")), batch_size=16, verbose=0)
    print(f"Keras: accuracy {100 * accuracy(exact, net.test_y):.2f} % of {len(exact)} photos", flush=True)
    rows, paths = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        folder = arguments.workdir or folder
        os.makedirs(folder, exist_ok=True)

        def add(name, model, preset="qat_int8", **options):
            paths[name] = os.path.join(folder, f"{name.replace(' ', '_')}.tflite")
            to_tflite(model, paths[name], preset, verify_images=net.test_x[::20], overwrite=True, **options)
            answers = run_tflite(paths[name], net.test_x)
            rows[name] = {"accuracy": 100 * accuracy(answers, net.test_y), **checks.compare(exact, answers)}
            print(f"{name}: {rows[name]}", flush=True)

        add("int8_static", net.model, "int8_static", calibration_images=images)
        inputs = vitkeras.preprocess_input(images.astype("float32"))
        for kind in kinds:
            add(f"{kind} at first", prepare_qat(net.model, inputs, float_mix=KINDS[kind]))
            if arguments.steps:
                add(f"{kind} trained", _trained(net.model, kind, len(images), folder, arguments))
        for name, found in latencies(paths, net.test_x[0], arguments.rounds).items():
            rows[name] |= found
    print(_table(rows))
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    goal = rows["int8_static"]["sqnr_db"] + GAIN
    trained = [row["sqnr_db"] for name, row in rows.items() if name.endswith("trained")]
    if trained and max(trained) < goal:
        print(f"target missed: at least {goal:.1f} dB")
        return 1
    return 0


def _trained(model, kind, count, folder, arguments):
    """The model of a run of `vitkeras-qat`."""
    start, workdir = os.path.join(folder, "flowers.keras"), os.path.join(folder, kind)
    if not os.path.exists(start):
        model.save(start)
    sets = [f"train.steps={arguments.steps}", "train.save_every=10", "train.log_every=5"]
    sets += [f"qat.float_mix={str(KINDS[kind]).lower()}", f"qat.calibration_images={count}", *arguments.set]
    command = ["--config", "photos", "--model", start, "--data", flowers_spec(), "--workdir", workdir]
    if code := qat.main([*command, *(part for text in sets for part in ("--set", text))]):
        raise SystemExit(code)
    with open(os.path.join(workdir, "ranges.json"), encoding="utf-8") as file:
        ranges = json.load(file)
    return prepare_qat(keras.saving.load_model(os.path.join(workdir, "model.keras")), ranges=ranges)


def _table(rows):
    lines = [
        "| file | accuracy % | same top-1 % | SQNR dB | ms | times int8_static |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, row in rows.items():
        lines.append(
            f"| {name} | {row['accuracy']:.2f} | {100 * row['top1_agreement']:.2f} | {row['sqnr_db']:.2f} | "
            f"{row['latency_ms']:.1f} | {row['latency_ratio']:.2f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
