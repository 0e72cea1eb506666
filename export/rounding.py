"""What quantization does to a matrix product, in NumPy: how presets are compared layer by layer without a file.

Legend: R rows (tokens), D inputs, F outputs.
"""

import numpy as np


def round_weights(weights):
    """int8 per output channel, symmetric: (F, D) -> (F, D) on the grid."""
    scale = np.maximum(np.abs(weights).max(axis=1, keepdims=True), 1e-12) / 127
    return np.rint(weights / scale) * scale


def round_rows(x):
    """int8 with a range of each row's own, as dynamic kernels do: (R, D) -> (R, D)."""
    low, high = np.minimum(x.min(axis=1, keepdims=True), 0), np.maximum(x.max(axis=1, keepdims=True), 0)
    return _to_grid(x, low, high)


def round_tensor(x, low, high):
    """int8 in one range for all rows, as static kernels do; it must hold 0."""
    return _to_grid(x, low, high)


def _to_grid(x, low, high):
    scale = np.maximum(high - low, 1e-12) / 255
    zero = np.rint(-low / scale)
    return (np.clip(np.rint(x / scale) + zero, 0, 255) - zero) * scale


def snr_db(exact, rounded):
    """Signal to noise in decibels; infinite if there is no noise."""
    return decibels((exact**2).sum(), ((rounded - exact) ** 2).sum())


def decibels(signal, noise):
    """float, the decibels of two sums of squares; infinite if one is 0."""
    return 10 * float(np.log10(float(signal) / float(noise))) if noise and signal else np.inf
