"""Fetching published files into Keras' cache, resumed where the last try stopped."""

import os
import tempfile

import keras

from vitkeras.checkpoints.cache_lock import cache_lock
from vitkeras.checkpoints.transfer import TransferError, transfer

CACHE_SUBDIR = os.path.join("models", "vitkeras")


def cache_home():
    """Returns Keras' cache folder: `KERAS_HOME`, else `~/.keras`, else one below the temporary folder."""
    setting = os.environ.get("KERAS_HOME")
    if setting:
        return os.path.expanduser(setting)
    home = os.path.expanduser("~")
    return os.path.join(home if os.access(home, os.W_OK) else tempfile.gettempdir(), ".keras")


def fetch(url, path):
    """Downloads `url` once and returns the local file.

    The transfer goes to a temporary name and is moved when complete, so a half file is never used. What an
    interrupted one left is continued if the server still has the very same file, and dropped otherwise. A second
    process that wants the same file waits for the first.

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
    target = os.path.join(cache_home(), CACHE_SUBDIR, *path.split("/"))
    if os.path.isfile(target):
        return target
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with cache_lock(target):
        if not os.path.isfile(target):  # another process may have fetched it meanwhile
            try:
                transfer(url, target, _progress)
            except TransferError as error:
                raise ConnectionError(
                    f"could not fetch {url} ({error}); on a machine without network put the file at {target}."
                ) from error
    return target


def _progress(name, size):
    """Returns a function of the number of bytes that are there, which shows them in Keras' bar."""
    if keras.config.is_interactive_logging_enabled():
        print(f"Downloading {name}")
    bar = keras.utils.Progbar(size, interval=1, unit_name="byte")
    return lambda done: bar.update(done, finalize=done == size)
