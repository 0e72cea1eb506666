"""Reading every image of a folder once, so that a damaged one is found now and not in the ninth hour."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from vitkeras._optional import require
from vitkeras.data.images import inspect

_MAX_THREADS = 8


def check_images(paths):
    """Decodes image files fully, a few at a time, with a progress bar on a terminal.

    Args:
        paths: sequence of n str.

    Returns:
        (needs_pillow, reasons): bool array (n,), see `images.inspect`; and a list of n, None for a good image or
        str, why it cannot be read.

    Raises:
        ImportError: if Pillow or tqdm is missing.

    Example:
        >>> check_images(["photo.jpg", "notes.jpg"])                         # doctest: +SKIP
        (array([False, False]), [None, 'ValueError: the file is empty'])
    """
    require("PIL.Image", "Pillow", "an image folder")
    tqdm = require("tqdm", "tqdm", "an image folder").tqdm
    pool = ThreadPoolExecutor(min(_MAX_THREADS, os.cpu_count() or 1), thread_name_prefix="image_check")
    try:
        results = pool.map(_check, paths)
        bar = tqdm(results, "checking images", len(paths), unit=" images", leave=False, disable=not sys.stderr.isatty())
        pairs = list(bar)
    finally:
        pool.shutdown(cancel_futures=True)
    return np.array([needs_pillow for needs_pillow, _ in pairs], bool), [reason for _, reason in pairs]


def _check(path):
    try:
        with open(path, "rb") as file:
            return inspect(file.read()), None
    except Exception as error:  # damaged files raise anything; the reason is reported with the file's name
        return False, f"{type(error).__name__}: {error}"
