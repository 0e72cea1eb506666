"""Ranges of activations, measured on images in LiteRT.

The quantizer's own calibration is a moving average that starts at the first image.

Legend: N images, T tensors.
"""

from dataclasses import dataclass, field

import numpy as np

from .activations import watched

METHODS = ("min_max", "percentile", "mse")
BINS = 2048
PERCENTILE = 99.99  # kept of each tensor's values, half of the rest cut off at either end
LEVELS = 255  # steps of an int8 range


@dataclass
class Statistics:
    """What is known of one tensor: its extremes over all images and how its values are distributed between them."""

    low: float = np.inf
    high: float = -np.inf
    counts: np.ndarray = field(default_factory=lambda: np.zeros(BINS, "int64"))

    def see_extremes(self, values):
        """Widens the extremes."""
        self.low, self.high = min(self.low, float(values.min())), max(self.high, float(values.max()))

    def see_values(self, values):
        """Counts values, once the extremes are known."""
        width = (self.high - self.low) or 1.0
        places = ((values.ravel() - self.low) * (BINS / width)).astype("int32")
        self.counts += np.bincount(np.minimum(places, BINS - 1), minlength=BINS)

    def range(self, method="min_max"):
        """The range to quantize to; it always holds 0.

        Args:
            method: "min_max" (default); "percentile": without the 0.01 % furthest out; "mse": the one with the least
                squared error of rounding and clipping together.

        Returns:
            (low, high), floats.
        """
        low, high = self.low, self.high
        if method == "percentile":
            low, high = self._percentile()
        elif method == "mse":
            low, high = self._least_squares()
        return min(low, 0.0), max(high, 0.0)

    def _centres(self):
        return self.low + (np.arange(BINS) + 0.5) * (self.high - self.low) / BINS

    def _percentile(self):
        share = np.cumsum(self.counts) / self.counts.sum()
        cut = (1 - PERCENTILE / 100) / 2
        inside = np.flatnonzero((share > cut) & (share - self.counts / self.counts.sum() < 1 - cut))
        centres = self._centres()
        return centres[inside[0]], centres[inside[-1]]

    def _least_squares(self):
        """One end after the other is drawn in while the error falls."""
        used = np.flatnonzero(self.counts)
        values, counts = self._centres()[used], self.counts[used]
        low, high = min(self.low, 0.0), max(self.high, 0.0)
        for _ in range(3):
            lows = [low * share for share in np.linspace(0.2, 1, 33)] if low < 0 else [0.0]
            low = min(lows, key=lambda end: _error(values, counts, end, high))
            highs = [high * share for share in np.linspace(0.2, 1, 33)] if high > 0 else [0.0]
            high = min(highs, key=lambda end: _error(values, counts, low, end))
        return low, high


def _error(values, counts, low, high):
    """Squared error of rounding to the int8 grid of a range and clipping to it."""
    if high <= low:
        return np.inf
    scale = (high - low) / LEVELS
    zero = np.rint(-low / scale)
    rounded = (np.clip(np.rint(values / scale) + zero, 0, LEVELS) - zero) * scale
    return float((counts * (rounded - values) ** 2).sum())


def collect(path, tensors, images, counted=(), num_threads=2, progress=None):
    """Runs images through a float file and watches some of its tensors.

    Args:
        path: str, float32 `.tflite` file.
        tensors: iterable of str, names of float tensors (T).
        images: array (N, H, W, C), as the file takes them.
        counted: iterable of str, those of them whose values a second pass counts between their extremes, as
            "percentile" and "mse" need. Default none.
        num_threads: int >= 1. Default 2.
        progress: None, or a function that wraps an iterable, such as tqdm.

    Returns:
        dict of name -> `Statistics`.
    """
    found = {name: Statistics() for name in tensors}
    for names, see in ((list(found), "see_extremes"), (list(counted), "see_values")):
        if not names:
            continue
        with watched(path, names, num_threads) as run:
            for image in progress(images) if progress else images:
                for name, values in run(image).items():
                    getattr(found[name], see)(values)
    return found
