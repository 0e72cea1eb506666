"""Checks of the arguments that training and evaluation batches share."""

import numbers

from vitkeras.data.image_set import FOREVER


def check_count(name, value, least):
    """Refuses what is no integer of at least `least`."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or not least <= value <= FOREVER:
        raise ValueError(f"{name} must be an integer >= {least} of at most 64 bits, received {value!r}.")


def check_range(name, value, largest=None):
    """The pair (least, largest) as two floats, or an error."""
    pair = value if isinstance(value, (tuple, list)) else ()
    rule = "0 < least <= largest" + (f" <= {largest:g}" if largest is not None else "")
    if len(pair) != 2 or not 0 < pair[0] <= pair[1] or (largest is not None and pair[1] > largest):
        raise ValueError(f"{name} must be a pair (least, largest) with {rule}, received {value!r}.")
    return tuple(float(bound) for bound in pair)


def image_size_pair(image_size):
    """(height, width) of an int or a pair, or an error."""
    pair = image_size if isinstance(image_size, (tuple, list)) else (image_size, image_size)
    if len(pair) != 2 or not all(isinstance(side, numbers.Integral) and side >= 1 for side in pair):
        raise ValueError(f"image_size must be an integer >= 1 or a pair (height, width), received {image_size!r}.")
    return tuple(int(side) for side in pair)
