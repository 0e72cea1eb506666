"""AugReg's levels: each operation against Pillow or NumPy, and everything a pure function of (seed, step)."""

import sys

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageEnhance, ImageOps

from vitkeras.data import Augmentation, train_batches
from vitkeras.data.augment import LEVELS, batch_seed, mix_up, operation_seed
from vitkeras.data.randaugment import RandAugment, affine, contrast, cutout, posterize, rotate, solarize_add

PLAIN = {"crop_area": None, "flip": False}


@pytest.fixture
def operations():
    pytest.importorskip("keras_cv")
    return RandAugment(2, 15).operations


def drawn(sign=1.0, row=0.3, column=0.6):
    return {"sign": tf.constant(sign), "row": tf.constant(row), "column": tf.constant(column)}


def take(batches, count):
    return [tuple(part.numpy() for part in batch) for batch in batches.take(count)]


def same(first, second):
    return all((a == b).all() for x, y in zip(first, second, strict=True) for a, b in zip(x, y))


def as_float(picture):
    return tf.constant(picture, tf.float32)


# M = 15: factor 0.1 + 1.8 x 1.5 of the enhancing operations, 6 bits, threshold 384.
@pytest.mark.parametrize(
    ("name", "pillow", "atol"),
    [
        # Pillow rounds or cuts to whole values, in its own order.
        ("autocontrast", ImageOps.autocontrast, 1),
        ("equalize", ImageOps.equalize, 0),
        ("invert", ImageOps.invert, 0),
        ("posterize", lambda image: ImageOps.posterize(image, 6), 0),
        ("solarize", lambda image: image, 0),
        ("color", lambda image: ImageEnhance.Color(image).enhance(2.8), 2),  # grey itself is rounded: x 1.8
        ("contrast", lambda image: ImageEnhance.Contrast(image).enhance(2.8), 2),
        ("brightness", lambda image: ImageEnhance.Brightness(image).enhance(2.8), 1),
        ("sharpness", lambda image: ImageEnhance.Sharpness(image).enhance(2.8), 2),
    ],
)
def test_operations_equal_pillows(operations, picture, name, pillow, atol):
    got = operations[name](as_float(picture), drawn()).numpy()
    want = np.asarray(pillow(Image.fromarray(picture)), "float32")
    np.testing.assert_allclose(got, want, atol=atol)
    if name != "solarize":
        assert np.abs(want - picture).max() > 2  # the operation does something here


def test_solarize_below_its_range(picture):
    pytest.importorskip("keras_cv")
    got = RandAugment(1, 5).operations["solarize"](as_float(picture), drawn())
    np.testing.assert_array_equal(got, np.asarray(ImageOps.solarize(Image.fromarray(picture), 128), "float32"))
    inverted = RandAugment(1, 0).operations["solarize"](as_float(picture), drawn())
    np.testing.assert_array_equal(inverted, 255 - picture.astype("float32"))


def test_a_flat_channel_survives(operations, picture):
    picture[..., 1] = 77
    for name in ("autocontrast", "equalize"):
        got = operations[name](as_float(picture), drawn()).numpy()
        assert np.isfinite(got).all() and (got[..., 1] == 77).all()


def test_posterize_and_solarize_add(picture):
    image = as_float(picture)
    for bits in (0, 1, 4, 8, 9):
        mask = 256 - 2 ** max(8 - bits, 0)
        np.testing.assert_array_equal(posterize(image, bits), picture & mask)
    want = np.where(picture < 128, np.minimum(picture.astype(int) + 165, 255), picture)
    np.testing.assert_array_equal(solarize_add(image, 165), want)


def test_contrast_of_nothing_is_grey(picture):
    grey = contrast(as_float(picture), 0.0)
    assert len(np.unique(grey)) == 1
    np.testing.assert_allclose(grey[0, 0, 0], np.asarray(Image.fromarray(picture).convert("L")).mean(), atol=1)


def test_turns(picture):
    square = as_float(picture[:23])
    np.testing.assert_array_equal(rotate(square, tf.constant(0.0)), picture[:23])
    # Half a pixel's rounding decides nothing here: right angles about the middle hit pixels.
    for quarter in (1, 2, 3):
        turned = rotate(square, tf.constant(quarter * np.pi / 2, tf.float32))
        np.testing.assert_array_equal(turned, np.rot90(picture[:23], quarter))
    corner = rotate(square, tf.constant(np.pi / 4, tf.float32))[0, 0]
    assert corner.numpy().tolist() == [128, 128, 128]


