"""The small JSON files beside weights: read with bounds, checked by type."""

import json
import math
import os

MAX_SETTINGS_BYTES = 2**24  # 21,843 class names take some 2 MB


def read_settings(path, name, marker=None):
    """Reads the JSON object `name` in the folder of the weights file `path`.

    Args:
        path: str, the weights file.
        name: str, such as "config.json".
        marker: str or None; an object without this key belongs to something else and counts as absent.

    Returns:
        dict, empty if there is no such file.

    Raises:
        ValueError: if the file is too large or no JSON object.
    """
    beside = os.path.join(os.path.dirname(path), name)
    if not os.path.isfile(beside):
        return {}
    size = os.path.getsize(beside)
    if size > MAX_SETTINGS_BYTES:
        raise ValueError(f"{beside!r} must have at most {MAX_SETTINGS_BYTES} bytes, received {size}.")
    with open(beside, "rb") as stream:
        try:
            settings = json.loads(stream.read().decode("utf-8"), object_pairs_hook=unique_keys)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{beside!r} is damaged or not JSON ({error}).") from error
    if not isinstance(settings, dict):
        raise ValueError(f"{beside!r} must hold a JSON object, received {type(settings).__name__}.")
    return settings if marker is None or marker in settings else {}


def check_described(path, name, settings, found):
    """Refuses settings that describe another model than the arrays.

    Args:
        path: str, the weights file.
        name: str, of the settings file.
        settings: dict; a key that is absent or null says nothing.
        found: dict of key -> what the arrays tell, or None for nothing.

    Raises:
        ValueError: naming the first key that differs.
    """
    for key, value in found.items():
        said = settings.get(key)
        if None not in (said, value) and (said != value or isinstance(said, bool) != isinstance(value, bool)):
            raise ValueError(f"checkpoint {path!r}: its arrays say {key} {value}, its {name} says {said!r}.")


def unique_keys(pairs):
    """A hook for `json.loads` that refuses an object with the same key twice.

    Raises:
        ValueError: naming the key.
    """
    found = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"it names {key!r} twice")
        found[key] = value
    return found


def normalisation(path, name, values, keys, kernel):
    """Returns (mean, std) as tuples of floats, or (None, None) where they are absent or the original's one half.

    Args:
        path: str, the weights file.
        name: str, of the settings file.
        values: dict, what it says.
        keys: (key of the mean, key of the standard deviation).
        kernel: `Entry` of the first kernel (P, P, C, D), which tells the number of channels, or None.

    Raises:
        ValueError: if one of them is missing, isn't a list of one finite float or one a channel, or a standard
            deviation isn't positive.
    """
    mean, std = (values.get(key) for key in keys)
    if mean is None and std is None:
        return None, None
    counts = {1, kernel.shape[2]} if kernel is not None and len(kernel.shape) == 4 else {1, 3}
    for key, numbers in zip(keys, (mean, std)):
        fits = isinstance(numbers, list) and len(numbers) in counts and all(type(v) in (int, float) for v in numbers)
        if not fits or not all(map(math.isfinite, numbers)):
            raise ValueError(
                f"checkpoint {path!r}: {key} of its {name} must be a list of {' or '.join(map(str, sorted(counts)))} "
                f"finite floats, received {numbers!r}."
            )
    if min(std) <= 0:
        raise ValueError(f"checkpoint {path!r}: {keys[1]} of its {name} must be positive, received {std!r}.")
    if all(value == 0.5 for value in (*mean, *std)):  # -1...1 already
        return None, None
    return tuple(float(v) for v in mean), tuple(float(v) for v in std)
