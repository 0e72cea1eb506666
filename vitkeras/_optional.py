"""Optional packages: imported where they are used, and named with their extra when missing."""

import importlib


def require(module, extra, purpose):
    """Imports an optional module.

    Args:
        module: str, dotted name, such as "matplotlib.figure".
        extra: str, the extra of this package that installs it, such as "recipes".
        purpose: str, what needs it, the subject of the error's sentence.

    Returns:
        The module.

    Raises:
        ImportError: if it is missing; the message names the extra to install.

    Example:
        >>> require("json", "recipes", "this example").dumps(1)
        '1'
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        raise ImportError(f'{purpose} needs {package}: pip install "vitkeras[{extra}]" ({error}).') from error
