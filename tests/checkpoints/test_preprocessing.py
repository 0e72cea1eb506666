"""`preprocess_input` and `decode_predictions`."""

import json
import re
import urllib.error
import urllib.request

import keras
import numpy as np
import pytest

import vitkeras


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float32", "float64"])
def test_pixels_become_minus_one_to_one(dtype):
    x = np.array([[0, 51], [204, 255]], dtype)
    y = vitkeras.preprocess_input(x)
    assert isinstance(y, np.ndarray) and y.dtype == np.float32
    np.testing.assert_allclose(y, [[-1, -0.6], [0.6, 1]], rtol=1e-6)
    assert x[1, 1] == 255  # the input is not written to


def test_lists_and_pictures_are_taken():
    image = pytest.importorskip("PIL.Image")
    np.testing.assert_allclose(vitkeras.preprocess_input([0, 255]), [-1, 1])
    picture = image.new("RGB", (5, 3), (0, 255, 51))
    y = vitkeras.preprocess_input(picture)
    assert y.shape == (3, 5, 3)
    np.testing.assert_allclose(y[1, 2], [-1, 1, -0.6], rtol=1e-6)


@pytest.mark.parametrize("dtype", ["uint8", "float16", "bfloat16", "float32"])
def test_backend_tensors_stay_tensors(dtype):
    y = vitkeras.preprocess_input(keras.ops.cast([0, 51, 255], dtype))
    assert keras.ops.is_tensor(y) and keras.backend.standardize_dtype(y.dtype) == "float32"
    np.testing.assert_allclose(keras.ops.convert_to_numpy(y), [-1, -0.6, 1], rtol=1e-6)


def test_it_can_be_part_of_a_functional_model():
    pixels = keras.Input((3, 5, 2), dtype="uint8")
    model = keras.Model(pixels, vitkeras.preprocess_input(pixels))
    x = np.random.default_rng(3).integers(0, 256, size=(1, 3, 5, 2)).astype("uint8")
    np.testing.assert_allclose(keras.ops.convert_to_numpy(model(x)), (x - 127.5) / 127.5, rtol=1e-6)


@pytest.fixture
def names(cache):
    folder = cache / "models/vitkeras/names"
    folder.mkdir(parents=True)
    index = {str(k): [f"n{k:08d}", f"name_{k}"] for k in range(1000)}
    (folder / "imagenet_class_index.json").write_text(json.dumps(index))
    for kind, text in (("ids", "n{:08d}"), ("lemmas", "lemma {}, synonym é")):
        lines = "\n".join(text.format(k) for k in range(21843))
        (folder / f"imagenet21k_wordnet_{kind}.txt").write_text(lines + "\n", encoding="utf-8")
    return folder


def scores(classes, *best):
    preds = np.linspace(0, 0.01, 2 * classes, dtype="float32").reshape(2, classes)
    for row, order in zip(preds, best):
        for rank, k in enumerate(order):
            row[k] = 0.5 - 0.1 * rank
    return preds


def test_imagenet_names(names):
    first, second = vitkeras.decode_predictions(scores(1000, (7, 999, 0), (500, 3, 11)), top=3)
    assert [entry[:2] for entry in first] == [
        ("n00000007", "name_7"),
        ("n00000999", "name_999"),
        ("n00000000", "name_0"),
    ]
    assert [entry[2] for entry in second] == pytest.approx([0.5, 0.4, 0.3])
    assert all(type(score) is float for _, _, score in first)


def test_the_default_is_five(names):
    assert [len(entries) for entries in vitkeras.decode_predictions(scores(1000))] == [5, 5]


def test_imagenet21k_names(names):
    (entry,), _ = vitkeras.decode_predictions(scores(21843, (21842,)), top=1)
    assert entry[:2] == ("n00021842", "lemma 21842, synonym é")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_tensors_and_own_names(dtype):
    preds = keras.ops.cast([[0.25, 0.5, 0.125], [4.0, -2.0, 0.0]], dtype)
    first, second = vitkeras.decode_predictions(preds, top=2, class_names=["rose", "tulip", "iris"])
    assert first == [(1, "tulip", 0.5), (0, "rose", 0.25)]
    assert second == [(0, "rose", 4.0), (2, "iris", 0.0)]


def test_equal_scores_keep_the_order_of_the_classes():
    (entries,) = vitkeras.decode_predictions(np.full((1, 5), 0.2), top=5, class_names=list("abcde"))
    assert [name for _, name, _ in entries] == list(list("abcde"))


@pytest.mark.parametrize(
    "preds, arguments, message",
    [
        (np.ones(1000), {}, "preds must have shape (batch, classes), received (1000,)."),
        (np.ones((2, 1000)), dict(top=0), "top must be in 1...1000, received 0."),
        (np.ones((2, 1000)), dict(top=1001), "top must be in 1...1000, received 1001."),
        (np.ones((2, 7)), {}, "preds must have 1000 or 21843 classes, or come with class_names; received 7."),
        (np.ones((2, 7)), dict(class_names=["a", "b"]), "class_names must hold 7 names, received 2."),
    ],
)
def test_errors(preds, arguments, message):
    arguments = {"top": 1, **arguments}
    with pytest.raises(ValueError, match=re.escape(message)):
        vitkeras.decode_predictions(preds, **arguments)


def test_a_list_of_names_that_is_too_short_is_refused(names):
    (names / "imagenet21k_wordnet_ids.txt").write_text("n1\nn2\n")
    (names / "imagenet21k_wordnet_lemmas.txt").write_text("a\nb\n")
    with pytest.raises(ValueError, match=r"imagenet21k_wordnet_ids\.txt' must hold 21843 lines, received 2\."):
        vitkeras.decode_predictions(scores(21843))


def test_names_that_can_not_be_fetched(monkeypatch, cache):
    def fails(*_, **__):
        raise urllib.error.URLError("no route to host")

    monkeypatch.setattr(urllib.request, "urlopen", fails)
    with pytest.raises(
        ConnectionError,
        match=r"imagenet_class_index\.json \(<urlopen error no route to host>\); on a machine without network",
    ):
        vitkeras.decode_predictions(scores(1000))


@pytest.mark.parametrize("x", [None, "x", {"a": 1}])
def test_what_is_no_image(x):
    with pytest.raises(ValueError, match="x must be an array or tensor of pixels"):
        vitkeras.preprocess_input(x)


@pytest.mark.parametrize(
    "preds, arguments, reason",
    [
        (np.full((1, 3), np.nan), {}, "preds must be finite, received NaN"),
        (np.array([["a", "b", "c"]]), {}, "preds must be numbers, received <U1"),
        (np.ones((1, 3)), {"top": 1.5}, "top must be in 1...3, received 1.5"),
        (np.ones((1, 3)), {"class_names": "abc"}, "class_names must be a sequence of names, received 'abc'"),
        (np.ones((1, 3)), {"class_names": 5}, "class_names must be a sequence of names, received 5"),
    ],
)
def test_scores_that_are_none(preds, arguments, reason):
    with pytest.raises(ValueError, match=reason):
        vitkeras.decode_predictions(preds, **{"top": 1, "class_names": ["a", "b", "c"], **arguments})


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"\xff", b'{"0": "x"}'])
def test_a_damaged_list_of_names(content, cache):
    path = cache / "models" / "vitkeras" / "names" / "imagenet_class_index.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(ValueError, match="imagenet_class_index.json' must hold the ids and names of 1000 classes"):
        vitkeras.decode_predictions(np.ones((1, 1000)))
