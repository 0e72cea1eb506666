"""Typed overrides of frozen configurations: `--set section.key=value`."""

import ast
import dataclasses
import difflib
import types
import typing


def override(config, assignments):
    """Applies `section.key=value` texts to a frozen configuration.

    Args:
        config: a configuration dataclass.
        assignments: iterable of str, such as "optimizer.learning_rate=0.03". Values are Python literals;
            text needs no quotes.

    Returns:
        A new configuration.

    Raises:
        ValueError: for text without "=", an unknown key (the nearest is given), or a value of another type.

    Example:
        >>> from vitkeras.recipes.config import FinetuneConfig
        >>> override(FinetuneConfig(), ["train.batch_size=64"]).train.batch_size
        64
    """
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals:
            raise ValueError(f"--set takes section.key=value, received {assignment!r}.")
        config = _replace(config, key.strip(), key.strip().split("."), text.strip())
    return config


def _replace(config, key, path, text):
    names = [f.name for f in dataclasses.fields(config)]
    if path[0] not in names:
        nearest = difflib.get_close_matches(path[0], names, n=1, cutoff=0)[0]
        raise ValueError(f"--set {key}: no field {path[0]!r}; nearest: {nearest!r} of {', '.join(names)}.")
    value = getattr(config, path[0])
    if dataclasses.is_dataclass(value):
        if len(path) == 1:
            raise ValueError(f"--set {key}: is a section; set one of its fields, such as {key}.{_first(value)}.")
        return dataclasses.replace(config, **{path[0]: _replace(value, key, path[1:], text)})
    if len(path) > 1:
        raise ValueError(f"--set {key}: {path[0]!r} has no fields.")
    kind = typing.get_type_hints(type(config))[path[0]]
    return dataclasses.replace(config, **{path[0]: _parse(key, kind, text)})


def _first(section):
    return dataclasses.fields(section)[0].name


def _parse(key, kind, text):
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        value = {"true": True, "false": False, "none": None}.get(text.lower(), text)
    kinds = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    for candidate in sorted(kinds, key=lambda k: k is not types.NoneType):  # "none" is a word only where it must be
        fits, converted = _fit(candidate, value, text)
        if fits:
            return converted
    raise ValueError(f"--set {key} must be {_name(kind)}, received {text!r}.")


def _fit(kind, value, text):
    """Whether `value` is of `kind`, and the value in that type."""
    if kind is types.NoneType:
        return value is None, None
    if typing.get_origin(kind) is tuple:
        kinds = typing.get_args(kind)
        if isinstance(value, (tuple, list)) and kinds[1:] == (Ellipsis,):
            kinds = kinds[:1] * len(value)
        if not isinstance(value, (tuple, list)) or len(value) != len(kinds):
            return False, None
        parts = [_fit(k, v, text) for k, v in zip(kinds, value)]
        return all(fits for fits, _ in parts), tuple(v for _, v in parts)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return True, float(value)
    if kind is str:
        return value is not None or text == "none", value if isinstance(value, str) else text
    return type(value) is kind, value


def _name(kind):
    text = str(kind).replace("NoneType", "none").replace("None", "none").replace(" | ", " or ")
    if isinstance(kind, type) and typing.get_origin(kind) is None:
        return kind.__name__
    if "tuple" not in text:
        return text
    example = "('a', 'b') or ('a',)" if "str, ..." in text else "(1, 2) or (1,)" if "..." in text else "(1, 2)"
    return f"{text}, such as {example}"


def as_dict(config):
    """Returns the configuration as nested dicts of plain values, for JSON."""
    return dataclasses.asdict(config)


def defaults_of(config):
    """Returns the defaults of a configuration's kind as `as_dict` does: what a field is that an older file lacks."""
    return as_dict(type(config)())
