"""Optional packages: imported where they are used, and named with their extra when missing."""

import importlib


def require(module, package, purpose, extra="recipes"):
    """Imports an optional module.

    Args:
        module: str, what to import, such as "PIL.Image".
        package: str, its name for people, such as "Pillow".
        purpose: str, what needs it, the subject of the error's sentence.
        extra: str, the extra of this package that installs it. Default "recipes".

    Returns:
        The module.

    Raises:
        ImportError: if it is missing; the message names the extra to install.

    Example:
        >>> require("json", "json", "this example").dumps(1)
        '1'
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f'{purpose} needs {package}: pip install "vitkeras[{extra}]" ({error}).') from error
