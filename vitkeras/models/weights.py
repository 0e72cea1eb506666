"""What `weights=` means: the path of a file, a published name, or an address."""

import hashlib
import os
from urllib.parse import unquote, urlsplit

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
        FileNotFoundError: for a path of no file.
    """
    if not isinstance(weights, str) or _is_address(weights) or os.path.isfile(os.path.expanduser(weights)):
        return None
    try:
        return find_published(weights, variant, image_size)
    except ValueError:
        if weights.startswith((os.sep, "./", "../", "~")):
            raise FileNotFoundError(f"weights={weights!r} is a path, and there is no such file.") from None
        raise


def load_weights(model, weights, include_top=True, **kwargs):
    """Loads a path, an address or a `PublishedFile` into `model`, the head too if `include_top`.

    `kwargs` are `load_checkpoint`'s own, such as `input_mean`.
    """
    if hasattr(weights, "url"):
        path = fetch(weights.url, weights.path)
    elif isinstance(weights, str) and _is_address(weights):
        path = fetch(weights, _cached_name(weights))
    else:
        path = os.path.expanduser(os.fspath(weights))
    return load_checkpoint(model, path, load_head=include_top, **kwargs)


def _is_address(weights):
    return weights.startswith(("http://", "https://"))


def _cached_name(url):
    """One folder an address, so that files of one name from two servers are not taken for each other."""
    return f"addresses/{hashlib.sha256(url.encode()).hexdigest()[:16]}/{os.path.basename(unquote(urlsplit(url).path))}"
