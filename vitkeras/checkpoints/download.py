"""Fetching published files into Keras' cache."""

import os
import tempfile
import uuid

import keras

CACHE_SUBDIR = "models/vitkeras"


def cache_home():
    """Returns Keras' cache folder: `KERAS_HOME`, else `~/.keras`, else one below the temporary folder."""
    setting = os.environ.get("KERAS_HOME")
    if setting:
        return os.path.expanduser(setting)
    home = os.path.expanduser("~")
    return os.path.join(home if os.access(home, os.W_OK) else tempfile.gettempdir(), ".keras")


def fetch(url, path):
    """Downloads `url` once and returns the local file.

    The transfer goes to a temporary name and is moved when complete, so a half file is never used.

    Args:
        url: str, http(s) address, quoted.
        path: str, where the file belongs below the cache folder `~/.keras/models/vitkeras`
            (`KERAS_HOME` moves `~/.keras`).

    Returns:
        The local path, str.

    Raises:
        ConnectionError: if the file cannot be fetched; the message says where to put it by hand.

    Example:
        >>> fetch("https://example.org/ViT-B_16.npz", "mine/ViT-B_16.npz")   # doctest: +SKIP
    """
    home = cache_home()
    folder, name = os.path.split(os.path.join(CACHE_SUBDIR, path))
    target = os.path.join(home, folder, name)
    if os.path.isfile(target):
        return target
    # get_file leaves a cache_dir that it cannot write to for the temporary folder; this one fails instead.
    os.makedirs(os.path.dirname(target), exist_ok=True)
    # A name of its own for each process: two that start together must not write into one file.
    partial = f"{name}.{uuid.uuid4().hex[:8]}.part"
    try:
        partial = keras.utils.get_file(partial, origin=url, cache_dir=home, cache_subdir=folder, force_download=True)
    except Exception as error:  # get_file turns every network failure into a bare Exception
        raise ConnectionError(
            f"could not fetch {url} ({error}); on a machine without network put the file at {target}."
        ) from error
    os.replace(partial, target)
    return target
