import io

import numpy as np
import pytest
from PIL import Image

from vitkeras import data
from vitkeras.data.perceptual_hash import FREQUENCIES, SIDE, VIEWS, hash_views, unpacked


def scene(seed, size=(97, 131)):
    """A made-up picture with structure at many scales, whose hash is its own."""
    rng = np.random.default_rng(seed)
    layers = [rng.normal(size=(n, n, 3)) * 70 / np.sqrt(n) for n in (2, 3, 5, 9, 17)]
    upscaled = [
        np.stack(
            [np.asarray(Image.fromarray(c.astype("float32")).resize(size[::-1], Image.BICUBIC)) for c in x.T], axis=-1
        )
        for x in layers
    ]
    return Image.fromarray(np.clip(128 + 2 * sum(upscaled), 0, 255).astype("uint8"))


def recompressed(image, quality=40):
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=quality)
    return Image.open(io.BytesIO(stream.getvalue()))


def cropped(image, *cuts):
    """Without these shares of the width and height: left, top, right, bottom."""
    width, height = image.size
    left, top, right, bottom = cuts
    return image.crop((left * width, top * height, (1 - right) * width, (1 - bottom) * height))


COPIES = {
    "resized": lambda image: image.resize((211, 89), Image.BILINEAR),
    "recompressed": recompressed,
    "mirrored": lambda image: recompressed(image.transpose(Image.FLIP_LEFT_RIGHT)),
    "brighter": lambda image: image.point(lambda value: int(value * 0.9) + 20),
    "middle": lambda image: cropped(image, 0.1, 0.1, 0.1, 0.1),
    "corner": lambda image: recompressed(cropped(image, 0.1, 0.0, 0.0, 0.1)),
    "grey": lambda image: image.convert("L"),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Folders `train` with 29 pictures and `test` with a copy of each kind, then 5 others."""
    root = tmp_path_factory.mktemp("pictures")
    for part in ("train", "test"):
        for name in ("ash", "elm"):
            (root / part / name).mkdir(parents=True)
    for i in range(29):
        scene(i).save(root / "train" / ("ash" if i % 2 else "elm") / f"{i:02d}.png")
    for i, copy in enumerate(COPIES.values()):
        copy(scene(i)).save(root / "test" / "ash" / f"{i:02d}.png")
    for i in range(5):
        scene(100 + i).save(root / "test" / "elm" / f"{i:02d}.png")
    return root


def test_a_hash_calculated_by_hand():
    across = np.cos(np.pi * (np.arange(SIDE) + 0.5) * 3 / SIDE)  # the basis of frequency 3, odd: mirroring negates it
    down = np.cos(np.pi * (np.arange(SIDE) + 0.5) * 2 / SIDE)
    picture = 128 + 40 * across[None, :] - 30 * down[:, None] + 20 * np.outer(down, across)
    places = {tuple(pair): k for k, pair in enumerate(FREQUENCIES.tolist())}
    assert len(places) == 64 and (0, 0) not in places and tuple(FREQUENCIES[0]) == (0, 1)
    whole, mirrored = hash_views(picture[None])[0, 0].tolist()
    assert whole == (1 << places[0, 3]) + (1 << places[2, 3])  # (2, 0) is negative, all others are 0
    assert mirrored == 0
    assert hash_views(256 - picture[None])[0, 0].tolist() == [
        1 << places[2, 0],
        (1 << places[0, 3]) + (1 << places[2, 3]) + (1 << places[2, 0]),
    ]
    assert not hash_views(np.full((1, SIDE, SIDE), 77.0)).any()


def test_the_mirrored_hash_is_that_of_the_mirrored_picture():
    pictures = np.random.default_rng(0).uniform(0, 255, (5, SIDE, SIDE))
    hashes, mirrored = hash_views(pictures), hash_views(pictures[:, :, ::-1])
    np.testing.assert_array_equal(hashes[:, 0], mirrored[:, 0, ::-1])
    assert hashes.shape == (5, len(VIEWS), 2) and (hashes[:, 0, 0] != hashes[:, 0, 1]).all()


def test_products_count_bits():
    hashes = np.array([0b1011, 0b0001, 2**63], "uint64")
    products = unpacked(hashes) @ unpacked(hashes).T
    np.testing.assert_array_equal((64 - products) / 2, [[0, 2, 4], [2, 0, 2], [4, 2, 0]])


def test_copies_are_found_and_others_are_not(made):
    splits = data.open_dataset(f"folder:{made}")
    (hashes, labels), (others, _) = data.perceptual_hashes(splits.train), data.perceptual_hashes(splits.test)
    np.testing.assert_array_equal(labels, splits.train.labels)
    pairs = data.near_duplicates(hashes, others)
    found = {
        (splits.train.paths[i][-6:], splits.test.paths[j][-10:]): bool(flag)
        for i, j, flag in zip(pairs.first, pairs.second, pairs.mirrored)
    }
    assert found == {(f"{i:02d}.png", f"ash/{i:02d}.png"): kind == "mirrored" for i, kind in enumerate(COPIES)}
    assert pairs.cosine is None and (np.diff(pairs.distance) >= 0).all() and pairs.distance.max() <= 8
    strict = data.near_duplicates(hashes, others, max_distance=0)
    assert 0 < len(strict) < len(pairs) and not strict.distance.any()


def test_every_pair_is_looked_at(monkeypatch):
    monkeypatch.setattr("vitkeras.data.duplicates._ROWS", 13)
    rng = np.random.default_rng(1)
    a = rng.integers(0, 2**64, (41, 2, 2), "uint64")  # several blocks of rows and a rest
    b = rng.integers(0, 2**64, (53, 2, 2), "uint64")
    b[51, 1, 1] = a[40, 0, 0] ^ np.uint64(0b111)  # a mirrored crop of b is the whole of a
    a[0, 1, 0] = b[1, 0, 0]  # a crop of a is the whole of b
    pairs = data.near_duplicates(a, b, max_distance=3)
    assert [*zip(pairs.first, pairs.second, pairs.distance, pairs.mirrored)] == [(0, 1, 0, 0), (40, 51, 3, 1)]
    assert len(data.near_duplicates(a, b, max_distance=2)) == 1


def test_features_find_pairs_too():
    a = np.arange(3, dtype="uint64")[:, None, None] * np.ones((1, 2, 2), "uint64")
    b = ~np.zeros((2, 2, 2), "uint64")
    x, y = np.array([[1.0, 0, 0], [3, 4, 0], [0, 0, 2]]), np.array([[0.0, 1, 0], [5, 0, 0]])
    pairs = data.near_duplicates(a, b, 0, x, y, min_cosine=0.6)
    assert [*zip(pairs.first, pairs.second)] == [(1, 0), (1, 1), (0, 1)]
    np.testing.assert_allclose(pairs.cosine, [0.8, 0.6, 1.0], rtol=1e-6)
    np.testing.assert_array_equal(pairs.distance, [63, 63, 64])


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"max_distance": 32}, "max_distance must be an int in 0...31, received 32."),
        (
            {"hashes": np.zeros((3, 7))},
            r"hashes must be uint64 of shape \(images, views, 2\), received float64 \(3, 7\).",
        ),
        ({"other_features": None}, "features and other_features must be given together, received one of them."),
        ({"min_cosine": 0.0}, "min_cosine must be above 0 and at most 1, received 0.0."),
        ({"features": np.ones((2, 5))}, r"features must be of shape \(3, features\), received \(2, 5\)."),
        ({"features": np.ones((3, 4))}, "other_features must have 4 columns as features, received 5."),
        ({"features": np.eye(3, 5) - np.eye(3, 5)[:1]}, "features must be finite and not all 0, received 1 of 3 exam"),
    ],
)
def test_errors(changes, message):
    good = {"hashes": np.ones((3, 7, 2), "uint64"), "other_hashes": ~np.ones((2, 7, 2), "uint64")}
    good |= {"features": np.ones((3, 5)), "other_features": np.ones((2, 5)), "max_distance": 8, "min_cosine": 0.9}
    assert len(data.near_duplicates(**good)) == 6
    with pytest.raises(ValueError, match=message):
        data.near_duplicates(**{**good, **changes})


def test_too_many_pairs_are_refused():
    with pytest.raises(ValueError, match="max_distance 8 must leave at most 1,000,000 pairs, received more; be stric"):
        data.near_duplicates(np.zeros((1009, 1, 2), "uint64"), np.zeros((1013, 1, 2), "uint64"))
    with pytest.raises(ValueError, match="min_cosine 0.1 must leave at most 1,000,000 pairs, received more; be stri"):
        data.near_duplicates(
            *(np.zeros((1009, 1, 2), "uint64"), ~np.zeros((1013, 1, 2), "uint64"), 0),
            *(np.ones((1009, 3)), np.ones((1013, 3)), 0.1),
        )


def test_nothing_held_out(made):
    whole = data.open_dataset(f"folder:{made / 'train'}", test_fraction=None)
    assert whole.train.num_examples == whole.test.num_examples == 29
    assert data.open_dataset(f"folder:{made}", test_fraction=None).test.num_examples == 12
