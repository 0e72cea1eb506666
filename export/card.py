"""The model card inside a file: what it is, how it was made, what its checks found."""

import dataclasses
import json
import os

import numpy as np

from . import archive
from .checks import require_check
from .files import gzip_size, sha256
from .runtime import TFLiteRunner

CARD_FILE = "model_card.json"
# What the checks found, of the report's fields. Path, size, hash and latency say something of one copy or machine.
FOUND = (
    "preset",
    "output",
    "input_dtype",
    "operators",
    "partitions",
    "fully_accelerated",
    "images",
    "synthetic",
    "max_abs_difference",
    "cosine",
    "sqnr_db",
    "top1_agreement",
    "versions",
)


def add_card(path, about, report, pixel_input, image):
    """Appends `model_card.json` to a checked file and loads it once more: what the file says must not have changed.

    Args:
        path: str, the file.
        about: from `check_about`.
        report: `ExportReport` of the checks.
        pixel_input: bool.
        image: array (H, W, C), one image as the file takes it.

    Returns:
        `ExportReport` with the size and the hash of the file with its card.

    Raises:
        ExportError: if the file's answer or its partitions changed.
    """
    before = TFLiteRunner(path, report.num_threads).one(image)
    found = report.as_dict()
    card = {
        **about,
        "input_values": "0...255" if pixel_input else "-1...1",
        **{field: found[field] for field in FOUND},
    }
    archive.append(path, CARD_FILE, json.dumps(card, indent=1) + "\n")
    runner = TFLiteRunner(path, report.num_threads)
    after = runner.one(image)
    named = [answer if isinstance(answer, dict) else {"": answer} for answer in (before, after)]
    same = all(np.array_equal(named[0][name], named[1][name]) for name in named[0])
    require_check("card", same, "the same answer with the card as without", "another one")
    partitions = runner.partitions()
    require_check("card", partitions == report.partitions, f"{report.partitions} partitions", partitions)
    return dataclasses.replace(
        report, size_bytes=os.path.getsize(path), gzip_bytes=gzip_size(path), sha256=sha256(path)
    )


def read_card(path):
    """Reads the model card in a `.tflite` file.

    Args:
        path: str, a file from `to_tflite`.

    Returns:
        dict: "name", "version", what the caller said with `about`, "input_values", and of the `ExportReport` the
        preset, the outputs, the graph's operators and partitions, the comparison with the Keras model and the packages'
        versions. None if the file holds no card.

    Raises:
        OSError: if the file cannot be read.

    Example:
        >>> read_card("photos.tflite")["preset"]                            # doctest: +SKIP
        'int8_dynamic'
    """
    text = archive.read(path, CARD_FILE)
    return None if text is None else json.loads(text)
