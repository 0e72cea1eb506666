"""TFRecord files in ImageNet's layout."""

import io
import re

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from vitkeras.data import open_dataset, raw_images, train_batches

NAMES = ("cat", "dog", "eel")


def encode(image, kind="PNG", mode="RGB"):
    file = io.BytesIO()
    Image.fromarray(image).convert(mode).save(file, kind)
    return file.getvalue()


KEYS = ("image/encoded", "image/class/label", "image/class/text")


def example(k, image=None, first=0, text=True, keys=KEYS, label=None):
    """Record k: an image of 7 k everywhere, label k % 3."""
    image = encode(np.full((5 + k % 3, 7, 3), 7 * k, "uint8")) if image is None else image
    values = {keys[0]: tf.train.Feature(bytes_list=tf.train.BytesList(value=[image]))}
    number = k % 3 if label is None else label
    values[keys[1]] = tf.train.Feature(int64_list=tf.train.Int64List(value=[number + first]))
    if text:
        values[keys[2]] = tf.train.Feature(bytes_list=tf.train.BytesList(value=[NAMES[k % 3].encode()]))
    return tf.train.Example(features=tf.train.Features(feature=values)).SerializeToString()


@pytest.fixture
def write(tmp_path):
    """Function: {file name: records} -> the folder."""

    def write(files):
        for name, records in files.items():
            with tf.io.TFRecordWriter(str(tmp_path / name)) as writer:
                for record in records:
                    writer.write(record)
        return tmp_path

    return write


def which(image_set):
    images, labels = raw_images(image_set, 4)
    numbers = images[:, 0, 0, 0] // 7
    assert labels.tolist() == (numbers % 3).tolist()
    return numbers.tolist()


@pytest.fixture
def records():
    return [example(k) for k in range(31)]


def test_train_and_validation_files(write, records):
    folder = write({"train-0": records[:13], "train-1": records[13:20], "validation-0": records[20:25]})
    splits = open_dataset(f"tfrecord:{folder}/*")
    assert splits.class_names == NAMES and splits.name == f"tfrecord:{folder}/*"
    assert sorted(which(splits.train)) == list(range(20)) and which(splits.test) == list(range(20, 25))
    assert splits.train.labels is None and splits.train.skipped == ()
    images, labels = next(iter(train_batches(splits.train, 7, (11, 17), seed=1)))
    assert images.shape == (7, 11, 17, 3) and set(labels.numpy()) <= {0, 1, 2}


def test_the_last_records_are_held_out_without_such_files(write, records):
    splits = open_dataset(f"tfrecord:{write({'a': records[:7], 'b': records[7:17]})}/[ab]", test_fraction=0.3)
    assert (splits.train.num_examples, splits.test.num_examples) == (12, 5)
    assert sorted(which(splits.train) + which(splits.test)) == list(range(17))
    dev = open_dataset(f"tfrecord:{write({'a': records[:7]})}/?", dev_fraction=0.2, limit=12)
    assert dev.train.num_examples == 12 and dev.dev.num_examples == 2


def test_a_glob_for_the_held_out_files(write, records):
    folder = write({"part-0": records[:5], "part-1": records[5:9], "extra": records[9:11]})
    splits = open_dataset(f"tfrecord:{folder}/*?test={folder}/part-1")
    assert sorted(which(splits.train)) == [0, 1, 2, 3, 4, 9, 10] and which(splits.test) == [5, 6, 7, 8]


def test_other_features_labels_from_one_and_a_names_file(write):
    keys = ("jpg", "cls", "name")
    folder = write({"x": [example(k, first=1, text=False, keys=keys) for k in range(9)]})
    (folder / "labels.txt").write_text("cat\ndog\n\neel\n")
    splits = open_dataset(f"tfrecord:{folder}/x?image=jpg&label=cls&first=1")
    assert splits.class_names == NAMES and which(splits.test) == [7, 8]
    (folder / "other.txt").write_text("a\nb\nc\nd\n")
    spec = f"tfrecord:{folder}/x?image=jpg&label=cls&first=1&classes={folder}/other.txt"
    assert open_dataset(spec).class_names == ("a", "b", "c", "d")


def test_the_order_is_the_same_every_time(write, records):
    folder = write({f"f{i:02d}": records[i : i + 1] * 3 for i in range(20)})  # more files than are read side by side
    train = open_dataset(f"tfrecord:{folder}/f*").train
    assert which(train) == which(train) == which(open_dataset(f"tfrecord:{folder}/f*").train)


def test_a_pure_function_of_seed_and_step(write, records):
    train = open_dataset(f"tfrecord:{write({'a': records[:7], 'b': records[7:17]})}/[ab]").train
    batches = [tuple(map(np.array, batch)) for batch in train_batches(train, 5, 8, seed=3).take(9)]
    resumed = [tuple(map(np.array, batch)) for batch in train_batches(train, 5, 8, seed=3, start_step=4).take(5)]
    for got, want in zip(resumed, batches[4:], strict=True):
        np.testing.assert_array_equal(got[0], want[0])
        np.testing.assert_array_equal(got[1], want[1])


