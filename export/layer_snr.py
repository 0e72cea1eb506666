"""Signal to difference of each product in a quantized file, against the float file on the same images."""

import numpy as np

from .activations import watched
from .operators import read_operators
from .rounding import snr_db

IMAGES = 4


def layer_snr(float_path, path, images, num_threads=2):
    """Compares two files of one graph layer by layer; what a layer loses includes what those before it lost.

    Args:
        float_path, path: str, the float32 file and the quantized one.
        images: array (N, H, W, C); the first four are used.
        num_threads: int >= 1. Default 2.

    Returns:
        tuple of (layer name, decibels), in the order of the graph; layers that a converter fused away are missing.
    """
    operators = read_operators(float_path)
    names = [operator.output for operator in operators]
    exact, rounded = {}, {}
    with watched(float_path, names, num_threads) as run_float, watched(path, names, num_threads) as run:
        for image in images[:IMAGES]:
            for found, values in ((exact, run_float(image)), (rounded, run(image))):
                for name, value in values.items():
                    found.setdefault(name, []).append(value)
    pairs = [
        (o.label, np.array(exact[o.output]), np.array(rounded[o.output])) for o in operators if o.output in rounded
    ]
    return tuple((label, float(snr_db(x, y))) for label, x, y in pairs)
