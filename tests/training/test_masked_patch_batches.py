"""Masked-patch prediction: what becomes of which patch, and what has to be predicted."""

import numpy as np
import pytest
import tensorflow as tf
from masked_patch_cases import TARGETS, H, N, P, Q, W, dataset, first, images

from vitkeras.training import MaskedPatchPrediction, masked_patch_batches
from vitkeras.training.masked_patch_batches import corruption_counts, draw_corruption
from vitkeras.training.patch_targets import patch_targets

# What becomes of which patch


@pytest.mark.parametrize(
    "patches, rate, counts",
    [
        (196, 0.5, (78, 10, 10)),
        (196, 0.15, (23, 3, 3)),
        (64, 0.5, (26, 3, 3)),
        (33, 0.5, (13, 2, 1)),
        (2, 0.1, (1, 0, 0)),
    ],
)
def test_counts_are_80_10_and_10_percent_of_the_corrupted(patches, rate, counts):
    assert corruption_counts(patches, rate) == counts
    assert sum(counts) == max(1, round(rate * patches))
    for index in range(5):
        sources, positions = (x.numpy() for x in draw_corruption(1, tf.constant(index), patches, rate))
        own = np.arange(patches)
        masked, replaced, kept = np.split(positions, np.cumsum(counts)[:2])
        assert len(set(positions)) == len(positions) == sum(counts)
        assert (sources[masked] == -1).all() and (sources == -1).sum() == counts[0]
        assert (sources[replaced] != replaced).all() and (sources[replaced] >= 0).all()
        assert ((sources != own) & (sources >= 0)).sum() == counts[1]
        assert (sources[kept] == kept).all() and len(kept) == counts[2]
        untouched = np.setdiff1d(own, positions)
        assert (sources[untouched] == untouched).all()


def test_every_patch_is_as_likely_and_every_other_one_replaces_it():
    patches, draws = 13, 4000

    @tf.function  # an eager loop of so many draws takes minutes
    def draw():
        spec = tf.TensorSpec((patches,), tf.int32)
        return tf.map_fn(lambda i: draw_corruption(5, i, patches)[0], tf.range(draws), fn_output_signature=spec)

    rows = draw().numpy()
    masked, replaced, _ = corruption_counts(patches)
    share = (rows == -1).mean(axis=0)
    np.testing.assert_allclose(share, masked / patches, atol=4 * np.sqrt(0.25 / draws))
    pairs = [(p, s) for row in rows for p, s in enumerate(row) if s not in (-1, p)]
    counts = np.zeros((patches, patches))
    np.add.at(counts, tuple(np.transpose(pairs)), 1)
    expected = draws * replaced / patches / (patches - 1)
    assert (np.diag(counts) == 0).all()
    off = counts[~np.eye(patches, dtype=bool)]
    assert np.abs(off - expected).max() < 5 * np.sqrt(expected)


def test_masks_are_a_function_of_seed_and_global_index_alone():
    one = dataset(seed=11)
    late = dataset(seed=11, start_step=3)
    halves = [dataset(seed=11, batch=3, start_step=3, num_hosts=2, host=host) for host in range(2)]
    sources = first(one, 3)[0]["sources"]
    np.testing.assert_array_equal(first(late)[0]["sources"], sources)
    np.testing.assert_array_equal(np.concatenate([first(half)[0]["sources"] for half in halves]), sources)
    smaller = dataset(seed=11, batch=2)  # the same examples in other batches
    np.testing.assert_array_equal(first(smaller, 10)[0]["sources"], sources[2:4])
    assert len({row.tobytes() for row in sources}) == 6
    assert (first(dataset(seed=12), 3)[0]["sources"] != sources).any(axis=1).all()
    assert (first(one, 2)[0]["sources"] != sources).any(axis=1).all()


# What has to be predicted


