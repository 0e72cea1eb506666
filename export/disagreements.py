"""The images on which a file and its model give different answers.

Legend: N images, K classes.
"""

from dataclasses import dataclass

import numpy as np

MOST = 12


@dataclass(frozen=True)
class Answer:
    """A class: its index, its name or None, and what the network gives it (a logit or a probability)."""

    index: int
    label: str | None
    score: float


@dataclass(frozen=True, eq=False)
class Disagreement:
    """One image and both answers.

    Attributes:
        position: int, the image's place among those that were compared.
        pixels: uint8 array (H, W, C).
        model: `Answer` of the Keras model.
        file: `Answer` of the file.
    """

    position: int
    pixels: np.ndarray
    model: Answer
    file: Answer

    def as_dict(self):
        """Returns plain values, without the pixels."""
        return {"position": self.position, "model": vars(self.model).copy(), "file": vars(self.file).copy()}


def find_disagreements(images, reference, received, labels=None, pixel_input=True, most=MOST):
    """Finds the first images whose highest outputs differ; ties of the model count as agreement.

    Args:
        images: array (N, H, W, C), as the file takes them.
        reference, received: float arrays (N, K) of the model and of the file.
        labels: None, or K names.
        pixel_input: bool, whether the images are 0...255, else -1...1.
        most: int, how many at most. Default 12.

    Returns:
        list of `Disagreement`.
    """
    best = received.argmax(axis=1)
    rows = np.arange(len(received))
    tie = 1e-6 * max(1, np.abs(reference).max())
    differ = np.flatnonzero(reference[rows, best] < reference.max(axis=1) - tie)
    found = []
    for i in differ[:most]:
        pixels = images[i] if pixel_input else (images[i] + 1) * 127.5
        answers = (_answer(reference[i], labels), _answer(received[i], labels))
        found.append(Disagreement(int(i), np.clip(np.rint(pixels), 0, 255).astype("uint8"), *answers))
    return found


def _answer(outputs, labels):
    index = int(outputs.argmax())
    return Answer(index, labels[index] if labels else None, float(outputs[index]))
