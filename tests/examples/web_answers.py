"""Answers of a file in Python, and those that the page shows beside them; for the tests of examples/web."""

import numpy as np

from vitkeras.data.images import decode_with_pillow
from vitkeras.data.resizing import resize
from vitkeras.export import run_tflite

# Largest difference of a probability, page against Python, from the same pixels. Both run XNNPACK, in WebAssembly and
# in native code, which add floats in another order: float files differ by rounding. In int8 files such a difference
# can move an activation to the next of 256 levels. Measured: 2e-7; 1e-3 on digits and 3.5e-3 on photos.
TOLERANCE = {"fp32": 1e-5, "int8_dynamic": 0.01}


def softmax(logits):
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def in_python(model, paths, size):
    """Probabilities of picture files, prepared as evaluation prepares them."""
    pictures = []
    for path in paths:
        with open(path, "rb") as file:
            pictures.append(np.asarray(resize(decode_with_pillow(file.read()), size)))
    return softmax(run_tflite(model, np.stack(pictures)).astype("float64"))


def clear_answers(model, paths, size, tolerance, count=10):
    """Of the pictures the first `count` whose two best classes lie further apart than twice the tolerance."""
    probabilities = in_python(model, paths, size)
    ordered = np.sort(probabilities, axis=1)
    chosen = np.flatnonzero(ordered[:, -1] - ordered[:, -2] > 2 * tolerance)[:count]
    assert len(chosen) == count
    return [paths[i] for i in chosen], probabilities[chosen]


def assert_same_answers(results, probabilities, names, tolerance):
    worst = 0.0
    for result, expected in zip(results, probabilities, strict=True):
        assert result["error"] is None and result["latency"].endswith(" ms")
        scores = result["scores"]
        assert len(scores) == 5 and scores[0]["index"] == expected.argmax()
        assert [s["label"] for s in scores] == [names[s["index"]] for s in scores]
        assert [s["probability"] for s in scores] == sorted((s["probability"] for s in scores), reverse=True)
        assert scores[0]["percent"] == f"{100 * scores[0]['probability']:.1f}%"
        worst = max([worst, *(abs(s["probability"] - expected[s["index"]]) for s in scores)])
    assert worst <= tolerance, f"probabilities differ by up to {worst:.2e}"
    print(f"largest difference {worst:.2e}")
