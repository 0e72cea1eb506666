"""Resizing a position embedding: the original's numbers, Pillow's bicubic, and properties of both."""

import numpy as np
import pytest

from vitkeras.layers.position_embedding import resize_position_embedding

GOLDEN_CASES = [(a, b, kind) for a, b in ((4, 6), (7, 12), (14, 24), (5, 5)) for kind in ("tok", "notok")]


@pytest.mark.parametrize("old, new, kind", GOLDEN_CASES)
def test_equals_the_originals(old, new, kind, golden, assert_close):
    arrays = golden("posembed_golden")
    key = f"{old}to{new}_{kind}"
    resized = resize_position_embedding(arrays[f"{key}_in"], (old, old), (new, new), int(kind == "tok"))
    assert_close(resized, arrays[f"{key}_out"], atol=1e-6)


def test_no_golden_pair_is_left_out(golden):
    assert {f"{a}to{b}_{kind}_in" for a, b, kind in GOLDEN_CASES} == {
        k for k in golden("posembed_golden") if "_in" in k
    }


def test_half_pixel_centres_would_fail(golden, assert_close):
    arrays = golden("posembed_golden")
    other = resize_position_embedding(arrays["14to24_tok_in"], (14, 14), (24, 24), method="bicubic")
    with pytest.raises(AssertionError, match="max abs difference"):
        assert_close(other, arrays["14to24_tok_out"], atol=1e-3)


def align_corners(grid, new):
    """Bilinear interpolation of (h, w, D), point by point."""
    out = np.empty((*new, grid.shape[-1]))
    for i in range(new[0]):
        for j in range(new[1]):
            y, x = (k * (old - 1) / max(n - 1, 1) for k, old, n in zip((i, j), grid.shape, new))
            top, left = (min(int(v), old - 2) for v, old in zip((y, x), grid.shape))
            v, u = y - top, x - left
            cell = grid[top : top + 2, left : left + 2]
            out[i, j] = (1 - v) * ((1 - u) * cell[0, 0] + u * cell[0, 1]) + v * ((1 - u) * cell[1, 0] + u * cell[1, 1])
    return out


# 16 -> 30, 32 -> 16 and 48 -> 24 are sizes at which scipy.ndimage.zoom zeroes an edge: not a thing to copy.
@pytest.mark.parametrize("old, new", [((3, 5), (7, 11)), ((7, 3), (2, 13)), ((2, 3), (5, 1)), ((16, 32), (30, 16))])
def test_rectangular_grids_keep_their_axes(old, new, rng, assert_close):
    embedding = rng.normal(size=(1, 2 + old[0] * old[1], 4))
    resized = resize_position_embedding(embedding, old, new, num_prefix_tokens=2)
    expected = align_corners(embedding[0, 2:].reshape(*old, 4), new).reshape(1, -1, 4)
    assert_close(resized[:, 2:], expected, atol=1e-6)


@pytest.mark.parametrize("method", ["bilinear", "bicubic"])
@pytest.mark.parametrize("prefix", [0, 1, 3])
def test_prefix_tokens_are_copied(method, prefix, rng):
    embedding = rng.normal(size=(1, prefix + 15, 4)).astype("float32")
    resized = resize_position_embedding(embedding, (3, 5), (7, 11), prefix, method)
    assert resized.shape == (1, prefix + 77, 4) and resized.dtype == np.float32
    np.testing.assert_array_equal(resized[:, :prefix], embedding[:, :prefix])


@pytest.mark.parametrize("method", ["bilinear", "bicubic"])
def test_the_same_grid_is_the_identity_bit_for_bit(method, rng):
    embedding = rng.normal(size=(1, 16, 4)).astype("float32")
    np.testing.assert_array_equal(resize_position_embedding(embedding, (3, 5), (3, 5), 1, method), embedding)


def test_corners_stay_corners(rng):
    embedding = rng.normal(size=(1, 15, 4)).astype("float32")
    old, new = embedding.reshape(3, 5, 4), resize_position_embedding(embedding, (3, 5), (7, 11), 0).reshape(7, 11, 4)
    np.testing.assert_array_equal(new[[0, 0, -1, -1], [0, -1, 0, -1]], old[[0, 0, -1, -1], [0, -1, 0, -1]])


@pytest.mark.parametrize("old, new", [((3, 5), (7, 11)), ((11, 7), (5, 3))])
def test_linear_ramps_stay_linear(old, new, assert_close):
    def ramp(grid):
        y, x = np.meshgrid(*(np.linspace(0, 1, n) for n in grid), indexing="ij")
        return np.stack([y, x, 2 * y - 3 * x + 1], -1).reshape(1, -1, 3)

    assert_close(resize_position_embedding(ramp(old), old, new, 0), ramp(new), atol=1e-6)


@pytest.mark.parametrize("method", ["bilinear", "bicubic"])
@pytest.mark.parametrize("old, new", [((3, 5), (7, 11)), ((13, 17), (5, 7)), ((2, 3), (1, 1))])
def test_constants_stay_constant(method, old, new, assert_close):
    embedding = np.full((1, old[0] * old[1], 2), 0.75)
    assert_close(
        resize_position_embedding(embedding, old, new, 0, method), np.full((1, new[0] * new[1], 2), 0.75), 1e-6
    )


@pytest.mark.parametrize(
    "old, new", [((7, 11), (13, 17)), ((24, 24), (14, 14)), ((17, 13), (5, 7)), ((5, 23), (11, 7))]
)
def test_bicubic_equals_pillows_with_its_antialias(old, new, rng, assert_close):
    image = pytest.importorskip("PIL.Image")
    plane = rng.normal(size=old).astype("float32")
    expected = np.asarray(image.fromarray(plane, mode=None).resize((new[1], new[0]), image.Resampling.BICUBIC))
    resized = resize_position_embedding(plane.reshape(1, -1, 1), old, new, 0, "bicubic")
    assert_close(resized.reshape(new), expected, atol=2e-6)


def test_bicubic_without_antialias_would_fail_when_shrinking(rng, assert_close):
    plane = rng.normal(size=(24, 24)).astype("float32")
    resized = resize_position_embedding(plane.reshape(1, -1, 1), (24, 24), (8, 8), 0, "bicubic").reshape(8, 8)
    with pytest.raises(AssertionError, match="max abs difference"):
        assert_close(resized, plane[1::3, 1::3], atol=0.1)  # cubic at the exact centre of a pixel is that pixel


def test_float16_input_gives_float32():
    assert resize_position_embedding(np.ones((1, 7, 5), "float16"), (2, 3), (3, 5)).dtype == np.float32
    assert resize_position_embedding(np.ones((1, 7, 5), "float16"), (2, 3), (2, 3)).dtype == np.float32
