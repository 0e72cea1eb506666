"""The checks of a finished file against its Keras model, and the report of them.

Legend: N images, K outputs.
"""

import importlib.metadata as metadata
import os

import keras
import numpy as np

from . import checks, outputs
from .agreement import accuracy, top5_agreement
from .disagreements import find_disagreements
from .graph import export_model
from .report import ExportReport
from .runtime import TFLiteRunner, is_fully_accelerated

LARGE = 40_000_000  # bytes of a file for which the reference kernels take a minute and more
LEAST_REFERENCE_COSINE = 0.99  # of reference and fast kernels: they round activations of a dynamic product differently
ALIKE = "the model answers all these images alike, so that their agreement shows nothing: has its head been trained?"


def verify(
    file, path, model, preset_name, preset, images, synthetic, pixel_input, num_threads, labels, classes, bar, scale
):
    """Runs all checks of a file and returns its `ExportReport`.

    Args:
        file: str, the file as it lies now; `path`: str, where it will be.
        model: the Keras model that it must agree with.
        preset_name: str; `preset`: `Preset`.
        images: array (N, H, W, C), as the file takes them; `synthetic`: bool, whether they are made up.
        pixel_input: bool.
        num_threads: int.
        labels: None or K names; `classes`: None or int array (N,), what the images show.
        bar: `Progress`.
        scale: bool, whether the Keras model takes the images as -1...1.

    Raises:
        ExportError: if a check fails.
    """
    size, least = os.path.getsize(file), weight_bytes(model, preset.bytes_a_weight)
    operators = checks.check_graph(file)
    checks.check_size(size, least)
    if preset.everything:
        checks.check_integers(file, ends=preset.everything == 8)
    runner = TFLiteRunner(file, num_threads)
    names = list(runner.outputs)
    partitions, accelerated = runner.partitions(), is_fully_accelerated(file)
    if preset.accelerated:
        checks.check_acceleration(partitions, accelerated or ("scores" in names and runner.outside() == ["TOPK_V2"]))
    # On made-up images, and of features, the highest output means nothing: it is reported, not required.
    named_classes = bool({"logits", "probabilities", "scores"} & set(names))
    comparisons, more = [], {}
    modelled, received = keras_outputs(model, images, scale), runner(bar.images(images))
    for reference, answers in outputs.pairs(modelled, received):
        comparisons.append(checks.compare(reference, answers))
        checks.check_numbers(comparisons[-1], reference, preset, not synthetic and named_classes)
    if names in (["logits"], ["probabilities"]) and received.ndim == 2:
        more["disagreements"] = tuple(find_disagreements(images, modelled, received, labels, pixel_input))
        more["top5_agreement"] = top5_agreement(modelled, received)
        if classes is not None:
            more["accuracies"] = accuracy(modelled, classes), accuracy(received, classes)
    return ExportReport(
        path=path,
        preset=preset_name,
        output=", ".join(names),
        input_dtype=str(np.dtype(runner.input["dtype"])),
        size_bytes=size,
        weight_bytes=least,
        gzip_bytes=None,  # this and the hash are of the whole file: `add_card`
        zero_weights=zero_weights(model),
        partitions=partitions,
        fully_accelerated=accelerated,
        operators=operators,
        images=len(images),
        synthetic=synthetic,
        latency_ms=runner.latency(images[0]),
        num_threads=num_threads,
        sha256=None,
        versions=_versions(),
        reference_cosine=_reference_cosine(file, images[0], received, preset, num_threads),
        advice="\n".join(filter(None, (preset.advice, ALIKE if _alike(modelled) else ""))),
        **checks.worst(comparisons),
        **more,
    )


def _reference_cosine(file, image, received, preset, num_threads):
    """Checks that TFLite's kernels without XNNPACK agree with it on one image; returns the cosine."""
    kernels = preset.plain_kernels if os.path.getsize(file) < LARGE else "builtin"
    slow = TFLiteRunner(file, num_threads, kernels).one(image)
    if not isinstance(slow, dict):
        slow, received = {"": slow}, {"": received}
    cosines = [
        checks.compare(received[name][:1].astype("float32"), rows[None].astype("float32"))["cosine"]
        for name, rows in slow.items()
        if name != "indices"
    ]
    least = LEAST_REFERENCE_COSINE
    checks.require_check("reference kernels", min(cosines) >= least, f"cosine >= {least}", f"{min(cosines):.6f}")
    return min(cosines)


def keras_outputs(model, images, scale, batch_size=8):
    """float32 outputs of the Keras model for images as the file takes them; a dict of them if it has several.

    With `scale` it gets them as -1...1.

    A model with a reduced-precision policy is compared in float32, as the file computes.
    """
    if any(layer.compute_dtype != "float32" for layer in model.layers):
        model = export_model(model, scale=False)
    inputs = images / 127.5 - 1 if scale else images
    parts = [inputs[i : i + batch_size] for i in range(0, len(inputs), batch_size)]
    rows = [keras.tree.map_structure(_float_array, outputs.named_outputs(model, part)) for part in parts]
    joined = {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}
    return joined if len(joined) > 1 else next(iter(joined.values()))


def _float_array(x):
    return keras.ops.convert_to_numpy(x).astype("float32")


def _alike(answers):
    """bool, whether more than one image got the same outputs; of a dict, in all of its arrays."""
    arrays = answers.values() if isinstance(answers, dict) else [answers]
    return all(len(rows) > 1 and (rows == rows[:1]).all() for rows in arrays)


def weight_bytes(model, bytes_a_weight):
    """The least that the model's matrices take in a file; vectors may be folded away or stay float."""
    return int(bytes_a_weight * sum(np.prod(v.shape) for v in _matrices(model)))


def zero_weights(model):
    """float, the share of the matrices' weights that is zero."""
    arrays = [keras.ops.convert_to_numpy(v) for v in _matrices(model)]
    return float(sum(np.count_nonzero(array == 0) for array in arrays) / sum(array.size for array in arrays))


def _matrices(model):
    return [v for v in model.weights if len(v.shape) > 1 and min(v.shape) > 1]


def _versions():
    names = ("tensorflow", "tensorflow-cpu", "keras", "ai-edge-litert", "ai-edge-quantizer", "vitkeras")
    found = {d.metadata["Name"]: d.version for name in names for d in metadata.distributions(name=name)}
    return dict(sorted(found.items()))