def test_shifts_and_shears(operations, picture):
    height, width = picture.shape[:2]
    for name, axis, size in (("translate_x", 1, width), ("translate_y", 0, height)):
        for sign in (1.0, -1.0):
            got = operations[name](as_float(picture), drawn(sign)).numpy()
            shift = round(1.5 * 100 / 224 * size)
            want = np.full_like(picture, 128)
            to, source = (slice(None, size - shift), slice(shift, None))[:: 1 if sign > 0 else -1]
            index = [slice(None)] * 2
            index[axis] = to
            origin = list(index)
            origin[axis] = source
            want[tuple(index)] = picture[tuple(origin)]
            np.testing.assert_array_equal(got, want)
    y, x = np.mgrid[0:height, 0:width]
    for name, at_x, at_y in (("shear_x", x + 0.45 * y, y), ("shear_y", x, y + 0.45 * x)):
        got = operations[name](as_float(picture), drawn()).numpy()
        at_x, at_y = np.rint(at_x).astype(int), np.rint(at_y).astype(int)
        inside = (at_x < width) & (at_y < height)
        want = np.where(inside[..., None], picture[np.minimum(at_y, height - 1), np.minimum(at_x, width - 1)], 128)
        assert (got != want).any(-1).mean() < 0.05  # ties between two pixels may fall either way
        assert (got[~inside & (at_x > width) | (at_y > height)] == 128).all()


def test_affine_reads_from_where_it_is_told(picture):
    got = affine(as_float(picture), [1, 0, 3, 0, 1, -2]).numpy()
    np.testing.assert_array_equal(got[2:, :-3], picture[:-2, 3:])
    assert (got[:2] == 128).all() and (got[:, -3:] == 128).all()


def test_cutout(picture):
    # 29 x 23: half sides 2.9 and 2.3 cut down to 2; middles at rows 8 and columns 13.
    got = cutout(as_float(picture), 0.1, tf.constant(0.3), tf.constant(0.6)).numpy()
    want = picture.astype("float32")
    want[6:10, 11:15] = 128
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(cutout(as_float(picture), 0.0, tf.constant(0.3), tf.constant(0.6)), picture)


