"""Fetching published files into Keras' cache."""

import os

import keras

CACHE_SUBDIR = "models/vitkeras"


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
    """
    folder, name = os.path.split(os.path.join(CACHE_SUBDIR, path))
    target = os.path.join(keras.config.keras_home(), folder, name)
    if os.path.exists(target):
        return target
    try:
        partial = keras.utils.get_file(name + ".part", origin=url, cache_subdir=folder, force_download=True)
    except Exception as error:  # get_file turns every network failure into a bare Exception
        raise ConnectionError(
            f"could not fetch {url} ({error}); on a machine without network put the file at {target}."
        ) from error
    os.replace(partial, target)
    return target
