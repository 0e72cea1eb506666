"""Text files that a command is given or writes: names of classes, label maps, tables."""

import csv
import io
import json
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


def read_json_of(path, argument):
    """What a JSON file holds.

    Args:
        path, argument: as of `read_text`.

    Raises:
        ValueError: if there is no such file, or it holds something else.

    Example:
        >>> read_json_of("real.json", "real_labels")      # doctest: +SKIP
        [[65], [970, 795]]
    """
    text = read_text(path, argument)
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"{argument} {path} must be a JSON file, received other text ({error}).") from error


def csv_text(columns, rows):
    """A table as the text of a CSV file, under a line of column names.

    Example:
        >>> csv_text(("class", "count"), [("ash", 3)])
        'class,count\\nash,3\\n'
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return stream.getvalue()
