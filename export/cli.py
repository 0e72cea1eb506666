"""`vitkeras-export`: a Keras file in, a checked TFLite file or SavedModel out; or two TFLite files compared."""

import argparse
import json
import os
import re
import sys
import traceback
import warnings
import zipfile

from vitkeras._data_sources import LISTED

from .about import FIELDS
from .presets import PRESETS, find_preset
from .quiet import quiet
from .runtime import MOST_THREADS

DEFAULT_PRESET = "int8_dynamic"
OTHER_FORMATS = (".keras", ".h5", ".hdf5", ".onnx", ".pb", ".npz", ".safetensors", ".lite", ".txt", ".json", ".html")
OUTPUTS = ("--out", "--json", "--html")
SAVED_MODEL_LACKS = (
    "labels data limit about html output k calibration ranges preset input-dtype threads".split()  # of the options
)


def main(argv=None):
    """Entry point of `vitkeras-export`.

    Returns:
        int: 0; 1 if a check failed; 2 for bad input; 130 if interrupted.
    """
    arguments = sys.argv[1:] if argv is None else argv
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = _show_warning
            _main(_parser().parse_args(arguments))
        return 0
    except KeyboardInterrupt:
        print("error: interrupted; unfinished output was removed.", file=sys.stderr)
        return 130  # what shells give for SIGINT
    except (ValueError, OSError, ImportError, RuntimeError) as error:
        if "--debug" in arguments:
            traceback.print_exc()
        else:
            print(f"error: {error}", file=sys.stderr)
        return 1 if isinstance(error, RuntimeError) else 2


def _show_warning(message, *_args, **_kwargs):
    """A warning without the line of code that gave it."""
    print(f"warning: {message}", file=sys.stderr)


def _parser():
    parse = argparse.ArgumentParser(prog="vitkeras-export", description=__doc__)
    parse.add_argument("--model", metavar="M.keras", help="a model saved by Keras")
    parse.add_argument("--out", metavar="PATH", help="NAME.tflite, or a folder for a SavedModel")
    parse.add_argument("--compare", nargs=2, metavar=("A", "B"), help="compare two .tflite files on --data instead")
    parse.add_argument("--preset", help=f"of a .tflite: {', '.join(PRESETS)}; default {DEFAULT_PRESET}")
    parse.add_argument(
        "--calibration", metavar="SPEC", help=f"images for ranges and equalisation, their training part: {LISTED}"
    )
    parse.add_argument("--ranges", metavar="JSON", help="ranges.json of a vitkeras-qat run, for --preset qat_int8")
    parse.add_argument("--labels", metavar="TXT", help="one class name a line, written into the .tflite")
    parse.add_argument("--data", metavar="SPEC", help=f"{LISTED}: the file and the model must agree on it")
    parse.add_argument("--limit", type=int, metavar="N", help="images of --data at most (256; 1000 with --compare)")
    parse.add_argument("--input-dtype", help="float32 (default) or uint8: what the .tflite takes")
    parse.add_argument(
        "--input-values", help="scaled (default) or pixels: the model takes -1...1, or 0...255 and scales them itself"
    )
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
    parse.add_argument("--threads", type=int, help="for the check's run (default 2)")
    parse.add_argument("--overwrite", action="store_true", help="replace an existing output")
    parse.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return parse


def _main(arguments):
    from .files import check_output

    if arguments.threads is not None and not 1 <= arguments.threads <= MOST_THREADS:
        raise ValueError(f"--threads must be in 1...{MOST_THREADS}, received {arguments.threads}.")
    if arguments.limit is not None and arguments.limit < 1:
        raise ValueError(f"--limit must be >= 1, received {arguments.limit}.")
    if arguments.out and arguments.out.lower().endswith(OTHER_FORMATS):
        raise ValueError(f"--out must be NAME.tflite or a folder for a SavedModel, received {arguments.out!r}.")
    tflite = bool(arguments.out) and arguments.out.lower().endswith(".tflite")
    _check_paths(arguments)
    for path in (arguments.out, arguments.json, arguments.html):
        if path:
            check_output(path, arguments.overwrite, folder=path == arguments.out and not tflite)
    if arguments.compare:
        from .compare_cli import compare_command

        report = compare_command(arguments)
        print(report.as_text())
    elif not arguments.model or not arguments.out:
        raise ValueError("--model M.keras and --out PATH are needed, or --compare A B and --data SPEC.")
    else:
        report = (_tflite if tflite else _saved_model)(arguments)
    if arguments.html:
        _write(arguments.html, report.as_html())
    if arguments.json:
        _write(arguments.json, json.dumps(report if isinstance(report, dict) else report.as_dict(), indent=1))


def _check_paths(arguments):
    """Raises ValueError if a file would be written twice, or over one that is read."""
    given = [(f"--{name}", getattr(arguments, name)) for name in ("out", "json", "html", "model", "labels", "ranges")]
    given += [("--compare", path) for path in arguments.compare or ()]
    given = [(option, path) for option, path in given if path]
    for i, (option, path) in enumerate(given):
        for other, second in given[i + 1 :]:
            if option in OUTPUTS and os.path.realpath(path) == os.path.realpath(second):
                raise ValueError(f"{option} and {other} must be different files, received {path!r} for both.")


