"""TensorFlow Datasets without a network: small sets that are prepared in a temporary folder."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from vitkeras.data import eval_batches, open_dataset, raw_images, train_batches

tfds = pytest.importorskip("tensorflow_datasets")

NAMES = ["cat", "dog", "eel"]
PLAIN = {"crop_area": None, "flip": False}
_numbers = itertools.count()


@pytest.fixture
def make_set(tmp_path, monkeypatch):
    """Function: registers a set whose image k of n is 7 k everywhere and whose label is k % 3; returns its name.

    `changes` replaces features; None leaves one out. `unlabelled` splits have label -1, as published test images of
    competitions. The default data folder of TFDS is a temporary one.
    """
    monkeypatch.setattr("tensorflow_datasets.core.constants.DATA_DIR", str(tmp_path))
    registered = tfds.core.registered._DATASET_REGISTRY
    before = dict(registered)

    def make(sizes, changes=None, unlabelled=(), more=lambda k: {}):
        features = {
            "image": tfds.features.Image(shape=(None, None, 3)),
            "label": tfds.features.ClassLabel(names=NAMES),
            "comment": tfds.features.Text(),
            **(changes or {}),
        }
        features = {key: feature for key, feature in features.items() if feature is not None}

        def example(k, split):
            example = {"label": -1 if split in unlabelled else k % 3, "comment": "x", **more(k)}
            if "image" in features:
                channels, kind = features["image"].shape[-1], np.dtype(features["image"].np_dtype)
                example["image"] = np.full((5 + k % 3, 7, channels), 7 * k, kind)
            return {key: value for key, value in example.items() if key in features}

        number = next(_numbers)
        members = {
            "__module__": __name__,
            "VERSION": tfds.core.Version("1.0.0"),
            "_info": lambda self: tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(features)),
            "_split_generators": lambda self, _: {
                split: [(k, example(k, split)) for k in range(size)] for split, size in sizes.items()
            },
            "_generate_examples": lambda self: iter(()),
        }
        type(f"VitkerasTest{number}", (tfds.core.GeneratorBasedBuilder,), members)
        return f"vitkeras_test{number}"

    yield make
    registered.clear()
    registered.update(before)


def take(batches, count):
    return [tuple(part.numpy() for part in batch) for batch in batches.take(count)]


def which(images):
    return np.rint((images[:, 0, 0, 0] * 127.5 + 127.5) / 7).astype(int).tolist()


def test_train_and_test(make_set):
    name = make_set({"train": 13, "test": 5, "validation": 4})
    splits = open_dataset(f"tfds:{name}")
    assert splits.name == f"tfds:{name}" and splits.class_names == ("cat", "dog", "eel")
    assert (splits.train.num_examples, splits.test.num_examples) == (13, 5)
    assert splits.train.labels is None
    images, labels, weights = take(eval_batches(splits.test, 7, (4, 6)), 9)[0]
    numbers = which(images[:5])
    assert sorted(numbers) == list(range(5)) and weights.tolist() == [1] * 5 + [0] * 2
    assert labels[:5].tolist() == [k % 3 for k in numbers]
    pixels, labels = raw_images(splits.test, 4, limit=2)
    assert pixels.shape == (2, 4, 4, 3) and labels.shape == (2,)


def test_validation_is_used_without_test(make_set):
    splits = open_dataset(f"tfds:{make_set({'train': 7, 'validation': 4})}")
    assert splits.test.num_examples == 4 and "validation" in splits.test.name


def test_validation_is_used_where_test_has_no_labels(make_set):
    name = make_set({"train": 7, "test": 5, "validation": 4}, unlabelled=["test"])
    assert open_dataset(f"tfds:{name}").test.num_examples == 4


def test_the_end_of_train_is_held_out_where_there_is_nothing_else(make_set):
    splits = open_dataset(f"tfds:{make_set({'train': 17})}", test_fraction=0.3)
    assert (splits.train.num_examples, splits.test.num_examples) == (12, 5)
    parts = [take(eval_batches(part, 1, 4), -1) for part in (splits.train, splits.test)]
    assert sorted(which(np.concatenate([images for images, _, _ in parts[0] + parts[1]]))) == list(range(17))


def test_file_names_come_in_the_order_of_the_records(make_set):
    changes, more = {"file_name": tfds.features.Text()}, lambda k: {"file_name": f"val/picture_{k:03d}.JPEG"}
    splits = open_dataset(f"tfds:{make_set({'train': 17}, changes, more=more)}", test_fraction=0.3)
    for part in (splits.train, splits.test):
        numbers = which(np.concatenate([images for images, _, _ in take(eval_batches(part, 1, 4), -1)]))
        assert part.file_names() == tuple(f"picture_{k:03d}.JPEG" for k in numbers)
    assert open_dataset(f"tfds:{make_set({'train': 5, 'test': 3})}").test.file_names() is None


@pytest.mark.parametrize("start_step", [2, 11, *(pytest.param(step, marks=pytest.mark.slow) for step in (1, 3))])
def test_a_pure_function_of_seed_and_step(make_set, start_step):
    # 13 records in batches of 5: epochs end inside batches 2, 5, 7, ...
    train = open_dataset(f"tfds:{make_set({'train': 13, 'test': 3})}").train
    tf.random.set_seed(1)
    whole = take(train_batches(train, 5, 8, seed=3), 15)
    numbers = sum((which(images) for images, _ in take(train_batches(train, 5, 8, seed=3, **PLAIN), 13)), [])
    epochs = [tuple(numbers[13 * e : 13 * e + 13]) for e in range(5)]
    assert all(sorted(epoch) == list(range(13)) for epoch in epochs) and len(set(epochs)) == 5
    tf.random.set_seed(2)  # no global seed is read
    resumed = take(train_batches(train, 5, 8, seed=3, start_step=start_step), 15 - start_step)
    for got, want in zip(resumed, whole[start_step:], strict=True):
        np.testing.assert_array_equal(got[0], want[0])
        np.testing.assert_array_equal(got[1], want[1])
    other = take(train_batches(train, 5, 8, seed=4, **PLAIN), 13)
    assert sum((which(images) for images, _ in other), []) != numbers


@pytest.mark.parametrize("encoding", ["jpeg", "png"])
def test_grey_images_of_both_encodings_have_three_channels(make_set, encoding):
    changes = {"image": tfds.features.Image(shape=(None, None, 1), encoding_format=encoding)}
    splits = open_dataset(f"tfds:{make_set({'train': 7, 'test': 3}, changes)}")
    images, _ = take(train_batches(splits.train, 7, 8), 1)[0]
    assert images.shape == (7, 8, 8, 3)
    np.testing.assert_array_equal(images[..., :1].repeat(3, -1), images)
    assert sorted(which(images)) == list(range(7))


def test_mock_data_of_tfds(make_set, tmp_path):
    name = make_set({"train": 13, "test": 5})
    tfds.builder(name).download_and_prepare()
    files = tfds.testing.MockPolicy.USE_FILES
    with tfds.testing.mock_data(num_examples=4, policy=files, data_dir=str(tmp_path)):
        splits = open_dataset(f"tfds:{name}")
        assert splits.train.num_examples == 4
        images, labels = take(train_batches(splits.train, 6, 8), 1)[0]
    assert images.shape == (6, 8, 8, 3) and set(labels) <= {0, 1, 2}


def test_a_label_outside_the_classes_stops_the_reading(make_set):
    train = open_dataset(f"tfds:{make_set({'train': 5, 'test': 3}, unlabelled=['train'])}").train
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"must be in 0\.\.\.2"):
        next(iter(eval_batches(train, 2, 4)))


@pytest.mark.parametrize(
    ("sizes", "changes", "unlabelled", "message"),
    [
        (
            {"train": 3},
            {"label": None},
            (),
            r"image and label, received \['comment', 'image'\]: label missing",
        ),
        (
            {"train": 3},
            {"label": None, "image": None},
            (),
            r"received \['comment'\]: image and label missing",
        ),
        (
            {"train": 3, "test": 3},
            {"image": tfds.features.Image(shape=(None, None, 1), dtype=np.uint16, encoding_format="png")},
            (),
            "must have 8-bit images as feature image, received Image",
        ),
        (
            {"train": 3, "test": 3},
            {"label": tfds.features.Scalar(np.int64)},
            (),
            "must have one of at least 2 classes as feature label, received Scalar",
        ),
        ({"train": 3}, {"label": tfds.features.ClassLabel(names=["one"])}, ("train",), "at least 2 classes as feature"),
        ({"test": 3}, {}, (), r"must have a split train, received \['test'\]"),
        ({"train": 3, "test": 3}, {}, ("test",), r"held-out split with labels, received none in \['test'\]"),
    ],
)
def test_sets_that_are_refused(make_set, sizes, changes, unlabelled, message):
    with pytest.raises(ValueError, match=message):
        open_dataset(f"tfds:{make_set(sizes, changes, unlabelled)}")


def test_unknown_name(make_set):
    with pytest.raises(ValueError, match="tfds:NAME must name a TensorFlow Datasets set, received 'no_such_set'"):
        open_dataset("tfds:no_such_set")


def test_the_shuffle_buffer_must_hold_something():
    from vitkeras.data.stream_set import StreamSet

    with pytest.raises(ValueError, match="shuffle_buffer must be at least 1, received 0"):
        StreamSet("none", NAMES, 3, None, shuffle_buffer=0)


def test_other_features_and_splits(make_set):
    plain = make_set({"train": 13, "test": 5, "validation": 4})
    splits = open_dataset(f"tfds:{plain}?train=train[:5]+validation[:2]&test=train[80%:]")
    assert (splits.train.num_examples, splits.test.num_examples) == (7, 3)
    rest, held_out = splits.train.hold_out(0.3, seed=0)
    numbers = [sorted(which(take(eval_batches(part, 7, 4), 1)[0][0][: part.num_examples])) for part in (rest, held_out)]
    whole = sorted(which(take(eval_batches(splits.train, 7, 4), 1)[0][0]))
    assert sorted(numbers[0] + numbers[1]) == whole and len(numbers[1]) == 2
    with pytest.raises(ValueError, match=r"must have features picture and kind, received .*: picture and kind missing"):
        open_dataset(f"tfds:{plain}?image=picture&label=kind")
    with pytest.raises(ValueError, match="must have one of at least 2 classes as feature comment, received Text"):
        open_dataset(f"tfds:{plain}?label=comment")
    with pytest.raises(ValueError, match="takes the options image, label, train, test, received split"):
        open_dataset(f"tfds:{plain}?split=train")
    with pytest.raises(ValueError, match="must have a split 'dev', received none"):
        open_dataset(f"tfds:{plain}?test=dev")


def test_a_label_of_another_name(make_set):
    kind = tfds.features.ClassLabel(names=["even", "odd"])
    name = make_set({"train": 7, "test": 4}, {"kind": kind}, more=lambda k: {"kind": k % 2})
    splits = open_dataset(f"tfds:{name}?label=kind")
    images, labels, _ = take(eval_batches(splits.test, 4, 4), 1)[0]
    assert splits.class_names == ("even", "odd") and labels.tolist() == [k % 2 for k in which(images)]