def numpy_targets(image, target):
    """Patch by patch, pixel by pixel."""
    found = []
    for top in range(0, H, P):
        for left in range(0, W, Q):
            patch = image[top : top + P, left : left + Q].astype("float64")
            if target == "pixels":
                found.append(patch.reshape(-1))
                continue
            cells = [(0, P, 0, Q)]
            if target == "color_4x4":
                cells = [(r * P / 4, (r + 1) * P / 4, c * Q / 4, (c + 1) * Q / 4) for r in range(4) for c in range(4)]
            classes = []
            for y0, y1, x0, x1 in cells:
                color, area = np.zeros(3), 0.0
                for y in range(P):
                    for x in range(Q):
                        part = max(0, min(y + 1, y1) - max(y, y0)) * max(0, min(x + 1, x1) - max(x, x0))
                        color, area = color + part * patch[y, x], area + part
                red, green, blue = (int((v + 1) / 2 * 8) for v in color / area)
                classes.append(64 * red + 8 * green + blue)
            found.append(classes[0] if target == "mean_color" else classes)
    return np.array(found)


@pytest.mark.parametrize("target", TARGETS)
def test_targets_equal_numpy(target):
    x = images(2)
    y = patch_targets(tf.constant(x), (P, Q), target).numpy()
    assert y.shape == {"mean_color": (2, N), "color_4x4": (2, N, 16), "pixels": (2, N, P * Q * 3)}[target]
    for image, found in zip(x, y):
        np.testing.assert_array_equal(found, numpy_targets(image, target).astype(found.dtype))


def test_a_16_pixel_patch_is_downsized_by_means_of_4_by_4_and_white_is_the_last_class():
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, (1, 16, 16, 3)).astype("float32")
    means = x.reshape(4, 4, 4, 4, 3).mean(axis=(1, 3)).reshape(16, 3)
    levels = np.floor((means + 1) * 4).astype(int)
    y = patch_targets(tf.constant(x), (16, 16), "color_4x4").numpy()
    np.testing.assert_array_equal(y[0, 0], levels @ [64, 8, 1])
    for value, color in ((1.0, 511), (-1.0, 0), (0.0, 292)):
        flat = tf.fill((1, 7, 5, 3), value)
        assert patch_targets(flat, (7, 5), "mean_color").numpy().tolist() == [[color]]
        assert set(patch_targets(flat, (7, 5), "color_4x4").numpy().ravel()) == {color}


@pytest.mark.parametrize("target", TARGETS)
def test_batches_hold_the_targets_of_the_corrupted_patches_in_order(target):
    inputs, targets = first(dataset(target, rate=0.15))
    assert inputs["positions"].shape == (6, 5)
    for image, positions, found in zip(inputs["image"], inputs["positions"], targets):
        expected = numpy_targets(image, target)[positions]
        np.testing.assert_array_equal(found, expected.astype(found.dtype))


def test_weights_of_evaluation_batches_pass():
    x = tf.data.Dataset.from_tensors((images(2), np.zeros(2, "int32"), np.array([1.0, 0.0], "float32")))
    _, _, weights = next(iter(masked_patch_batches(x, (P, Q))))
    assert weights.numpy().tolist() == [1.0, 0.0]


def test_refused_arguments():
    with pytest.raises(ValueError, match=r"rate must be in \(0, 1\], received 0"):
        dataset(rate=0)
    with pytest.raises(ValueError, match=r"an image must have at least 2 patches, received 1"):
        corruption_counts(1)
    with pytest.raises(ValueError, match=r"target must be one of \('mean_color', .* received 'colour'"):
        dataset("colour")
    with pytest.raises(ValueError, match=r"target must be one of \('mean_color', .* received 'colour'"):
        MaskedPatchPrediction("colour")
    with pytest.raises(ValueError, match="seed must be an int in"):
        dataset(seed=-1)
    x = tf.data.Dataset.from_tensors((images(2), np.zeros(2)))
    with pytest.raises(ValueError, match="image width must be a multiple of the patch width 7, received 55"):
        masked_patch_batches(x, 7)
    with pytest.raises(ValueError, match="images .* of static size, received"):
        masked_patch_batches(tf.data.Dataset.from_tensor_slices((images(5), np.zeros(5))).batch(2), 7)
    grey = tf.data.Dataset.from_tensors((np.zeros((2, 7, 14, 1), "float32"), np.zeros(2)))
    with pytest.raises(ValueError, match="'mean_color' is a colour of 3 channels, received images of 1; use 'pixels'"):
        masked_patch_batches(grey, 7)
    assert first(masked_patch_batches(grey, 7, "pixels"))[1].shape == (2, 1, 49)