@pytest.fixture
def with_bad_images(write, records, rng):
    noise = rng.integers(0, 256, (31, 37, 3), dtype="uint8")
    bad = [b"no image", encode(noise, "JPEG")[:200], b"", encode(noise, "JPEG", "CMYK"), encode(noise, "WEBP")]
    return write(
        {"train-0": records[:4] + [example(0, image) for image in bad] + records[4:9], "test-0": records[9:12]}
    )


def test_bad_images_are_refused_by_file_and_place(with_bad_images):
    with pytest.raises(ValueError, match=r"5 of 17 images of data tfrecord:.* cannot be read; ") as error:
        open_dataset(f"tfrecord:{with_bad_images}/*")
    message = str(error.value)
    reasons = ["ValueError: not a read", "OSError", "ValueError: the file is empty", "JPEG that", "WEBP in"]
    for place, reason in enumerate(reasons, start=4):
        assert f"train-0 record {place} ({reason}" in message


def test_bad_images_are_skipped_with_a_warning(with_bad_images):
    with pytest.warns(UserWarning, match="5 of 17 images of .* are skipped: train-0 record 4") as caught:
        splits = open_dataset(f"tfrecord:{with_bad_images}/*", on_bad_image="skip")
    assert caught[0].filename == __file__
    assert which(splits.train) == list(range(9)) and len(splits.train.skipped) == 5
    with pytest.raises(ValueError, match=r"1 of 17 images .*: train-0 record 6 \(no image\)"):
        open_dataset(f"tfrecord:{with_bad_images}/*?check=false")


def test_files_that_are_refused(write, records):
    folder = write({"good": records[:9], "empty": [], "text": [b"\x00\x01 no example"], "one": records[0:7:3]})
    (folder / "cut").write_bytes((folder / "good").read_bytes()[:-9])
    write({
        "unlabelled": [example(0, keys=("image/encoded", "l", "t"))],
        "negative": [example(0, label=-1)],
        "unnamed": [example(k, text=False) for k in range(3)],
        "broken": [example(k, b"x") for k in range(3)],
        "imageless": [example(k, keys=("i", "image/class/label", "t")) for k in range(3)],
        "junk": [b"no example at all \xff\xfe"],
    })  # fmt: skip
    texts = tf.train.Example()
    for name in ("image/encoded", "image/class/label"):
        texts.features.feature[name].bytes_list.value.append(b"cat")
    write({"texts": [texts.SerializeToString()]})
    (folder / "prose").write_text("no records at all " * 9)
    for name, message in [
        ("none*", "must name files, received"),
        ("empty", "must hold images that can be read as image/encoded, received none in"),
        ("text", "must hold tf.train.Examples with image/encoded of bytes and image/class/label of integers, received"),
        ("junk", "must hold tf.train.Examples with image/encoded of bytes and image/class/label of integers, received"),
        (
            "texts",
            "received others in record 0; the first record has image/class/label (bytes), image/encoded (bytes) (",
        ),
        ("prose", "is no TFRecord file, or damaged at its start (corrupted record at 0"),
        ("cut", "is damaged behind record 7 (truncated record"),
        (
            "unlabelled",
            "image/class/label of unlabelled record 0 must be an integer >= 0, received none; the first record has "
            "image/encoded (bytes), l (int64), t (bytes).",
        ),
        ("imageless", "received none in "),
        ("imageless", "imageless; the first record has i (bytes), image/class/label (int64), t (bytes)."),
        ("negative", "image/class/label of negative record 0 must be an integer >= 0, received -1"),
        (
            "unnamed",
            "must have class names: classes.txt or labels.txt beside it, the option classes, or image/",
        ),
        ("broken", "must hold images that can be read as image/encoded, received none in"),
        ("one", "must have at least 2 classes, received ('cat',)"),
        ("good?size=3", "takes the options image, label, text, first, classes, test, check, received size"),
        ("good?first=x", "must be an integer >= 0, received 'x'"),
        ("good?check=no", "must be true or false, received 'no'"),
        (f"good?test={folder}/go*", "must leave files to train on, received"),
        ("good?test=nowhere", "must name files, received 'nowhere', which matches none"),
        ("good?classes=nowhere", "must be a file, received 'nowhere'"),
    ]:
        with pytest.raises(ValueError, match=re.escape(message)) as error:
            open_dataset(f"tfrecord:{folder}/{name}")
        assert "\n" not in str(error.value) and "function_node" not in str(error.value)
    (folder / "classes.txt").write_text("cat\ndog\n")
    with pytest.raises(ValueError, match=r"must be in 0\.\.\.1, the classes of .*classes.txt, received 2"):
        open_dataset(f"tfrecord:{folder}/good")
