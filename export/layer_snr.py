"""Signal to difference of each product in a quantized file, against the float file on the same images."""

import numpy as np

from .activations import watched
from .operators import read_operators
from .rounding import decibels
from .unseen import seen_by_gelu

IMAGES = 4


def layer_snr(float_path, path, images, num_threads=2):
    """Compares two files of one graph layer by layer; what a layer loses includes what those before it lost.

    Of values before a GELU only what it sees counts.

    Args:
        float_path, path: str, the float32 file and the quantized one.
        images: array (N, H, W, C); the first four are used.
        num_threads: int >= 1. Default 2.

    Returns:
        tuple of (layer name, decibels), in the order of the graph; layers that a converter fused away are missing.
    """
    operators = read_operators(float_path)
    names = [operator.output for operator in operators]
    before_gelu = {operator.output for operator in operators if operator.before_gelu}
    sums = {}  # of an image's activations nothing else is kept: for a ViT-B they are 100 MB
    with watched(float_path, names, num_threads) as run_float, watched(path, names, num_threads) as run:
        for image in images[:IMAGES]:
            exact, rounded = run_float(image), run(image)
            for name in rounded:
                x, y = exact[name].astype("float64"), rounded[name].astype("float64")
                if name in before_gelu:
                    x, y = seen_by_gelu(x), seen_by_gelu(y)
                sums[name] = sums.get(name, 0) + np.array([np.sum(x * x), np.sum((y - x) ** 2)])
    return tuple((o.label, decibels(*sums[o.output])) for o in operators if o.output in sums)
