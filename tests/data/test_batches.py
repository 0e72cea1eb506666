"""Training batches are a pure function of (seed, step); evaluation counts every image once."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from vitkeras import preprocess_input
from vitkeras.data import eval_batches, open_dataset, raw_images, train_batches
from vitkeras.data.augment import draw_crop, example_seeds

PLAIN = {"crop_area": None, "flip": False}


def take(batches, count):
    return [tuple(part.numpy() for part in batch) for batch in batches.take(count)]


def which(images):
    """Numbers of the images of the `numbered` set."""
    return np.rint((images[:, 0, 0, 0] * 127.5 + 127.5) / 10).astype(int).tolist()


def order(image_set, count, **options):
    return sum((which(images) for images, _ in take(train_batches(image_set, 1, 4, **PLAIN, **options), count)), [])


def same(first, second):
    return len(first) == len(second) and all((a == b).all() for x, y in zip(first, second) for a, b in zip(x, y))


@pytest.fixture
def files(make_folder):
    """Seven JPEGs and six PNGs in training: both decoders."""
    names = [f"train/a/{i}.jpg" for i in range(7)] + [f"train/b/{i}.png" for i in range(6)]
    return open_dataset(f"folder:{make_folder(dict.fromkeys([*names, 'test/a/0.jpg']))}").train


def test_shapes_types_and_range(files):
    batches = train_batches(files, 5, (11, 17))
    assert batches.element_spec == (tf.TensorSpec((5, 11, 17, 3), tf.float32), tf.TensorSpec((5,), tf.int32))
    images, labels = take(batches, 1)[0]
    assert images.shape == (5, 11, 17, 3) and set(labels) <= {0, 1}
    assert -1 <= images.min() < -0.5 and 0.5 < images.max() <= 1


def test_every_epoch_holds_every_image_once_in_its_own_order(numbered):
    numbers = order(numbered, 13 * 5)
    epochs = [tuple(numbers[13 * e : 13 * e + 13]) for e in range(5)]
    assert all(sorted(epoch) == list(range(13)) for epoch in epochs)
    assert len(set(epochs)) == 5


def test_orders_do_not_repeat_after_256_epochs(numbered):
    # tf.random.experimental.index_shuffle takes its seeds modulo 256.
    first = order(numbered, 13)
    assert order(numbered, 13, start_step=13 * 256) != first and order(numbered, 13, seed=256) != first


def test_labels_stay_with_their_images(numbered):
    for images, labels in take(train_batches(numbered, 5, 4, **PLAIN), 8):
        assert [number % 3 for number in which(images)] == labels.tolist()


@pytest.mark.parametrize("start_step", [1, 2, 3, 4, 11])
def test_a_resumed_stream_equals_the_uninterrupted_one(files, start_step):
    # 13 images in batches of 5: epochs end inside batches 2, 5, 7, ...
    uninterrupted = take(train_batches(files, 5, (11, 17), seed=3), 15)
    resumed = take(train_batches(files, 5, (11, 17), seed=3, start_step=start_step), 15 - start_step)
    assert same(resumed, uninterrupted[start_step:])
    assert not same(resumed, uninterrupted[: 15 - start_step])  # the comparison can fail


def test_batches_larger_than_the_set(numbered):
    (images, _), (more, more_labels) = take(train_batches(numbered, 29, 4, **PLAIN), 2)
    numbers = which(images) + which(more)
    assert sorted(numbers[:13]) == sorted(numbers[13:26]) == sorted(numbers[26:39]) == list(range(13))
    assert same(take(train_batches(numbered, 29, 4, start_step=1, **PLAIN), 1), [(more, more_labels)])


def test_the_batch_size_does_not_change_the_examples(files):
    three, five = (take(train_batches(files, size, 8, seed=1), count) for size, count in ((3, 10), (5, 6)))
    for part in (0, 1):
        np.testing.assert_array_equal(
            np.concatenate([batch[part] for batch in three]), np.concatenate([batch[part] for batch in five])
        )


def test_seeds_change_order_and_crops(files, numbered):
    assert order(numbered, 13, seed=0) != order(numbered, 13, seed=1)
    assert same(take(train_batches(files, 13, 8, seed=1), 2), take(train_batches(files, 13, 8, seed=1), 2))
    first, second = (take(train_batches(files, 13, 8, seed=seed), 1)[0][0] for seed in (0, 1))
    assert np.abs(first - second).max() > 0.1


def test_no_global_seed_is_read(files):
    keras.utils.set_random_seed(1)
    first = take(train_batches(files, 5, 8), 4)
    keras.utils.set_random_seed(2)
    assert same(first, take(train_batches(files, 5, 8), 4))


def test_crops_differ_by_example_epoch_and_seed(make_folder, rng):
    # One picture as two files of one class and one of another: whatever differs was drawn.
    picture = Image.fromarray(rng.integers(0, 256, (31, 37, 3), dtype="uint8"))
    root = make_folder(dict.fromkeys(["train/a/1.png", "train/a/2.png", "train/b/3.png", "test/a/1.png"], picture))
    train = open_dataset(f"folder:{root}").train
    images = [*take(train_batches(train, 3, 8), 4), *take(train_batches(train, 3, 8, seed=1), 4)]
    images = np.concatenate([batch for batch, _ in images])
    assert len(np.unique(images.reshape(24, -1), axis=0)) == 24


def test_crop_windows_have_the_areas_and_ratios_asked_for():
    shape, ratios, areas, windows = tf.constant([307, 401, 3]), [], [], []
    for index in range(400):
        crop_seed, _ = example_seeds(5, tf.constant(index, tf.int64))
        top, left, height, width = draw_crop(shape, crop_seed, (0.05, 1.0), (3 / 4, 4 / 3)).numpy().tolist()
        assert 0 <= top <= 307 - height and 0 <= left <= 401 - width
        ratios.append(width / height)
        areas.append(height * width / (307 * 401))
        windows.append((top, left, height, width))
    assert len(set(windows)) > 395
    assert 0.04 < min(areas) < 0.1 and 0.9 < max(areas) <= 1 and 0.35 < np.mean(areas) < 0.6
    assert 0.73 < min(ratios) < 0.8 and 1.25 < max(ratios) < 1.36


def test_a_crop_is_that_part_of_the_picture(make_folder):
    """Colours that tell the position: a crop's values are its corners' coordinates."""
    y, x = np.mgrid[0:200, 0:240]
    position = Image.fromarray(np.stack([y, x, np.zeros_like(x)], axis=-1).astype("uint8"))
    train = open_dataset(
        f"folder:{make_folder(dict.fromkeys(['train/a/1.png', 'train/b/1.png', 'test/a/1.png'], position))}"
    ).train
    images, _ = take(train_batches(train, 40, 20, seed=2, crop_area=(0.2, 0.5), aspect_ratio=(1, 1)), 1)[0]
    pixels = images * 127.5 + 127.5
    rows, columns = pixels[:, :, 7, 0], pixels[:, 7, :, 1]
    np.testing.assert_allclose(np.diff(rows, axis=1), np.diff(rows, axis=1)[:, :1].repeat(19, 1), atol=0.51)
    height, width = np.ptp(rows, axis=1) * 20 / 19, np.ptp(columns, axis=1) * 20 / 19
    np.testing.assert_allclose(height, width, atol=3)  # square windows of 20...50 % of the area
    assert 0.18 < (height * width).min() / 48000 and (height * width).max() / 48000 < 0.53
    mirrored = columns[:, 0] > columns[:, -1]
    assert 8 < mirrored.sum() < 32 and (rows[:, 0] < rows[:, -1]).all()


def test_without_crop_and_mirror_training_equals_evaluation(files):
    images, labels = take(train_batches(files, 13, (11, 17), **PLAIN), 1)[0]
    plain, plain_labels, _ = take(eval_batches(files, 13, (11, 17)), 1)[0]
    flat, plain_flat = images.reshape(13, -1), plain.reshape(13, -1)
    match = [int(np.flatnonzero((plain_flat == row).all(axis=1))[0]) for row in flat]
    assert sorted(match) == list(range(13)) and match != list(range(13))
    assert labels.tolist() == plain_labels[match].tolist()


def test_evaluation_is_the_plain_bilinear_resize(files):
    """A NumPy bilinear resize with half-pixel centres and no antialiasing."""

    def resize(image, height, width):
        for axis, size in ((0, height), (1, width)):
            old = image.shape[axis]
            at = np.clip((np.arange(size) + 0.5) * old / size - 0.5, 0, old - 1)
            low = np.floor(at).astype(int)
            shape = [-1 if a == axis else 1 for a in range(3)]
            share = (at - low).reshape(shape)
            high = np.minimum(low + 1, old - 1)
            image = image.take(low, axis) * (1 - share) + image.take(high, axis) * share
        return image

    images, _, _ = take(eval_batches(files, 13, (11, 31)), 1)[0]
    for path, image in zip(files.paths, images):
        pixels = np.asarray(Image.open(path).convert("RGB"), "float64")
        np.testing.assert_allclose(image, preprocess_input(resize(pixels, 11, 31)), atol=1e-5)


@pytest.mark.parametrize("batch_size", [1, 4, 13, 17])
def test_every_image_counts_once(numbered, batch_size):
    batches = eval_batches(numbered, batch_size, (4, 6))
    assert batches.element_spec[0].shape == (batch_size, 4, 6, 3)
    assert batches.element_spec[1:] == (
        tf.TensorSpec((batch_size,), tf.int32),
        tf.TensorSpec((batch_size,), tf.float32),
    )
    images, labels, weights = (np.concatenate(part) for part in zip(*take(batches, -1)))
    assert int(batches.cardinality()) == -(-13 // batch_size)
    assert weights.tolist() == [1] * 13 + [0] * (len(weights) - 13)
    assert which(images[:13]) == list(range(13)) and (images[13:] == 0).all()
    assert labels[:13].tolist() == numbered.labels.tolist() and (labels[13:] == 0).all()


def test_raw_images(files, numbered):
    images, labels = raw_images(files, (11, 17))
    plain, plain_labels, _ = take(eval_batches(files, 13, (11, 17)), 1)[0]
    assert images.dtype == "uint8" and labels.dtype == "int32" and images.shape == (13, 11, 17, 3)
    np.testing.assert_allclose(images, plain * 127.5 + 127.5, atol=0.501)
    assert labels.tolist() == plain_labels.tolist()
    for limit in (1, 4, 12, 13, 99):
        images, labels = raw_images(numbered, 4, limit)
        numbers = (images[:, 0, 0, 0] // 10).tolist()
        assert numbers == [-(-i * 13 // min(limit, 13)) for i in range(min(limit, 13))]  # spread evenly
        assert labels.tolist() == [number % 3 for number in numbers]


def test_under_a_distribution_strategy(files):
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    distributed = strategy.experimental_distribute_dataset(train_batches(files, 5, 8))
    iterator = iter(distributed)
    got = [tuple(part.numpy() for part in next(iterator)) for _ in range(3)]
    assert same(got, take(train_batches(files, 5, 8), 3))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 0}, "batch_size must be an integer >= 1 of at most 64 bits, received 0"),
        ({"batch_size": 2.0}, "batch_size must be an integer >= 1 .*, received 2.0"),
        ({"batch_size": True}, "batch_size must be an integer >= 1 .*, received True"),
        ({"seed": -1}, "seed must be an integer >= 0 .*, received -1"),
        ({"seed": 2**63}, "seed must be an integer >= 0 of at most 64 bits, received 9223372036854775808"),
        ({"start_step": -2}, "start_step must be an integer >= 0 .*, received -2"),
        ({"image_size": 0}, r"image_size must be an integer >= 1 or a pair \(height, width\), received 0"),
        ({"image_size": (4, 5, 3)}, r"image_size must be .*, received \(4, 5, 3\)"),
        ({"image_size": 7.5}, "image_size must be .*, received 7.5"),
        ({"crop_area": (0.0, 1.0)}, r"crop_area must be a pair \(least, largest\) with 0 < least <= largest <= 1, rec"),
        ({"crop_area": (0.5, 1.1)}, r"crop_area must be .*, received \(0.5, 1.1\)"),
        ({"crop_area": (0.9, 0.5)}, r"crop_area must be .*, received \(0.9, 0.5\)"),
        ({"crop_area": 0.5}, "crop_area must be .*, received 0.5"),
        ({"aspect_ratio": (0, 2)}, r"aspect_ratio must be a pair .* 0 < least <= largest, received \(0, 2\)"),
    ],
)
def test_arguments_out_of_range(numbered, arguments, message):
    with pytest.raises(ValueError, match=message):
        train_batches(**{"image_set": numbered, "batch_size": 2, "image_size": 4, **arguments})


def test_arguments_of_evaluation_out_of_range(numbered):
    with pytest.raises(ValueError, match="batch_size must be"):
        eval_batches(numbered, 0, 4)
    with pytest.raises(ValueError, match="image_size must be"):
        eval_batches(numbered, 1, (0, 4))
    with pytest.raises(ValueError, match="limit must be an integer >= 1 .*, received 0"):
        raw_images(numbered, 4, limit=0)
    with pytest.raises(ValueError, match="num_examples of 'none' must be at least 1, received 0"):
        type(numbered)("none", ("a",), np.zeros((0, 2, 2, 3), "uint8"), [])
