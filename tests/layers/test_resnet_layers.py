"""Standardised convolution, GroupNorm and the bottleneck unit against NumPy float64."""

import keras
import ml_dtypes
import numpy as np
import numpy_resnet as reference
import pytest
from backends import randomise

from vitkeras import layers


def numpy(x):
    return keras.ops.convert_to_numpy(x)


def built(layer, x, scale=0.3):
    layer.build(x.shape)
    return randomise(layer, scale=scale)


# Stride 2 on even and on odd sides: for a 3 x 3 kernel the padding is (0, 1) and (1, 1), for 7 x 7 (2, 3) and (3, 3).
@pytest.mark.parametrize("sides", [(10, 14), (11, 13), (10, 13)])
@pytest.mark.parametrize("kernel_size, strides", [(1, 1), (1, 2), (3, 1), (3, 2), (7, 2), ((3, 5), (2, 3))])
def test_std_conv(sides, kernel_size, strides, rng, assert_close, whole):
    x = rng.normal(size=(2, *sides, 5)).astype("float32")
    layer = built(layers.StdConv(13, kernel_size, strides), x)
    assert_close(whole(layer)(x), reference.std_conv(x, numpy(layer.kernel), layer.strides), atol=5e-5)


def test_padding_before_instead_of_after_would_fail_that_test(rng, assert_close):
    x = rng.normal(size=(2, 10, 14, 5)).astype("float32")
    layer = built(layers.StdConv(13, 3, 2), x)
    mirrored = reference.std_conv(x[:, ::-1, ::-1], numpy(layer.kernel)[::-1, ::-1], (2, 2))[:, ::-1, ::-1]
    with pytest.raises(AssertionError, match="max abs difference"):
        assert_close(layer(x), mirrored, atol=0.1)


def test_std_conv_starts_with_the_deviation_of_its_fan_in():
    layer = layers.StdConv(211, (3, 5))
    layer.build((None, 10, 14, 31))
    kernel = numpy(layer.kernel)
    assert abs(kernel.mean()) < 1e-3 and kernel.std() == pytest.approx((3 * 5 * 31) ** -0.5, rel=0.02)
    assert [w.path.rpartition("/")[2] for w in layer.weights] == ["kernel"]  # no bias


@pytest.mark.parametrize("deviation", [1e-7, 1e-5, 1e-3])
def test_the_epsilon_of_std_conv_is_outside_the_root(deviation, rng, assert_close):
    x = rng.normal(size=(2, 5, 7, 3)).astype("float32")
    layer = layers.StdConv(13, 3)
    layer(x)
    kernel = rng.normal(0, deviation, layer.kernel.shape).astype("float32")
    layer.kernel.assign(kernel)
    # The deviation that the layer reaches: 0.01 for kernels of 1e-7, a half for 1e-5.
    expected = kernel.std((0, 1, 2)) / (kernel.std((0, 1, 2)) + 1e-5)
    assert_close(numpy(layer.standardised_kernel()).std((0, 1, 2)), expected, atol=1e-5)
    assert_close(layer(x), reference.std_conv(x, kernel), atol=5e-5)
    if deviation == 1e-5:  # inside the root, 1e-5 would leave 0.003 of it
        inside = (kernel - kernel.mean((0, 1, 2))) / np.sqrt(kernel.var((0, 1, 2)) + 1e-5)
        with pytest.raises(AssertionError, match="max abs difference"):
            assert_close(layer.standardised_kernel(), inside, atol=1e-2)


def test_a_constant_kernel_gives_zero_and_no_nan(rng):
    layer = layers.StdConv(13, 3)
    x = rng.normal(size=(2, 5, 7, 3)).astype("float32")
    layer(x)
    layer.kernel.assign(np.full(layer.kernel.shape, 0.25))
    assert not numpy(layer(x)).any()


def test_the_kernel_is_standardised_in_float32_under_mixed_precision(rng, assert_close):
    x = rng.normal(size=(2, 5, 7, 3)).astype("float32")
    layer = layers.StdConv(13, 3, dtype="mixed_bfloat16")
    layer(x)
    kernel = 8 + rng.normal(0, 0.01, layer.kernel.shape).astype("float32")  # bfloat16 has steps of 0.03 at 8
    layer.kernel.assign(kernel)
    standardised = layer.standardised_kernel()
    assert keras.backend.standardize_dtype(standardised.dtype) == "float32"
    assert_close(standardised, reference.standardise(kernel), atol=2e-3)  # float32 steps at 8, in deviations of 0.01
    rounded = reference.standardise(kernel.astype(ml_dtypes.bfloat16).astype("float64"))
    with pytest.raises(AssertionError, match="max abs difference"):
        assert_close(rounded, reference.standardise(kernel), atol=0.5)


@pytest.mark.parametrize("groups, epsilon", [(1, 1e-6), (3, 1e-6), (33, 1e-6), (3, 0.5)])
def test_group_norm(groups, epsilon, rng, assert_close):
    x = rng.normal(2, 3, size=(2, 5, 7, 33)).astype("float32")
    layer = built(layers.GroupNorm(groups, epsilon), x)
    expected = reference.group_norm(x, numpy(layer.scale), numpy(layer.bias), groups, epsilon)
    assert_close(layer(x), expected, atol=5e-6)