def _saved_model(arguments):
    for option in SAVED_MODEL_LACKS:
        if getattr(arguments, option.replace("-", "_")):
            raise ValueError(f"--{option} is for a .tflite output, received --out {arguments.out!r}.")
    model = _load(arguments.model)
    from .saved_model import to_saved_model

    comparison = to_saved_model(
        model, arguments.out, arguments.overwrite, input_values=arguments.input_values or "scaled"
    )
    print(f"{arguments.out}: SavedModel, max |difference| to Keras {comparison['max_abs_difference']:.2e}")
    return comparison


def _tflite(arguments):
    preset = arguments.preset or DEFAULT_PRESET
    _check_preset(preset, arguments)
    labels = _read_text("--labels", arguments.labels).splitlines() if arguments.labels else None
    about = _about(arguments.about)
    model = _load(arguments.model)
    if arguments.ranges:
        model = _with_ranges(model, arguments.ranges)
    from .tflite import to_tflite

    images = classes = None
    if arguments.data:
        from vitkeras import data

        test = data.open_dataset(arguments.data).test
        images, classes = data.raw_images(test, model.input_shape[1:3], limit=arguments.limit or 256)
        classes = _classes(arguments, model, classes, test.class_names, labels)
    print(f"converting {model.name} to {preset}, then checking the file ...", flush=True)
    report = to_tflite(
        model,
        arguments.out,
        preset=preset,
        calibration_images=arguments.calibration,
        labels=labels,
        overwrite=arguments.overwrite,
        verify_images=images,
        verify_labels=classes,
        num_threads=arguments.threads or 2,
        input_dtype=arguments.input_dtype or "float32",
        output=arguments.output,
        k=arguments.k,
        about=about,
        show_progress=True,
        input_values=arguments.input_values or "scaled",
    )
    print(report.as_text())
    return report


def _classes(arguments, model, classes, class_names, labels):
    """The classes of --data as places in the model's output, or None, with a warning if the data are of others."""
    from .compare_cli import output_labels

    shape = tuple(model.outputs[0].shape[1:])
    if arguments.output not in (None, "logits", "softmax") or len(model.outputs) != 1 or len(shape) != 1:
        return None
    found = output_labels(classes, class_names, labels, shape[0])
    if found is None and labels is None:
        warnings.warn(
            f"no accuracy is given: --data has {len(class_names)} classes, the model {shape[0]}.", stacklevel=2
        )
    elif found is None:
        warnings.warn("no accuracy is given: the classes of --data are not all among --labels.", stacklevel=2)
    return found


def _check_preset(name, arguments):
    """Raises ValueError where options don't fit the preset or each other, in the terms of the command line."""
    preset = find_preset(name)
    if preset.learned and not arguments.ranges:
        raise ValueError(f"--ranges JSON is needed for --preset {name}: the ranges.json of a vitkeras-qat run.")
    if arguments.ranges and not preset.learned:
        raise ValueError(f"--ranges is for --preset qat_int8, received --preset {name}.")
    if preset.images == "needed" and not arguments.calibration:
        raise ValueError(f"--calibration SPEC is needed for --preset {name}: it measures ranges on images.")
    if preset.images == "none" and arguments.calibration:
        raise ValueError(f"--calibration is for presets that look at images, received --preset {name}.")
    if arguments.limit is not None and not arguments.data:
        raise ValueError(f"--limit is for --data, received --limit {arguments.limit} without it.")
    if arguments.k is not None and arguments.output != "top_k":
        raise ValueError(f"--k is for --output top_k, received --k {arguments.k}.")


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
    if os.path.isfile(os.path.join(path, "model.keras")):  # a run's folder
        path = os.path.join(path, "model.keras")
    if not os.path.isfile(path):
        raise FileNotFoundError(f"--model {path!r} must be a file saved by Keras or a folder with model.keras.")
    if path.endswith(".keras") and not zipfile.is_zipfile(path):
        raise ValueError(f"--model {path!r} is not a model saved by Keras (no zip archive).")
    import keras

    import vitkeras  # noqa: F401  (registers the layers)

    try:
        with quiet():
            return keras.saving.load_model(path, compile=False)
    except (ValueError, TypeError, OSError, KeyError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        if unknown := re.search(r"Could not locate class '(.+?)'", str(error)):
            raise ValueError(
                f"--model {path!r} has a layer of the class {unknown[1]!r}, which this command doesn't know: load it "
                "in Python and call vitkeras.export.to_tflite."
            ) from error
        if "`Lambda`" in str(error):
            raise ValueError(
                f"--model {path!r} has a Lambda layer, whose Python code this command doesn't run: load it in Python "
                "with safe_mode=False and call vitkeras.export.to_tflite."
            ) from error
        first = first if len(first) <= 160 else first[:160] + " ..."
        raise ValueError(f"--model {path!r} is not a model saved by Keras ({first}).") from error


def _with_ranges(model, path):
    from .qat import FINGERPRINT, prepare_qat

    try:
        ranges = json.loads(_read_text("--ranges", path))
    except json.JSONDecodeError as error:
        raise ValueError(f"--ranges {path!r} is not JSON ({error}).") from error
    if not isinstance(ranges, dict) or not all(
        isinstance(pair, list) and len(pair) == 2 for name, pair in ranges.items() if name != FINGERPRINT
    ):
        raise ValueError(f"--ranges {path!r} must hold names with two numbers each, as vitkeras-qat writes them.")
    return prepare_qat(model, ranges=ranges)


def _read_text(option, path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it holds other bytes"
        raise ValueError(f"{option} {path!r} must be a text file in UTF-8: {reason}.") from error
