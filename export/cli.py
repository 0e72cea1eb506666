"""`vitkeras-export`: a Keras file in, a checked TFLite file or SavedModel out; or two TFLite files compared."""

import argparse
import json
import os
import sys
import traceback

from vitkeras._data_sources import LISTED

from .about import FIELDS
from .presets import PRESETS
from .quiet import quiet


def main(argv=None):
    """Entry point of `vitkeras-export`.

    Returns:
        int: 0; 1 if a check failed; 2 for bad input.
    """
    arguments = sys.argv[1:] if argv is None else argv
    try:
        _main(_parser().parse_args(arguments))
        return 0
    except (ValueError, OSError, ImportError, RuntimeError) as error:
        if "--debug" in arguments:
            traceback.print_exc()
        else:
            print(f"error: {error}", file=sys.stderr)
        return 1 if isinstance(error, RuntimeError) else 2


def _parser():
    parse = argparse.ArgumentParser(prog="vitkeras-export", description=__doc__)
    parse.add_argument("--model", metavar="M.keras", help="a model saved by Keras")
    parse.add_argument("--out", metavar="PATH", help="NAME.tflite, or a folder for a SavedModel")
    parse.add_argument("--compare", nargs=2, metavar=("A", "B"), help="compare two .tflite files on --data instead")
    parse.add_argument(
        "--preset", default="int8_dynamic", help="of a .tflite: " + ", ".join(PRESETS) + "; default int8_dynamic"
    )
    parse.add_argument(
        "--calibration", metavar="SPEC", help=f"images for ranges and equalisation, their training part: {LISTED}"
    )
    parse.add_argument("--ranges", metavar="JSON", help="ranges.json of a vitkeras-qat run, for --preset qat_int8")
    parse.add_argument("--labels", metavar="TXT", help="one class name a line, written into the .tflite")
    parse.add_argument("--data", metavar="SPEC", help=f"{LISTED}: the file and the model must agree on it")
    parse.add_argument("--limit", type=int, metavar="N", help="images of --data at most (256; 1000 with --compare)")
    parse.add_argument("--input-dtype", default="float32", help="float32 (default) or uint8: what the .tflite takes")
    parse.add_argument("--output", help="logits, softmax, embedding or top_k instead of what the model returns")
    parse.add_argument("--k", type=int, metavar="K", help="classes of --output top_k, 1...5 (default 5)")
    parse.add_argument(
        "--about",
        action="append",
        default=[],
        metavar="FIELD=TEXT",
        help=f"for the metadata and the card inside the .tflite; fields: {', '.join(FIELDS)}",
    )
    parse.add_argument("--html", metavar="PATH", help="write the report of a .tflite as one HTML page, too")
    parse.add_argument("--json", metavar="PATH", help="write the report as JSON, too")
    parse.add_argument("--threads", type=int, default=2, help="for the check's run (default 2)")
    parse.add_argument("--overwrite", action="store_true", help="replace an existing output")
    parse.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return parse


def _main(arguments):
    from .files import check_output

    if arguments.threads < 1:
        raise ValueError(f"--threads must be >= 1, received {arguments.threads}.")
    if arguments.limit is not None and arguments.limit < 1:
        raise ValueError(f"--limit must be >= 1, received {arguments.limit}.")
    for path in (arguments.out, arguments.json, arguments.html):
        if path:
            check_output(path, arguments.overwrite)
    if arguments.compare:
        from .compare_cli import compare_command

        report = compare_command(arguments)
        print(report.as_text())
    elif not arguments.model or not arguments.out:
        raise ValueError("--model M.keras and --out PATH are needed, or --compare A B and --data SPEC.")
    else:
        report = (_tflite if arguments.out.endswith(".tflite") else _saved_model)(arguments)
    if arguments.html:
        _write(arguments.html, report.as_html())
    if arguments.json:
        _write(arguments.json, json.dumps(report if isinstance(report, dict) else report.as_dict(), indent=1))


def _saved_model(arguments):
    for option in ("labels", "data", "about", "html", "output", "calibration", "ranges"):
        if getattr(arguments, option):
            raise ValueError(f"--{option} is for a .tflite output.")
    model = _load(arguments.model)
    from .saved_model import to_saved_model

    comparison = to_saved_model(model, arguments.out, arguments.overwrite)
    print(f"{arguments.out}: SavedModel, max |difference| to Keras {comparison['max_abs_difference']:.2e}")
    return comparison


def _tflite(arguments):
    labels = _read_lines(arguments.labels) if arguments.labels else None
    about = _about(arguments.about)
    if (arguments.ranges is None) == (arguments.preset == "qat_int8"):
        raise ValueError(f"--ranges is for --preset qat_int8, which needs it; received preset {arguments.preset!r}.")
    model = _load(arguments.model)
    if arguments.ranges:
        model = _with_ranges(model, arguments.ranges)
    from .tflite import to_tflite

    images = classes = None
    if arguments.data:
        from vitkeras import data

        test = data.open_dataset(arguments.data).test
        images, classes = data.raw_images(test, model.input_shape[1:3], limit=arguments.limit or 256)
        one_vector = arguments.output in (None, "logits", "softmax") and len(model.outputs) == 1
        if not one_vector or tuple(model.outputs[0].shape[1:]) != (len(test.class_names),):
            classes = None  # the labels are of other classes than the outputs
    print(f"converting {model.name} to {arguments.preset}, then checking the file ...", flush=True)
    report = to_tflite(
        model,
        arguments.out,
        preset=arguments.preset,
        calibration_images=arguments.calibration,
        labels=labels,
        overwrite=arguments.overwrite,
        verify_images=images,
        verify_labels=classes,
        num_threads=arguments.threads,
        input_dtype=arguments.input_dtype,
        output=arguments.output,
        k=arguments.k,
        about=about,
        show_progress=True,
    )
    print(report.as_text())
    return report


def _about(pairs):
    for pair in pairs:
        if "=" not in pair:
            raise ValueError(f"--about must be FIELD=TEXT, received {pair!r}.")
    return dict(pair.split("=", 1) for pair in pairs)


def _write(path, text):
    with open(path + ".part", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".part", path)


def _load(path):
    if not os.path.isfile(path):
        raise FileNotFoundError(f"--model {path!r} is not a file.")
    import keras

    import vitkeras  # noqa: F401  (registers the layers)

    try:
        with quiet():
            return keras.saving.load_model(path, compile=False)
    except (ValueError, TypeError, OSError, KeyError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ValueError(f"--model {path!r} is not a model saved by Keras ({first}).") from error


def _with_ranges(model, path):
    from .qat import prepare_qat

    with open(path, encoding="utf-8") as file:
        try:
            ranges = json.load(file)
        except ValueError as error:
            raise ValueError(f"--ranges {path!r} is not JSON ({error}).") from error
    pairs = isinstance(ranges, dict) and all(isinstance(p, list) and len(p) == 2 for p in ranges.values())
    if not pairs:
        raise ValueError(f"--ranges {path!r} must hold names with two numbers each, as vitkeras-qat writes them.")
    return prepare_qat(model, ranges=ranges)


def _read_lines(path):
    with open(path, encoding="utf-8") as file:
        return file.read().splitlines()
