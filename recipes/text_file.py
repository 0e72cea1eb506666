"""Text files that a command is given: names of classes, label maps."""

import os


def read_text(path, argument):
    """Reads a text file in UTF-8, with or without a byte order mark.

    Args:
        path: str.
        argument: str, what an error calls the file, such as "--labels".

    Returns:
        str.

    Raises:
        ValueError: if there is no such file, or it holds other bytes.

    Example:
        >>> read_text("classes.txt", "--labels")          # doctest: +SKIP
        'ash\\nbeech\\n'
    """
    if not os.path.isfile(path):
        raise ValueError(f"{argument} must be a file that exists, received {path!r}.")
    try:
        with open(path, encoding="utf-8-sig") as file:
            return file.read()
    except UnicodeDecodeError:
        raise ValueError(f"{argument} {path} must be a text file in UTF-8, received other bytes.") from None
