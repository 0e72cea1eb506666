"""What the caller says of a model, for the file's metadata and card."""

FIELDS = ("name", "description", "version", "author", "license", "training_data")


def check_about(about, model_name):
    """Returns a dict of the `FIELDS` that are known: the caller's, and defaults for name and version.

    Args:
        about: None, or dict of some of `FIELDS` -> str.
        model_name: str.

    Raises:
        ValueError: for an unknown field, or a value that is no text.
    """
    if about is not None and not isinstance(about, dict):
        raise ValueError(f"about must be a dict of text, received {about!r}.")
    about = dict(about or {})
    unknown = sorted(set(map(str, about)) - set(FIELDS))
    if unknown:
        raise ValueError(f"about takes the fields {', '.join(FIELDS)}, received {unknown[0]!r}.")
    empty = [field for field, value in about.items() if not isinstance(value, str) or not value.strip()]
    if empty:
        raise ValueError(f"about must hold text for {empty[0]!r}, received {about[empty[0]]!r}.")
    return {"name": model_name, "version": "1", **about}
