"""Folders with the weights in several files: exactly what the index says, and nothing outside the folder."""

import json
import re
import shutil

import keras
import numpy as np
import pytest
from layout_files import hugging_face, read_safetensors, timm

import vitkeras
from vitkeras.checkpoints import shards
from vitkeras.checkpoints.open import is_checkpoint

TOLERANCE = 2e-5  # on float32 logits, as for every plain ViT here
FIRST, SECOND, THIRD = (f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3))


@pytest.fixture
def sharded(golden, save_safetensors):
    """A folder of three shards; `sharded(change)` lets `change(table, parts)` spoil it before it is written."""

    def sharded(change=None, source=hugging_face, name="folder"):
        origin = source(golden)
        weights = origin / "model.safetensors" if origin.is_dir() else origin
        arrays = read_safetensors(weights)
        names = sorted(arrays)
        table = {name: (FIRST, SECOND, THIRD)[i % 3] for i, name in enumerate(names)}
        parts = {shard: {n: arrays[n] for n in names if table[n] == shard} for shard in (FIRST, SECOND, THIRD)}
        if change is not None:
            change(table, parts)
        for shard, content in parts.items():
            folder = save_safetensors(content, f"{name}/{shard}").parent
        if origin.is_dir():
            shutil.copy(origin / "config.json", folder)
        index = {"metadata": {"total_size": 0}, "weight_map": table}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
        return folder

    return sharded


def test_shards_are_one_file(sharded, golden, weights_of, assert_close):
    folder = sharded()
    expected = weights_of(vitkeras.from_checkpoint(hugging_face(golden)))
    with np.load(hugging_face(golden) / "io.npz") as io:
        inputs, logits = io["input"], io["logits"]
    assert is_checkpoint(folder)
    for path in (folder, str(folder), folder / "model.safetensors.index.json"):
        model = vitkeras.from_checkpoint(path, classifier_activation=None)
        assert [a.tobytes() for a in weights_of(model)] == [b.tobytes() for b in expected]
        assert_close(model(inputs), logits, atol=TOLERANCE)
    model = vitkeras.ViTTi16(weights=folder, num_layers=2, hidden_dim=48, num_heads=3, mlp_dim=96)
    assert [a.tobytes() for a in weights_of(model)] == [b.tobytes() for b in expected]


def test_shards_of_timm(sharded, golden, weights_of):
    actual = weights_of(vitkeras.from_checkpoint(sharded(source=timm), num_heads=3))
    expected = weights_of(vitkeras.from_checkpoint(timm(golden), num_heads=3))
    assert [a.tobytes() for a in actual] == [b.tobytes() for b in expected]


def test_one_file_wins_over_shards_beside_it(sharded, golden, refused):
    folder = sharded()
    shutil.copy(hugging_face(golden) / "model.safetensors", folder)
    (folder / FIRST).unlink()
    assert vitkeras.from_checkpoint(folder).output_shape == (None, 7)


def test_a_shard_through_a_link(sharded, tmp_path):
    """As in the cache of Hugging Face's hub, whose folders hold links to its store."""
    folder = sharded()
    store = tmp_path / "store"
    store.mkdir()
    for name in (FIRST, "config.json"):
        shutil.move(folder / name, store / "blob")
        (folder / name).symlink_to(store / "blob")
        assert (folder / name).is_symlink()
        if name == FIRST:
            shutil.move(store / "blob", store / "first")
            (folder / name).unlink()
            (folder / name).symlink_to(store / "first")
    assert vitkeras.from_checkpoint(folder).output_shape == (None, 7)


def refuses(folder, message, make, snapshot, error=ValueError):
    model = make(activation="gelu", layer_norm_epsilon=1e-12)
    before = snapshot(model)
    for load in (lambda: vitkeras.load_checkpoint(model, folder), lambda: vitkeras.from_checkpoint(folder)):
        with pytest.raises(error, match=re.escape(message)) as caught:
            load()
        assert "model.safetensors.index.json'" in str(caught.value)
    assert snapshot(model) == before


def test_a_missing_shard_is_named(sharded, make, snapshot):
    folder = sharded()
    (folder / SECOND).unlink()
    message = f"of its arrays in '{SECOND}', which is not there."
    refuses(folder, message, make, snapshot, FileNotFoundError)


def move(name):
    def change(table, parts):
        shard = table[name]
        other = SECOND if shard != SECOND else THIRD
        parts[other][name] = parts[shard].pop(name)

    return change


def drop(name):
    return lambda table, parts: parts[table[name]].pop(name)


def twice(name):
    def change(table, parts):
        for content in parts.values():
            content[name] = parts[table[name]][name]

    return change


def forget(name):
    return lambda table, parts: table.pop(name)


