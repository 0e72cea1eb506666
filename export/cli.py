"""`vitkeras-export`: a Keras file in, a checked TFLite file or SavedModel out."""

import argparse
import json
import os
import sys
import traceback

from vitkeras._data_sources import LISTED

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
    parse.add_argument("--model", required=True, metavar="M.keras", help="a model saved by Keras")
    parse.add_argument("--out", required=True, metavar="PATH", help="NAME.tflite, or a folder for a SavedModel")
    parse.add_argument("--preset", default="int8_dynamic", help="fp32, int8_dynamic (default) or qat_int8, for .tflite")
    parse.add_argument("--ranges", metavar="JSON", help="ranges.json of a vitkeras-qat run, for --preset qat_int8")
    parse.add_argument("--labels", metavar="TXT", help="one class name a line, written into the .tflite")
    parse.add_argument("--data", metavar="SPEC", help=f"{LISTED}: the file and the model must agree on it")
    parse.add_argument("--json", metavar="PATH", help="write the report as JSON, too")
    parse.add_argument("--threads", type=int, default=2, help="for the check's run (default 2)")
    parse.add_argument("--overwrite", action="store_true", help="replace an existing output")
    parse.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return parse


def _main(arguments):
    from .files import check_output

    if arguments.threads < 1:
        raise ValueError(f"--threads must be >= 1, received {arguments.threads}.")
    check_output(arguments.out, arguments.overwrite)
    if arguments.json:
        check_output(arguments.json, arguments.overwrite)
    labels = _read_lines(arguments.labels) if arguments.labels else None
    model = _load(arguments.model)
    if (arguments.ranges is None) == (arguments.preset == "qat_int8"):
        raise ValueError(f"--ranges is for --preset qat_int8, which needs it; received preset {arguments.preset!r}.")
    if arguments.ranges:
        model = _with_ranges(model, arguments.ranges)
    if not arguments.out.endswith(".tflite"):
        if arguments.labels or arguments.data:
            raise ValueError("--labels and --data are for a .tflite output.")
        from .saved_model import to_saved_model

        comparison = to_saved_model(model, arguments.out, arguments.overwrite)
        print(f"{arguments.out}: SavedModel, max |difference| to Keras {comparison['max_abs_difference']:.2e}")
        report = comparison
    else:
        from .tflite import to_tflite

        images = None
        if arguments.data:
            from vitkeras import data

            images, _ = data.raw_images(data.open_dataset(arguments.data).test, model.input_shape[1:3], limit=256)
        print(f"converting {model.name} to {arguments.preset}, then checking the file ...", flush=True)
        report = to_tflite(
            model,
            arguments.out,
            preset=arguments.preset,
            labels=labels,
            overwrite=arguments.overwrite,
            verify_images=images,
            num_threads=arguments.threads,
        )
        print(report.as_text())
        report = report.as_dict()
    if arguments.json:
        with open(arguments.json + ".part", "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
        os.replace(arguments.json + ".part", arguments.json)


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
