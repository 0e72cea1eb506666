"""Which patch grid a file has, and what is said when it is larger than the model's."""

import re

import keras
import numpy as np
import pytest

import vitkeras
from vitkeras.checkpoints import PublishedFile, registry
from vitkeras.layers.position_embedding import resize_position_embedding

POSITION = "Transformer/posembed_input/pos_embedding"


@pytest.fixture
def file_of(save, arrays, rng):
    """A file whose position embedding belongs to (h, w) patches."""

    def file_of(grid, name="weights.npz"):
        arrays[POSITION] = rng.normal(size=(1, 1 + grid[0] * grid[1], 48)).astype("float32")
        return save(arrays, name), arrays[POSITION]

    return file_of


def embedding(model):
    return keras.ops.convert_to_numpy(model.get_layer("position_embedding").embedding)


@pytest.mark.parametrize(
    "file_grid, model_grid, given",
    [
        ((2, 2), (2, 2), None),
        ((2, 2), (3, 5), None),
        ((3, 5), (3, 5), None),  # the same number of patches, not a square: the model's own grid
        ((3, 5), (5, 7), (3, 5)),
        ((5, 3), (3, 5), (5, 3)),
        ((4, 4), (2, 8), (4, 4)),
        ((2, 8), (4, 4), (2, 8)),
    ],
    ids=str,
)
def test_the_grid_is_told_or_given_and_resized(file_of, make, file_grid, model_grid, given):
    path, array = file_of(file_grid)
    model = make(image=(16 * model_grid[0], 16 * model_grid[1]))
    vitkeras.load_checkpoint(model, path, position_grid=given)
    np.testing.assert_array_equal(embedding(model), resize_position_embedding(array, file_grid, model_grid))


@pytest.mark.parametrize("file_grid, model_grid", [((3, 5), (5, 7)), ((3, 5), (2, 2)), ((4, 4), (2, 8))], ids=str)
def test_an_ambiguous_grid_is_asked_for(file_of, make, snapshot, file_grid, model_grid):
    path, _ = file_of(file_grid)
    model = make(image=(16 * model_grid[0], 16 * model_grid[1]))
    before, count = snapshot(model), file_grid[0] * file_grid[1]
    message = (
        f"{POSITION!r} holds {count + 1} positions, which may form more than one grid while the model's is {model_grid}"
    )
    with pytest.raises(ValueError, match=re.escape(message) + r": pass position_grid=\(h, w\) for the file's"):
        vitkeras.load_checkpoint(model, path)
    assert snapshot(model) == before


def test_a_given_grid_must_hold_the_files_positions(file_of, make):
    path, _ = file_of((3, 5))
    with pytest.raises(ValueError, match=r"position_grid must hold the 15 positions of the file, received \(3, 7\)"):
        vitkeras.load_checkpoint(make(), path, position_grid=(3, 7))


def test_a_given_grid_must_be_a_pair(file_of, make):
    path, _ = file_of((3, 5))
    with pytest.raises(ValueError, match=r"position_grid must be a positive int or a pair .*, received \(3, 5, 1\)"):
        vitkeras.load_checkpoint(make(), path, position_grid=(3, 5, 1))


# A file tuned at more pixels.


def test_a_larger_file_with_its_head_is_loaded_with_a_note(file_of, make):
    path, _ = file_of((4, 4))
    with pytest.warns(UserWarning) as caught:
        make(image=(32, 48), weights=path)
    (note,) = caught
    assert str(note.message) == (
        f"checkpoint {str(path)!r} was tuned at 64x64 pixels and is loaded at 32x48; the original's ImageNet top-1 "
        "falls by about 9.5 points that way (384 to 224). No file for this size is known: load it at its own, then use "
        "vitkeras.at_resolution and fine-tune."
    )


@pytest.mark.parametrize("grid, model_grid", [((2, 2), (2, 2)), ((2, 2), (3, 5))], ids=str)
def test_nothing_is_said_at_the_same_size_or_above(file_of, make, grid, model_grid, recwarn):
    path, _ = file_of(grid)
    make(image=(16 * model_grid[0], 16 * model_grid[1]), weights=path)
    assert not recwarn.list


def test_nothing_is_said_without_the_head(file_of, make, recwarn):
    path, _ = file_of((4, 4))
    vitkeras.load_checkpoint(make(), path, load_head=False)
    make(include_top=False, weights=path)
    assert not recwarn.list


def published(path, image_size, classes=7):
    return PublishedFile("tuned", "vit_b16", path, image_size, classes)


def test_the_published_file_for_the_size_is_named(file_of, make, monkeypatch):
    entries = (published("tuned/ViT-B_16.npz", 64), published("tuned/ViT-B_16-32.npz", 32))
    monkeypatch.setattr(registry, "PUBLISHED", entries)
    path, _ = file_of((4, 4), "anywhere/ViT-B_16.npz")
    with pytest.warns(UserWarning, match=r"The published file for this size is weights='tuned/ViT-B_16-32'\.$"):
        make(image=(32, 48), weights=path)


def test_through_the_public_function_with_a_published_name(save, arrays, cache, rng):
    """`ViTB16` with the 384-tuned file at 224: the whole way, on a body made narrow so that the file is small."""
    arrays[POSITION] = rng.normal(size=(1, 577, 48)).astype("float32")
    arrays["head/kernel"] = rng.normal(size=(48, 1000)).astype("float32")
    arrays["head/bias"] = np.zeros(1000, "float32")
    save(arrays, cache / "models/vitkeras/imagenet21k+imagenet2012/ViT-B_16.npz")
    body = dict(num_layers=2, hidden_dim=48, num_heads=3, mlp_dim=96)
    name = "imagenet21k+imagenet2012/ViT-B_16"
    with pytest.warns(UserWarning, match="384x384 pixels .* 224x224.*weights='imagenet21k.imagenet2012/ViT-B_16-224'"):
        vitkeras.ViTB16(weights=name, input_shape=(224, 224, 3), **body)
    model = vitkeras.ViTB16(weights=name, **body)
    assert model.input_shape == (None, 384, 384, 3)
    np.testing.assert_array_equal(embedding(model), arrays[POSITION])


@pytest.mark.parametrize(
    "path, classes, image_size, expected",
    [
        ("ViT-B_16.npz", 1000, 224, "imagenet21k+imagenet2012/ViT-B_16-224"),
        ("/data/ViT-L_16.npz", 1000, 256, "imagenet21k+imagenet2012/ViT-L_16-224"),
        ("ViT-B_16.npz", 1000, 192, None),  # smaller than every published file
        ("ViT-B_32.npz", 1000, 224, None),  # published at 384 only
        ("ViT-B_16.npz", 21843, 192, None),
        ("mine.npz", 1000, 224, None),
        ("ViT-B_16.npz", 7, 224, None),
    ],
)
def test_lookup_of_the_file_that_fits(path, classes, image_size, expected):
    source = registry.find_source(path, classes)
    found = source and registry.lower_resolution_file(source, image_size)
    assert (found.name if found else None) == expected


def test_every_augreg_file_at_384_knows_its_224_sibling():
    for entry in registry.PUBLISHED:
        if entry.collection == "augreg" and entry.image_size == 384:
            source = registry.find_source(entry.path, 1000)
            assert source is entry
            assert registry.lower_resolution_file(source, 224).image_size == 224