def test_every_operation_is_drawn_about_equally_often(picture):
    """Operations that write their number show which were drawn; a row of 400 images."""
    pytest.importorskip("keras_cv")
    augment = RandAugment(2, 10)
    assert len(augment.operations) == 16
    augment.operations = {
        name: (lambda image, drawn, number=number: image * 16 + number)
        for number, name in enumerate(augment.operations)
    }
    apply = tf.function(lambda index: augment(tf.zeros((1, 1, 3)), operation_seed(7, index)))
    values = np.array([int(apply(tf.constant(index, tf.int64))[0, 0, 0]) for index in range(800)])
    counts = np.bincount(values // 16, minlength=16) + np.bincount(values % 16, minlength=16)
    assert counts.sum() == 1600 and counts.min() > 60 and counts.max() < 145  # 100 each, sigma 9.7
    assert len(np.unique(values)) > 230  # of 256 pairs: the two draws are independent


def test_levels_are_augregs():
    table = {name: (level.mixup, level.layers, level.magnitude) for name, level in LEVELS.items()}
    assert table == {
        "none": (0, 0, 0),
        "light1": (0, 2, 0),
        "light2": (0.2, 2, 10),
        "medium1": (0.2, 2, 15),
        "medium2": (0.5, 2, 15),
        "strong1": (0.5, 2, 20),
        "strong2": (0.8, 2, 20),
    }


def test_a_resumed_stream_equals_the_uninterrupted_one(numbered):
    pytest.importorskip("keras_cv")
    arguments = {"image_set": numbered, "batch_size": 4, "image_size": (11, 17), "seed": 3, "augment": "strong1"}
    tf.random.set_seed(1)
    whole = take(train_batches(**arguments), 5)
    tf.random.set_seed(2)
    resumed = take(train_batches(**arguments, start_step=2), 3)
    assert same(resumed, whole[2:]) and not same(resumed, whole[:3])
    host = take(train_batches(**arguments, num_hosts=2, host=1), 5)
    assert same(host, [(images[2:], labels[2:]) for images, labels in whole])
    images, labels = whole[0]
    assert images.shape == (4, 11, 17, 3) and images.min() >= -1 and images.max() <= 1
    assert labels.shape == (4, 3)
    plain = take(train_batches(**{**arguments, "augment": Augmentation(mixup=0.5)}), 5)
    assert [(a == b).all() for (_, a), (_, b) in zip(plain, whole)] == [True] * 5  # the same pairs and weights
    assert not same(plain, whole)


def test_mix_up_alone(numbered):
    """Pixels tell the image's number, so that the weight can be read off both images and labels."""
    mixed = take(train_batches(numbered, 6, 4, augment=Augmentation(mixup=0.4), **PLAIN), 40)
    plain = take(train_batches(numbered, 6, 4, **PLAIN), 40)
    weights = []
    for step, ((images, labels), (originals, numbers)) in enumerate(zip(mixed, plain)):
        assert labels.dtype == np.float32 and labels.shape == (6, 3)
        np.testing.assert_allclose(labels.sum(1), 1, atol=1e-6)
        _, one_hot = mix_up(tf.zeros((2, 1)), tf.eye(2), batch_seed(0, step), 0.4)
        weight = float(one_hot[0, 0])
        partners = [1, 0, 3, 2, 5, 4]
        np.testing.assert_allclose(images, weight * originals + (1 - weight) * originals[partners], atol=1e-5)
        targets = np.eye(3)[numbers]
        np.testing.assert_allclose(labels, weight * targets + (1 - weight) * targets[partners], atol=1e-6)
        weights.append(weight)
    assert len(set(weights)) == 40 and min(weights) >= 0.5


@pytest.mark.parametrize("alpha", [0.2, 0.8])
def test_the_weights_are_beta_distributed(alpha):
    stats = pytest.importorskip("scipy.stats")
    draw = tf.function(lambda step: mix_up(tf.zeros((2, 1)), tf.eye(2), batch_seed(5, step), alpha)[1][0, 0])
    weights = np.array([float(draw(tf.constant(step, tf.int64))) for step in range(600)])
    beta = stats.beta(alpha, alpha)
    assert stats.kstest(weights, lambda x: beta.cdf(x) - beta.cdf(1 - x)).pvalue > 0.01
    assert np.isfinite(weights).all()


def test_without_keras_cv_the_extra_is_named(numbered, monkeypatch):
    monkeypatch.setitem(sys.modules, "keras_cv", None)
    with pytest.raises(ImportError, match=r'augment other than none needs keras-cv: pip install "vitkeras\[recipes\]"'):
        train_batches(numbered, 4, 8, augment="light1")
    train_batches(numbered, 4, 8, augment=Augmentation(mixup=0.2))


def test_no_old_keras_comes_along():
    pytest.importorskip("keras_cv")
    assert not {"tf_keras", "keras_core"} & set(sys.modules)


@pytest.mark.parametrize(
    ("augment", "message"),
    [
        ("strong3", "augment must be an Augmentation or one of none, light1, .*, strong2, received 'strong3'"),
        (None, "augment must be an Augmentation or one of .*, received None"),
        (["light1"], r"augment must be an Augmentation or one of .*, received \['light1'\]"),
    ],
)
def test_unknown_levels(numbered, augment, message):
    with pytest.raises(ValueError, match=message):
        train_batches(numbered, 4, 8, augment=augment)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layers": -1}, "layers of an Augmentation must be an integer >= 0, received -1"),
        ({"layers": 1.5}, "layers of an Augmentation must be an integer >= 0, received 1.5"),
        ({"mixup": -0.1}, "mixup of an Augmentation must be a number >= 0, received -0.1"),
        ({"mixup": float("nan")}, "mixup of an Augmentation must be a number >= 0, received nan"),
        ({"magnitude": "9"}, "magnitude of an Augmentation must be a number >= 0, received '9'"),
    ],
)
def test_augmentations_out_of_range(arguments, message):
    with pytest.raises(ValueError, match=message):
        Augmentation(**arguments)


def test_pairs_need_an_even_slice(numbered):
    for batch_size, hosts in ((5, {}), (6, {"num_hosts": 2, "host": 0})):
        with pytest.raises(ValueError, match="batch_size / num_hosts must be even with MixUp, received [53]"):
            train_batches(numbered, batch_size, 4, augment=Augmentation(mixup=0.1), **hosts)
