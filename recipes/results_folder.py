"""The folder that a command without training writes its results to."""

import contextlib
import os

from .workdir import make_folder


@contextlib.contextmanager
def results_folder(folder, names=(), argument="--workdir"):
    """Makes a folder before the work whose results it gets; if the work fails, folders made for it go again.

    Args:
        folder: str.
        names: names of the files to come, none of which may be a folder.
        argument: str, what an error calls the folder.

    Raises:
        ValueError: if the folder can't be written, or holds a folder of such a name.

    Example:
        >>> with results_folder("runs/twins", ["near_duplicates.json"]):          # doctest: +SKIP
        ...     search()
    """
    made, path = [], os.path.abspath(folder)
    while not os.path.lexists(path):
        made.append(path)
        path = os.path.dirname(path)
    try:
        make_folder(folder, argument)
        for name in names:
            if os.path.isdir(os.path.join(folder, name)):
                raise ValueError(f"{argument} {folder} must not hold a folder {name}, which will be a file.")
        yield
    except BaseException:
        for path in made:  # the innermost first; one that holds something stays
            if os.path.isdir(path) and not os.listdir(path):
                os.rmdir(path)
        raise
