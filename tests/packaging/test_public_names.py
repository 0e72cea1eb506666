import importlib
import inspect
from pathlib import Path

import pytest

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "public_names.txt"
ROOMS = ("", ".analysis", ".checkpoints", ".data", ".evaluation", ".export", ".layers", ".models", ".training")


def public_names():
    for room in ROOMS:
        module = importlib.import_module("vitkeras" + room)
        assert len(set(module.__all__)) == len(module.__all__)
        for name in sorted(module.__all__):
            assert hasattr(module, name), f"{module.__name__}.__all__ lists {name}, which does not exist"
            yield f"vitkeras{room}.{name}"


def test_public_names_are_the_listed_ones():
    listed, found = GOLDEN.read_text().split(), list(public_names())
    advice = "a change of public names needs a line in CHANGELOG.md and in tests/golden/public_names.txt"
    assert sorted(found) == sorted(listed), advice


@pytest.mark.parametrize("name", GOLDEN.read_text().split())
def test_each_has_a_docstring(name):
    module, _, attribute = name.rpartition(".")
    value = getattr(importlib.import_module(module), attribute)
    if callable(value) or inspect.ismodule(value):
        assert value.__doc__ and len(value.__doc__.splitlines()[0]) > 10
