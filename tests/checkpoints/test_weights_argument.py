"""`weights=`: published names from the cache, and paths."""

import re
import urllib.error
import urllib.request

import keras
import numpy as np
import pytest

import vitkeras
from vitkeras.checkpoints import find_published
from vitkeras.checkpoints.download import cache_home

# A body narrow enough for small files; every other argument is the variant's own.
BODY = dict(num_layers=2, hidden_dim=48, num_heads=3, mlp_dim=96)


def numpy(x):
    return keras.ops.convert_to_numpy(x)


@pytest.fixture
def published(arrays, save, cache, rng):
    """`published(name, variant)` puts a small file where the download would put it."""

    def published(name, variant, image_size=224):
        entry = find_published(name, variant, image_size)
        patch = int(variant[-2:])
        side = entry.image_size // patch
        arrays["embedding/kernel"] = rng.normal(size=(patch, patch, 3, 48)).astype("float32")
        arrays["Transformer/posembed_input/pos_embedding"] = rng.normal(size=(1, 1 + side * side, 48)).astype("float32")
        width = 48
        arrays["head/kernel"] = rng.normal(size=(width, entry.classes)).astype("float32")
        arrays["head/bias"] = np.zeros(entry.classes, "float32")
        if entry.has_pre_logits:
            arrays["pre_logits/kernel"], arrays["pre_logits/bias"] = np.eye(48, dtype="f4"), np.zeros(48, "float32")
        save(arrays, cache / "models/vitkeras" / entry.path)
        return entry

    return published


def test_a_published_name_is_found_in_the_cache_without_network(published, arrays):
    published("augreg", "vit_ti16")
    model = vitkeras.ViTTi16(weights="augreg", **BODY)
    assert model.input_shape == (None, 224, 224, 3) and model.output_shape == (None, 1000)
    np.testing.assert_array_equal(numpy(model.get_layer("head").kernel), arrays["head/kernel"])


def test_it_is_the_default_of_the_variant(published, arrays):
    published("augreg", "vit_ti16")
    model = vitkeras.ViTTi16(**BODY)
    np.testing.assert_array_equal(numpy(model.get_layer("class_token").token), arrays["cls"])


def test_the_resolution_asked_for_chooses_the_file(published):
    published("augreg", "vit_ti16", image_size=384)
    assert vitkeras.ViTTi16(weights="augreg", input_shape=(384, 384, 3), **BODY).input_shape == (None, 384, 384, 3)


def test_one_file_by_its_name_brings_its_resolution(published):
    entry = published("augreg", "vit_ti16", image_size=384)
    assert vitkeras.ViTTi16(weights=entry.name, **BODY).input_shape == (None, 384, 384, 3)


def test_without_top_the_backbone_of_a_published_file(published, arrays):
    published("imagenet21k", "vit_b32")
    model = vitkeras.ViTB32(weights="imagenet21k", include_top=False, pooling="token", **BODY)
    assert model.output_shape == (None, 48)
    np.testing.assert_array_equal(numpy(model.get_layer("class_token").token), arrays["cls"])


def test_the_21k_originals_bring_pre_logits(published, monkeypatch):
    published("imagenet21k", "vit_b32")
    for classes in (None, 21843):
        model = vitkeras.ViTB32(weights="imagenet21k", classes=classes, **BODY)
        assert model.get_layer("pre_logits").units == 48 and model.output_shape == (None, 21843)


def test_other_classes_drop_the_published_head_with_its_pre_logits(published, arrays):
    published("imagenet21k", "vit_b32")
    model = vitkeras.ViTB32(weights="imagenet21k", classes=5, **BODY)
    assert model.output_shape == (None, 5) and not numpy(model.get_layer("head").kernel).any()
    assert "pre_logits" not in [layer.name for layer in model.layers]
    np.testing.assert_array_equal(numpy(model.get_layer("class_token").token), arrays["cls"])


def test_a_path_of_any_kind(arrays, save, monkeypatch, tmp_path):
    path = save(arrays, "mine.npz")
    arguments = dict(input_shape=(32, 32, 3), classes=7, **BODY)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for weights in (path, str(path), "mine.npz", "./mine.npz", "~/mine.npz"):
        model = vitkeras.ViTTi16(weights=weights, **arguments)
        np.testing.assert_array_equal(numpy(model.get_layer("head").kernel), arrays["head/kernel"])


def test_a_folder_called_like_a_collection_is_not_taken_for_a_file(published, monkeypatch, tmp_path):
    published("augreg", "vit_ti16")
    (tmp_path / "augreg").mkdir()
    monkeypatch.chdir(tmp_path)
    assert vitkeras.ViTTi16(weights="augreg", **BODY).output_shape == (None, 1000)


@pytest.mark.parametrize("weights", ["./none.npz", "/none.npz", "../none.npz", "~/none.npz"])
def test_a_path_of_nothing(weights):
    with pytest.raises(
        FileNotFoundError, match=rf"weights='{re.escape(weights)}' is a path, and there is no such file."
    ):
        vitkeras.ViTTi16(weights=weights, **BODY)


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(
        ValueError, match="weights='augrag' is neither a file nor a name published for vit_ti16; nearest: 'augreg'"
    ):
        vitkeras.ViTTi16(weights="augrag", **BODY)


def test_a_download_that_fails_says_from_where_and_to_where(cache, monkeypatch):
    def fails(*_, **__):
        raise urllib.error.URLError("network is unreachable")

    monkeypatch.setattr(urllib.request, "urlopen", fails)
    entry = find_published("imagenet21k+imagenet2012", "vit_b16", 224)
    with pytest.raises(ConnectionError) as caught:
        vitkeras.ViTB16(**BODY)
    text, target = str(caught.value), cache / "models/vitkeras" / entry.path
    assert f"could not fetch {entry.url} (<urlopen error network is unreachable>)" in text
    assert f"on a machine without network put the file at {target}." in text


def test_the_cache_is_kerass(monkeypatch, tmp_path):
    monkeypatch.setenv("KERAS_HOME", "~/elsewhere")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_home() == str(tmp_path / "elsewhere")
    monkeypatch.delenv("KERAS_HOME")
    assert cache_home() == str(tmp_path / ".keras")
