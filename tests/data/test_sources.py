"""open_dataset's own arguments, the digits, and TensorFlow Datasets without a network."""

import importlib
import sys

import numpy as np
import pytest
import tensorflow as tf

from vitkeras.data import open_dataset, raw_images


@pytest.mark.parametrize(
    "spec", ["", "flowers", "zip:flowers.zip", "folder:", "tfds:", "folder", "digits:", "digits:x", None, 3]
)
def test_unknown_sources_list_the_known_ones(spec):
    with pytest.raises(
        ValueError, match="data must be folder:PATH, csv:PATH, tfds:NAME, tfrecord:GLOB, mock:HxWxK or digits, received"
    ) as error:
        open_dataset(spec)
    assert repr(spec) in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"on_bad_image": "ignore"}, "on_bad_image must be 'refuse' or 'skip', received 'ignore'"),
        ({"test_fraction": 0}, "test_fraction must be between 0 and 1, both excluded, received 0"),
        ({"test_fraction": 1.0}, "test_fraction must be between 0 and 1, both excluded, received 1.0"),
        ({"test_fraction": "0.2"}, "test_fraction must be between 0 and 1, both excluded, received '0.2'"),
        ({"seed": -1}, "seed must be an integer >= 0, received -1"),
        ({"seed": 0.5}, "seed must be an integer >= 0, received 0.5"),
    ],
)
def test_arguments_out_of_range(arguments, message):
    with pytest.raises(ValueError, match=message):
        open_dataset("digits", **arguments)


def test_tensorflow_missing_names_the_extra(monkeypatch):
    from vitkeras import _tensorflow

    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "tensorflow", None)
        with pytest.raises(ImportError, match=r'need TensorFlow: pip install "vitkeras\[tf-cpu\]"'):
            importlib.reload(_tensorflow)
        patch.undo()
        patch.setattr("keras.backend.backend", lambda: "jax")
        with pytest.raises(ImportError, match="need KERAS_BACKEND=tensorflow, received 'jax'"):
            importlib.reload(_tensorflow)
    assert importlib.reload(_tensorflow).tf is tf


def test_digits():
    from sklearn.datasets import load_digits

    splits = open_dataset("digits")
    assert splits.name == "digits" and splits.class_names == tuple("0123456789")
    assert (splits.train.num_examples, splits.test.num_examples) == (1437, 360)
    whole = np.bincount(load_digits().target)
    np.testing.assert_allclose(np.bincount(splits.test.labels), whole * 360 / 1797, atol=1)
    np.testing.assert_array_equal(np.bincount(splits.train.labels) + np.bincount(splits.test.labels), whole)
    parts = [raw_images(part, 8) for part in (splits.train, splits.test)]
    images, labels = (np.concatenate(part) for part in zip(*parts))
    assert images.shape == (1797, 8, 8, 3) and (images.min(), images.max()) == (0, 255)
    assert (images[..., 0] == images[..., 1]).all() and (images[..., 0] == images[..., 2]).all()

    def rows(values, targets):
        return sorted(map(tuple, np.column_stack([values.reshape(1797, 64), targets]).astype(int).tolist()))

    assert rows(np.rint(load_digits().images * 255 / 16), load_digits().target) == rows(images[..., 0], labels)
    again = open_dataset("digits", test_fraction=0.5, seed=9)  # the split is fixed
    np.testing.assert_array_equal(raw_images(again.test, 8)[0], parts[1][0])


def test_digits_without_scikit_learn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match=r'data digits needs scikit-learn: pip install "vitkeras\[recipes\]"'):
        open_dataset("digits")


def test_tfds_missing_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    with pytest.raises(ImportError, match=r'data tfds:mnist needs tensorflow-datasets: pip install "vitkeras\[recip'):
        open_dataset("tfds:mnist")


def test_every_listed_source_is_opened_by_its_own_reader(monkeypatch):
    from vitkeras._data_sources import SOURCES
    from vitkeras.data import DatasetSplits, sources

    splits = DatasetSplits("train", "test", ("a", "b"), "one")
    for scheme, spec in SOURCES.items():
        with monkeypatch.context() as patch:
            patch.setattr(sources, f"open_{scheme}", lambda *_: splits)
            assert sources._open(spec, "refuse", 0.2, 0) is splits
