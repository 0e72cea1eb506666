"""What static ranges cost for each kind of product, chosen in three ways: the measurements behind `int8_static`.

    python benchmarks/export_roles.py [--images 240] [--roles "mix;out"] [--json PATH]

The net and the photos are those of benchmarks/export_accuracy.py, channels equalised. Each row has one kind of product
in static ranges, chosen in one way, and all others dynamic. Behind "mix of even rows", "keys centred" and "as GELU
sees it" is what `int8_static` does besides (`export/even_rows.py`, `export/centre.py`, `export/unseen.py`).
"""

import argparse
import json
import os
import sys
import tempfile

from flowers_net import flowers_net

from vitkeras.export import checks
from vitkeras.export.agreement import accuracy
from vitkeras.export.calibrate import METHODS, collect
from vitkeras.export.equalize import equalize
from vitkeras.export.even_rows import even_mixes
from vitkeras.export.graph import export_model
from vitkeras.export.operators import read_operators
from vitkeras.export.post_training import centre
from vitkeras.export.quantize import quantize
from vitkeras.export.runtime import TFLiteRunner
from vitkeras.export.tflite import convert
from vitkeras.export.unseen import seen_by_gelu

EVEN, CENTRED, SEEN = "even rows", "keys centred", "as GELU sees it"
KINDS = {  # name -> roles, and what is done besides
    "nothing": ((), None),
    "patch": (("patch",), None),
    "query, key, value": (("query", "key", "value"), None),
    "query, key, value, keys centred": (("query", "key", "value"), CENTRED),
    "scores": (("scores",), None),
    "scores, keys centred": (("scores",), CENTRED),
    "mix": (("mix",), None),
    "mix of even rows": (("mix",), EVEN),
    "out": (("out",), None),
    "fc1": (("fc1",), None),
    "fc1 as GELU sees it": (("fc1",), SEEN),
    "fc2": (("fc2",), None),
}


def main(argv=None):
    """Runs the benchmark; returns the exit code."""
    parse = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parse.add_argument("--images", type=int, default=240, metavar="N", help="test photos (default 240)")
    parse.add_argument("--roles", default=";".join(KINDS), help="some of the kinds, separated by semicolons")
    parse.add_argument("--json", metavar="PATH", help="write the rows as JSON, too")
    arguments = parse.parse_args(argv)
    kinds = arguments.roles.split(";")
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        parse.error(f"--roles must hold some of {'; '.join(KINDS)}, received {unknown[0]!r}")
    net = flowers_net()
    calibration = net.train_x[::5].astype("float32")
    step = max(1, len(net.test_x) // arguments.images)
    photos, labels = net.test_x[::step].astype("float32"), net.test_y[::step]
    rows = []
    graphs = {}
    with tempfile.TemporaryDirectory() as folder:
        made = os.path.join(folder, "int8.tflite")
        print("| static | ranges | accuracy % | same top-1 % | SQNR dB |\n| --- | --- | --- | --- | --- |")
        for kind in kinds:
            roles, change = KINDS[kind]
            in_graph = None if change == SEEN else change
            if in_graph not in graphs:
                path = os.path.join(folder, f"float_{len(graphs)}.tflite")
                graphs[in_graph] = _float_graph(net.model, path, in_graph, calibration)
            path, operators, found = graphs[in_graph]
            exact = TFLiteRunner(path)(photos)
            for method in METHODS if roles else ("",):
                modes = {o.index: "static" if o.role in roles else "dynamic" for o in operators}
                modes |= {o.index: "float" for o in operators if not o.weight_shape and o.role not in roles}
                ranges = {name: statistics.range(method) for name, statistics in found.items()}
                if change == SEEN:
                    ranges |= {o.output: tuple(seen_by_gelu(ranges[o.output])) for o in operators if o.before_gelu}
                quantize(path, made, operators, modes, ranges)
                answers = TFLiteRunner(made)(photos)
                row = {"static": kind, "ranges": method, "accuracy": 100 * accuracy(answers, labels)}
                row |= checks.compare(exact, answers)
                rows.append(row)
                print(
                    f"| {kind} | {method} | {row['accuracy']:.2f} | {100 * row['top1_agreement']:.2f} | "
                    f"{row['sqnr_db']:.1f} |",
                    flush=True,
                )
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    return 0


def _float_graph(model, path, change, calibration):
    """(equalised float file, its operators, statistics of what enters and leaves them)."""
    clone = export_model(model, True)
    convert(even_mixes(clone) if change == EVEN else clone, path + ".plain")
    equalize(path + ".plain", path, calibration)
    operators = read_operators(path)
    if change == CENTRED:
        centre(path, path, operators, {o.index for o in operators if o.role == "scores"}, calibration)
        operators = read_operators(path)
    names = {name for operator in operators for name in (*operator.inputs, operator.output)}
    return path, operators, collect(path, names, calibration, counted=names)


if __name__ == "__main__":
    sys.exit(main())