NAME = "classifier.bias"
LIES = {
    "in another shard": (move(NAME), f"has no array '{NAME}', its index says otherwise (in all 1 missing, "),
    "in no shard": (drop(NAME), f"has no array '{NAME}', its index says otherwise (in all 1 missing, 0 unexpected)"),
    "in every shard": (twice(NAME), f"holds the array '{NAME}', its index says otherwise (in all 0 missing, 1 "),
    "not in the index": (forget(NAME), f"holds the array '{NAME}', its index says otherwise (in all 0 missing, 1 "),
}


@pytest.mark.parametrize("change, message", LIES.values(), ids=LIES)
def test_an_index_that_lies(change, message, sharded, make, snapshot):
    refuses(sharded(change), message, make, snapshot)


OUTSIDE = ["../x.safetensors", "/etc/x.safetensors", "a/b.safetensors", "a\\b.safetensors", "..", "", ".x.safetensors"]


@pytest.mark.parametrize("shard", [*OUTSIDE, "x.npz", "x.safetensors\0", "x.safetensors\n", 3, None, ["a.safetensors"]])
def test_a_shard_outside_the_folder(shard, sharded, make, snapshot):
    def change(table, parts):
        table[NAME] = shard

    message = (
        f"array '{NAME}': its shard must be the name of a .safetensors file in the same folder, received {shard!r}"
    )
    refuses(sharded(change), message, make, snapshot)


INDEXES = {
    "empty": ("", "is damaged or no index ("),
    "not UTF-8": (b"\xff", "is damaged or no index ("),
    "deep": ("[" * 99999, "is damaged or no index ("),
    "a list": ("[]", "must hold a weight_map of 1 to 65536 arrays, received NoneType"),
    "no table": ("{}", "must hold a weight_map of 1 to 65536 arrays, received NoneType"),
    "an empty table": ('{"weight_map": {}}', "must hold a weight_map of 1 to 65536 arrays, received 0"),
    "a list of names": ('{"weight_map": ["a"]}', "must hold a weight_map of 1 to 65536 arrays, received list"),
    "twice": ('{"weight_map": {"a": "b.safetensors", "a": "c.safetensors"}}', "it names 'a' twice"),
}


@pytest.mark.parametrize("content, message", INDEXES.values(), ids=INDEXES)
def test_an_index_that_is_none(content, message, sharded, make, snapshot):
    folder = sharded()
    content = content if isinstance(content, bytes) else content.encode()
    (folder / "model.safetensors.index.json").write_bytes(content)
    refuses(folder, message, make, snapshot)


def test_an_index_too_large(sharded, make, snapshot, monkeypatch):
    monkeypatch.setattr(shards, "MAX_INDEX_BYTES", 99)
    refuses(sharded(), "an index must have at most 99 bytes, received ", make, snapshot)


def test_too_many_shards(sharded, make, snapshot, monkeypatch):
    monkeypatch.setattr(shards, "MAX_SHARDS", 2)
    refuses(sharded(), "must have at most 2 shards, received 3.", make, snapshot)


def test_an_absent_index(refused, tmp_path):
    path = tmp_path / "model.safetensors.index.json"
    refused(path, "model.safetensors.index.json' is not a file.", error=FileNotFoundError)


def test_a_damaged_shard_is_named(sharded, make, snapshot):
    folder = sharded()
    (folder / THIRD).write_bytes((folder / THIRD).read_bytes()[:-1])
    with pytest.raises(ValueError, match=re.escape(f"{THIRD}'")):
        vitkeras.from_checkpoint(folder)


def test_a_folder_of_timm(golden, assert_close, tmp_path):
    """As timm writes it for the hub: weights, and settings under `pretrained_cfg`."""
    shutil.copy(timm(golden), tmp_path / "model.safetensors")
    io = golden("timm_vit_32x32_io")
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    settings = {
        "architecture": "vit_tiny_patch16_224",
        "num_classes": 7,
        "global_pool": "token",
        "model_args": {"num_heads": 3, "img_size": [32, 32]},
        "pretrained_cfg": {"input_size": [3, 32, 32], "mean": mean, "std": std, "crop_pct": 0.9},
    }
    (tmp_path / "config.json").write_text(json.dumps(settings))
    model = vitkeras.from_checkpoint(tmp_path, classifier_activation=None)
    ours = ((io["input"] * np.array(std) + np.array(mean)) * 2 - 1).astype("float32")
    assert_close(model(ours), io["logits"], atol=TOLERANCE)
    loaded = vitkeras.load_checkpoint(keras.models.clone_model(model), tmp_path)
    assert_close(loaded(ours), io["logits"], atol=TOLERANCE)
