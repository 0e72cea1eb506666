"""The examples in the docstrings run."""

import contextlib
import doctest
import importlib
import pkgutil

import keras
import numpy as np
import pytest

import vitkeras


def modules():
    for module in pkgutil.walk_packages(vitkeras.__path__, "vitkeras."):
        if not module.name.endswith("__main__"):
            yield module.name
    yield from ("vitkeras.export.tflite", "vitkeras.export.runtime")
    recipes = ("class_map", "loading", "near_duplicates_files", "override", "real_file")
    yield from (f"vitkeras.recipes.{name}" for name in recipes)


@pytest.mark.parametrize("name", sorted(set(modules())))
def test_examples(name, tmp_path, monkeypatch):
    module = importlib.import_module(name)
    monkeypatch.chdir(tmp_path)
    names = {"np": np, "keras": keras, "vitkeras": vitkeras, **vars(vitkeras.layers)}
    if name.startswith("vitkeras.data"):
        import tensorflow as tf

        names |= {"tf": tf, **vars(importlib.import_module("vitkeras.data.image_set")), **vars(vitkeras.data)}
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    finder, runner = doctest.DocTestFinder(exclude_empty=True), doctest.DocTestRunner(optionflags=flags)
    with _without_weights() if name == "vitkeras.models.variants" else contextlib.nullcontext():
        for test in finder.find(module, name, globs={**names, **vars(module)}):
            output = []
            assert not runner.run(test, out=output.append).failed, "".join(output)


def _without_weights():
    """For the named models' examples, which have their full width: gigabytes of weights, described but not drawn.

    `tests/models/test_variants.py` fills, saves and loads a narrower model of each of these functions.
    """
    return keras.StatelessScope(initialize_variables=False)


def test_the_runner_sees_a_wrong_example():
    test = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, 0)
    assert doctest.DocTestRunner(verbose=False).run(test, out=lambda text: None).failed == 1
