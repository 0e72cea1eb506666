"""What a file of `to_trainable_tflite` must pass before it gets its name."""

import hashlib
import os
import tempfile

import numpy as np

from vitkeras._optional import require

from . import checks
from .head_graph import SIGNATURES, numpy_step
from .images import synthetic_images
from .presets import PRESETS
from .quiet import quiet
from .signatures import check_one_partition, check_signatures
from .trainable_report import TrainableReport
from .verify import keras_outputs, weight_bytes


def check_trainable(file, path, backbone, head, batch_size, preset, num_threads):
    """Checks the graph of every signature, then runs each one against Keras and NumPy.

    Args:
        file: str, the file as it is.
        path: str, the name that it shall get.
        backbone: `keras.Model` (B, H, W, C) in -1...1 -> (B, D).
        head: (kernel, bias), what `get_head` must return.
        batch_size, preset, num_threads: as in `to_trainable_tflite`.

    Returns:
        `TrainableReport`.

    Raises:
        ExportError: if a check fails.
    """
    litert = require("ai_edge_litert.interpreter", "ai-edge-litert", "running a .tflite file", extra="export")
    operators = check_signatures(file, SIGNATURES, float_only=SIGNATURES[2:])
    rule = PRESETS[preset]
    checks.check_size(os.path.getsize(file), weight_bytes(backbone, rule.bytes_a_weight))
    with tempfile.TemporaryDirectory() as folder:
        for name in SIGNATURES[:2]:
            check_one_partition(file, name, folder)
    with quiet():
        interpreter = litert.Interpreter(file, num_threads=num_threads)
    run = {name: interpreter.get_signature_runner(name) for name in SIGNATURES}
    comparison = _check_images(run, backbone, head, rule)
    _check_head(run, head, batch_size)
    with open(file, "rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return TrainableReport(
        path=path,
        preset=preset,
        classes=head[0].shape[1],
        features=head[0].shape[0],
        batch_size=batch_size,
        size_bytes=os.path.getsize(file),
        operators=operators,
        sha256=digest,
        **comparison,
    )


def _check_images(run, backbone, head, rule):
    """The file's features against the Keras model's, then its answers against its own features and a head."""
    images = synthetic_images(backbone.inputs[0].shape[1:])
    reference = keras_outputs(backbone, images, scale=True)
    received = np.concatenate([run["features"](image=image[None])["features"] for image in images])
    comparison = checks.compare(reference, received)
    checks.check_numbers(comparison, reference, rule, needs_agreement=False)
    rng = np.random.default_rng(0)
    kernel, bias = (rng.normal(size=part.shape).astype("float32") for part in head)
    answers = [run["infer"](image=image[None], kernel=kernel, bias=bias) for image in images]
    logits = received.astype("float64") @ kernel + bias
    _require_equal("infer, logits", np.concatenate([a["logits"] for a in answers]), logits)
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities = powers / powers.sum(axis=1, keepdims=True)
    _require_equal("infer, probabilities", np.concatenate([a["probabilities"] for a in answers]), probabilities)
    return {name: comparison[name] for name in ("cosine", "sqnr_db")}


def _check_head(run, head, batch_size):
    """A step against NumPy's, the head to begin with, and the gate for stored heads."""
    rng = np.random.default_rng(1)
    kernel, bias = (rng.normal(size=part.shape).astype("float32") for part in head)
    features = rng.normal(size=(batch_size, len(kernel))).astype("float32")
    labels = rng.integers(-1, len(bias), batch_size).astype("int32")
    rate = np.float32(0.5)
    step = run["train_head"](features=features, labels=labels, kernel=kernel, bias=bias, learning_rate=rate)
    for name, expected in zip(("kernel", "bias", "loss"), numpy_step(features, labels, kernel, bias, rate)):
        _require_equal(f"train_head, {name}", step[name], expected)
    broken = np.append(bias[:-1], np.float32("nan"))
    first, passed = run["get_head"](), run["set_head"](kernel=kernel, bias=bias)
    refused = run["set_head"](kernel=kernel, bias=broken)
    same = all(np.array_equal(first[name], part) for name, part in zip(("kernel", "bias"), head))
    checks.require_check("get_head", same, "the head to begin with", "another")
    same = passed["valid"] and np.array_equal(passed["kernel"], kernel) and np.array_equal(passed["bias"], bias)
    checks.require_check("set_head", same, "a finite head unchanged", "another")
    gone = not refused["valid"] and np.isnan(refused["kernel"]).all() and np.isnan(refused["bias"]).all()
    checks.require_check("set_head", gone, "NaN for a head with NaN", "a head")


def _require_equal(name, received, expected):
    bound = 1e-4 * max(1.0, float(np.abs(expected).max()))
    worst = float(np.abs(received - expected).max())
    checks.require_check(name, worst <= bound, f"max |difference| <= {bound:.1e}", f"{worst:.1e}")
