"""ImageNet-ReaL's `real.json`: the reassessed labels of the validation images."""

import re

from .text_file import read_json_of

_NUMBER = re.compile(r"ILSVRC2012_val_(\d{8})")


def read_real_labels(path):
    """Reads the file.

    Args:
        path: str, JSON: a list with a list of class numbers for each validation image, in the order of file names.

    Returns:
        list of lists of int.

    Raises:
        ValueError: if the file holds something else.
    """
    real = read_json_of(path, "real_labels")
    if not isinstance(real, list) or not real:
        raise ValueError(f"real_labels {path} must be a list of lists, received {type(real).__name__}.")
    for number, labels in enumerate(real, 1):
        if not isinstance(labels, list) or not all(type(label) is int and 0 <= label < 1000 for label in labels):
            raise ValueError(
                f"real_labels {path} must hold lists of numbers in 0...999, received {labels!r} for image {number}."
            )
    return real


def real_labels_of(file_names, real):
    """The labels of images by the number in their file names, `ILSVRC2012_val_00000001.JPEG` being the first.

    Args:
        file_names: sequence of n str, or None where the data have none.
        real: from `read_real_labels`.

    Returns:
        list of n lists of int.

    Raises:
        ValueError: if a name has no such number, or a number is beyond the file's images.

    Example:
        >>> real_labels_of(["ILSVRC2012_val_00000002.JPEG"], [[7], [3, 4]])
        [[3, 4]]
    """
    if file_names is None:
        raise ValueError(
            "real_labels go by the images' file names, which these data lack; "
            "folder:, csv: and sets of TFDS with the feature file_name have them."
        )
    found = [_NUMBER.search(name) for name in file_names]
    missing = [name for name, match in zip(file_names, found) if match is None]
    if missing:
        raise ValueError(
            f"real_labels need file names such as ILSVRC2012_val_00000001.JPEG, received {missing[0]!r} and "
            f"{len(missing) - 1} others like it."
        )
    numbers = [int(match[1]) for match in found]
    if not 1 <= min(numbers) <= max(numbers) <= len(real):
        raise ValueError(f"real_labels must have an entry for image {max(numbers)}, received {len(real)} entries.")
    return [real[number - 1] for number in numbers]
