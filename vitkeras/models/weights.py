"""What `weights=` means: the path of a file, a published name, or an address."""

import os

from vitkeras.checkpoints.download import fetch
from vitkeras.checkpoints.load import load_checkpoint
from vitkeras.checkpoints.registry import find_published


def find_weights(weights, variant, image_size):
    """Returns the `PublishedFile` that `weights` names, or None if it is a path or an address.

    Args:
        weights: str or path-like.
        variant: str, such as "vit_b16".
        image_size: int or None, the resolution asked for.

    Raises:
        ValueError: for an unknown name; the nearest are given.
    """
    if not isinstance(weights, str) or os.path.exists(weights) or weights.startswith(("http://", "https://")):
        return None
    try:
        return find_published(weights, variant, image_size)
    except ValueError:
        if weights.startswith((os.sep, "./", "../", "~")):
            raise FileNotFoundError(f"weights={weights!r} is a path, and there is no such file.") from None
        raise


def load_weights(model, weights, include_top=True):
    """Loads a path, an address or a `PublishedFile` into `model`, the head too if `include_top`."""
    if hasattr(weights, "url"):
        path = fetch(weights.url, weights.path)
    elif isinstance(weights, str) and weights.startswith(("http://", "https://")):
        path = fetch(weights, os.path.basename(weights))
    else:
        path = os.path.expanduser(os.fspath(weights))
    return load_checkpoint(model, path, load_head=include_top)
