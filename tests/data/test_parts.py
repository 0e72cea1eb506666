"""Made-up images, the part held out of training, and training with few images."""

import numpy as np
import pytest
import tensorflow as tf

from vitkeras.data import eval_batches, open_dataset, raw_images, train_batches
from vitkeras.data.split import stratified_split
from vitkeras.data.stream_set import StreamSet


@pytest.fixture
def stream():
    """17 records whose pixels say which they are: image k is 7 k everywhere; labels k % 3."""
    images = [tf.io.encode_png(tf.fill((5, 4, 3), tf.cast(7 * k, tf.uint8))).numpy() for k in range(17)]
    columns = {"image": np.array(images, object), "label": np.arange(17) % 3}

    def make_records(start, stop):
        return tf.data.Dataset.from_tensor_slices({name: column[start:stop] for name, column in columns.items()})

    return StreamSet("stream", ("a", "b", "c"), 17, make_records, shuffle_buffer=5)


def pixels(image_set):
    return {tuple(image.ravel().tolist()) for image in raw_images(image_set, 8)[0]}


def which(image_set):
    return (raw_images(image_set, 4)[0][:, 0, 0, 0] // 7).tolist()


def test_mock_images_are_always_the_same():
    splits = open_dataset("mock:7x11x23")
    assert splits.name == "mock:7x11x23" and len(splits.class_names) == 23
    assert (splits.train.num_examples, splits.test.num_examples) == (64, 16)
    record = next(iter(splits.train.records()))
    image = splits.train.image(record)
    assert image.shape == (7, 11, 3) and image.dtype == tf.uint8
    np.testing.assert_array_equal(splits.train.image(record), image)
    again = open_dataset("mock:7x11x23", seed=5)
    assert pixels(again.train) == pixels(splits.train)
    assert len(pixels(splits.train) | pixels(splits.test)) == 80  # no picture twice
    assert open_dataset("mock:7x11x23").train.labels.max() <= 22


@pytest.mark.parametrize("classes", [2, 3, 17, 21843])
def test_mock_labels_are_spread_over_all_classes(classes):
    splits = open_dataset(f"mock:3x3x{classes}", dev_fraction=0.1)
    labels = splits.train.labels
    assert labels.min() == 0 and classes * 7 // 8 - 1 <= labels.max() < classes
    assert len(set(labels.tolist())) == min(classes, 16) and splits.dev.num_examples == 6
    images, targets = next(iter(train_batches(splits.train, 8, 8)))
    assert images.shape == (8, 8, 8, 3) and np.isin(targets, labels).all()


@pytest.mark.parametrize("text", ["32", "32x32", "0x3x4", "3x0x4", "3x3x1", "3x3x3x3", "axbxc", "-1x2x3", "3x3x10 "])
def test_mock_sizes_that_are_refused(text):
    with pytest.raises(ValueError, match="mock:HxWxK must give height, width >= 1 and at least 2 classes, .* received"):
        open_dataset(f"mock:{text}")


def test_without_a_dev_part_training_is_whole():
    splits = open_dataset("mock:3x3x5")
    assert splits.dev is None and splits.train_without_dev is splits.train


def test_the_dev_part_is_stratified_and_taken_from_training():
    whole, splits = open_dataset("digits"), open_dataset("digits", dev_fraction=0.1, seed=3)
    assert splits.dev.num_examples == 144 and splits.train_without_dev.num_examples == 1293
    assert splits.train.num_examples == 1437 and splits.test.num_examples == 360
    assert splits.dev.name == "digits/train, 144 held out"
    counts, dev = np.bincount(whole.train.labels), np.bincount(splits.dev.labels)
    np.testing.assert_allclose(dev, counts * 144 / 1437, atol=1)
    np.testing.assert_array_equal(dev + np.bincount(splits.train_without_dev.labels), counts)
    assert pixels(splits.dev) | pixels(splits.train_without_dev) == pixels(whole.train)
    assert not pixels(splits.dev) & pixels(splits.train_without_dev)
    same, other = (open_dataset("digits", dev_fraction=0.1, seed=seed) for seed in (3, 4))
    assert pixels(same.dev) == pixels(splits.dev) != pixels(other.dev)


def test_the_dev_part_of_a_folder(make_folder):
    names = [f"train/{c}/{i}.{kind}" for c, kind in (("a", "jpg"), ("b", "png")) for i in range(5)] + ["test/a/0.jpg"]
    splits = open_dataset(f"folder:{make_folder(dict.fromkeys(names))}", dev_fraction=0.2)
    assert splits.dev.labels.tolist() == [0, 1]
    assert sorted(splits.dev.paths + splits.train_without_dev.paths) == sorted(splits.train.paths)
    for part in (splits.dev, splits.train_without_dev, splits.train):
        assert [path.endswith(".png") for path in part.paths] == part.labels.astype(bool).tolist()
        images, labels = raw_images(part, 8)
        assert len(images) == part.num_examples and labels.tolist() == part.labels.tolist()


def test_classes_of_one_image_stay_in_training():
    rest, held_out = stratified_split([0, 1, 1, 1, 1, 3], 0.3, keep_single=True)
    assert (
        held_out.size == 2 and set(held_out.tolist()) <= {1, 2, 3, 4} and sorted([*rest, *held_out]) == list(range(6))
    )
    rest, held_out = stratified_split([0, 0, 1, 1, 1], 0.01, keep_single=True)
    assert held_out.size == 1
    with pytest.raises(ValueError, match="a class must have at least 2 examples to hold one out, received 2 classes"):
        stratified_split([0, 2], 0.5, keep_single=True)


def test_few_images_as_in_vtab():
    splits = open_dataset("digits", limit=100, dev_fraction=0.2, seed=1)
    sizes = (splits.train.num_examples, splits.train_without_dev.num_examples, splits.dev.num_examples)
    assert sizes == (100, 80, 20) and splits.test.num_examples == 360
    assert splits.train.labels.tolist() == splits.train_without_dev.labels.tolist() + splits.dev.labels.tolist()
    assert pixels(splits.train) == pixels(splits.train_without_dev) | pixels(splits.dev)
    assert pixels(splits.train) <= pixels(open_dataset("digits").train)
    fewer, other = (open_dataset("digits", limit=50, seed=seed).train for seed in (1, 2))
    assert fewer.labels.tolist() == splits.train.labels[:50].tolist()  # the first ones of one order
    assert pixels(other) != pixels(fewer)


def test_parts_of_a_stream_are_runs_of_its_order(stream):
    rest, held_out = stream.hold_out(0.3, seed=9)
    assert which(rest) == list(range(12)) and which(held_out) == list(range(12, 17))
    first = held_out.first(3, seed=9)
    assert which(first) == [12, 13, 14] and first.name == "stream, 5 held out, 3 images"
    assert which(first.hold_out(0.5, seed=0)[1]) == [13, 14]
    images, _ = next(iter(train_batches(first, 6, 4, crop_area=None, flip=False)))
    numbers = np.rint((images[:, 0, 0, 0] * 127.5 + 127.5) / 7).astype(int).tolist()
    assert sorted(numbers[:3]) == sorted(numbers[3:]) == [12, 13, 14]
    assert sum(float(tf.reduce_sum(weights)) for _, _, weights in eval_batches(held_out, 3, 4)) == 5


def test_one_image_cannot_be_split(stream):
    for image_set in (stream, open_dataset("digits").train):
        with pytest.raises(ValueError, match="must have at least 2 images to hold one out, received 1"):
            image_set.first(1, 0).hold_out(0.5, 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dev_fraction": 1}, "dev_fraction must be at least 0 and below 1, received 1"),
        ({"dev_fraction": -0.1}, "dev_fraction must be at least 0 and below 1, received -0.1"),
        ({"dev_fraction": None}, "dev_fraction must be at least 0 and below 1, received None"),
        ({"limit": 1}, "limit must be an integer >= 2 or None, received 1"),
        ({"limit": 2.5}, "limit must be an integer >= 2 or None, received 2.5"),
        ({"limit": 1438}, "limit must be at most the 1437 training images, received 1438"),
    ],
)
def test_arguments_out_of_range(arguments, message):
    with pytest.raises(ValueError, match=message):
        open_dataset("digits", **arguments)