def test_group_norm_of_small_variance(rng, assert_close):
    # Variance 1e-6, that of the epsilon inside the root: values of deviation 1 / sqrt(2), not 1 nor 0.03.
    x = rng.normal(0, 1e-3, size=(2, 11, 13, 64)).astype("float32")
    y = numpy(layers.GroupNorm()(x))
    assert_close(y, reference.group_norm(x, 1, 0), atol=5e-6)
    assert y.std() == pytest.approx(2**-0.5, rel=0.02)


def test_group_norm_reads_consecutive_channels_as_a_group(rng):
    x = rng.normal(size=(1, 5, 7, 12)).astype("float32")
    layer = layers.GroupNorm(groups=3)
    before = numpy(layer(x))
    x[..., 4] *= 5  # channel 4 lies in the second group of four
    changed = np.abs(numpy(layer(x)) - before).max((0, 1, 2)) > 1e-4
    assert np.flatnonzero(changed).tolist() == [4, 5, 6, 7]


def test_group_norm_statistics_are_float32_under_mixed_precision(rng, assert_close):
    x = 256 + 2.0 * rng.integers(0, 8, size=(2, 5, 7, 12))  # exact in bfloat16, whose squares are not
    y = layers.GroupNorm(3, dtype="mixed_bfloat16")(keras.ops.cast(x, "bfloat16"))
    assert_close(keras.ops.cast(y, "float32"), reference.group_norm(x, 1, 0, 3), atol=0.01)  # rounding of the output


@pytest.mark.parametrize("given", ["zeros", keras.initializers.Constant(0.5)], ids=["name", "object"])
def test_group_norm_keeps_its_scale_initializer_when_saved(given, tmp_path):
    image = keras.Input((5, 7, 12))
    model = keras.Model(image, layers.GroupNorm(3, scale_initializer=given)(image))
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras").layers[-1]
    fresh = type(again).from_config(again.get_config())
    fresh.build((None, 5, 7, 12))
    np.testing.assert_array_equal(numpy(fresh.scale), np.full(12, 0.0 if given == "zeros" else 0.5))


def unit_arrays(unit):
    """A unit's weights in the original's names."""
    arrays = {}
    for part in ("1", "2", "3", "_proj"):
        if getattr(unit, f"conv{part}") is not None:
            arrays[f"unit/conv{part}/kernel"] = numpy(getattr(unit, f"conv{part}").kernel)
            norm = getattr(unit, f"gn{part}")
            arrays |= {f"unit/gn{part}/scale": numpy(norm.scale), f"unit/gn{part}/bias": numpy(norm.bias)}
    return arrays


@pytest.mark.parametrize("channels, strides", [(256, 1), (5, 1), (256, 2), (5, 2)])
def test_residual_unit(channels, strides, rng, assert_close, whole):
    x = rng.normal(size=(2, 10, 7, channels)).astype("float32")
    unit = built(layers.ResidualUnit(64, strides), x)
    assert (unit.conv_proj is None) == (channels == 256 and strides == 1)
    assert_close(whole(unit)(x), reference.residual_unit(x, unit_arrays(unit), "unit", strides), atol=2e-5)


def test_a_new_unit_is_the_relu_of_its_shortcut(rng, assert_close, whole):
    x = rng.normal(size=(2, 5, 7, 128)).astype("float32")
    unit = layers.ResidualUnit(32)
    unit.build(x.shape)
    assert_close(whole(unit)(x), reference.relu(x), atol=0)
    unit = layers.ResidualUnit(32, strides=2)
    unit.build(x.shape)
    y = whole(unit)(x)
    assert_close(y, keras.ops.relu(whole(unit.gn_proj)(whole(unit.conv_proj)(x))), atol=1e-6)
    assert not numpy(unit.gn3.scale).any() and (numpy(unit.gn_proj.scale) == 1).all()


def average_pool(x, stride):
    """SAME windows; padding does not count."""
    return np.nanmean(reference.windows(x, (stride, stride), (stride, stride), np.nan), axis=(3, 4))


@pytest.mark.parametrize("strides", [1, 2])
def test_residual_unit_with_axial_attention(strides, rng, assert_close, whole):
    x = rng.normal(size=(2, 5, 6, 3)).astype("float32")
    unit = built(layers.ResidualUnit(64, strides, attention_heads=4), x, scale=0.1)
    y = reference.relu(numpy(whole(unit.gn1)(whole(unit.conv1)(x))))
    y = reference.relu(numpy(whole(unit.gn2)(whole(unit.conv2)(y))))
    y = numpy(whole(unit.gn3)(whole(unit.conv3)(average_pool(y, strides).astype("float32"))))
    expected = reference.relu(y + numpy(whole(unit.gn_proj)(whole(unit.conv_proj)(x))))
    assert isinstance(unit.conv2, layers.AxialAttention) and unit.conv2.num_heads == 4
    assert_close(whole(unit)(x), expected, atol=2e-5)


def test_a_unit_for_maps_of_any_size(rng, assert_close, whole):
    unit = layers.ResidualUnit(32, strides=2)
    assert tuple(unit(keras.Input((None, None, 3))).shape) == (None, None, None, 128)
    randomise(unit)
    x = rng.normal(size=(1, 5, 6, 3)).astype("float32")
    assert_close(whole(unit)(x), reference.residual_unit(x, unit_arrays(unit), "unit", 2), atol=2e-5)
