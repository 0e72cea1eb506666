"""Layouts of image folders, the held-out part, and folders that are refused."""

import os
import sys

import numpy as np
import pytest

from vitkeras.data import eval_batches, open_dataset
from vitkeras.data.split import stratified_split

TRAIN_AND_TEST = {
    "train/rose/1.jpg": None,
    "train/rose/2.JPG": None,
    "train/daisy/1.png": None,
    "test/rose/3.jpg": None,
}


def relative(image_set, root):
    return [os.path.relpath(path, root) for path in image_set.paths]


def test_train_and_test_folders(make_folder):
    root = make_folder(TRAIN_AND_TEST)
    splits = open_dataset(f"folder:{root}")
    assert splits.class_names == splits.train.class_names == splits.test.class_names == ("daisy", "rose")
    assert splits.name == f"folder:{root}"
    assert relative(splits.train, root) == ["train/daisy/1.png", "train/rose/1.jpg", "train/rose/2.JPG"]
    assert splits.train.labels.tolist() == [0, 1, 1] and splits.train.num_examples == 3
    assert relative(splits.test, root) == ["test/rose/3.jpg"] and splits.test.labels.tolist() == [1]
    assert "3 examples, 2 classes" in repr(splits.train)


@pytest.mark.parametrize("name", ["val", "validation"])
def test_other_names_of_the_held_out_part(make_folder, name):
    root = make_folder({path.replace("test/", f"{name}/"): content for path, content in TRAIN_AND_TEST.items()})
    assert relative(open_dataset(f"folder:{root}").test, root) == [f"{name}/rose/3.jpg"]


def test_test_is_preferred_to_val(make_folder):
    root = make_folder({**TRAIN_AND_TEST, "val/rose/9.jpg": None})
    assert relative(open_dataset(f"folder:{root}").test, root) == ["test/rose/3.jpg"]


@pytest.mark.parametrize("prefix", ["", "train/"])
def test_a_stratified_part_is_held_out_of_one_folder(make_folder, prefix):
    sizes = {"a": 10, "b": 5, "c": 2}
    root = make_folder({f"{prefix}{name}/{i:02}.jpg": None for name, size in sizes.items() for i in range(size)})
    splits = open_dataset(f"folder:{root}", test_fraction=0.3)
    assert np.bincount(splits.train.labels).tolist() == [7, 4, 1]
    assert np.bincount(splits.test.labels).tolist() == [3, 1, 1]
    train, test = relative(splits.train, root), relative(splits.test, root)
    assert not set(train) & set(test) and len({*train, *test}) == 17
    again = open_dataset(f"folder:{root}", test_fraction=0.3)
    assert relative(again.test, root) == test
    assert relative(open_dataset(f"folder:{root}", test_fraction=0.3, seed=1).test, root) != test


def test_a_class_may_be_called_train(make_folder):
    root = make_folder({f"{name}/{i}.jpg": None for name in ("car", "train") for i in range(2)})
    assert open_dataset(f"folder:{root}").class_names == ("car", "train")


def test_split_proportions():
    labels = np.repeat([0, 1, 2], [100, 30, 2])
    train, test = stratified_split(labels, 0.25, seed=7)
    assert np.bincount(labels[test]).tolist() == [25, 8, 1] and train.size + test.size == 132
    assert sorted([*train, *test]) == list(range(132)) and (np.diff(test) > 0).all()
    with pytest.raises(ValueError, match="class 1 must have at least 2 examples, received 1"):
        stratified_split(np.array([0, 0, 1]), 0.5)


def test_what_is_no_image_is_ignored_and_counted(make_folder):
    extra = {
        "train/rose/notes.txt": b"x",
        "train/rose/.hidden.jpg": b"x",
        "train/.cache/1.jpg": b"x",
        "train/labels.csv": b"x",
        "train/rose/deeper/1.jpg": None,
        "test/rose/Thumbs.db": b"x",
    }
    splits = open_dataset(f"folder:{make_folder({**TRAIN_AND_TEST, **extra})}")
    assert (splits.train.num_examples, splits.train.num_ignored) == (3, 5)
    assert (splits.test.num_examples, splits.test.num_ignored) == (1, 1)


def test_every_suffix_in_any_case(make_folder, picture):
    from PIL import Image

    names = "1.jpg 2.JPEG 3.Png 4.bmp 5.gif 6.webp 7.tif 8.TIFF".split()
    image = Image.fromarray(picture)
    root = make_folder({f"{part}/{name}": image for part in "ab" for name in names})
    splits = open_dataset(f"folder:{root}", test_fraction=0.5)
    assert splits.train.num_examples + splits.test.num_examples == 16 and splits.train.num_ignored == 0


@pytest.fixture
def with_bad_images(make_folder, picture):
    import io

    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(picture).save(file, "JPEG")
    jpeg = file.getvalue()
    bad = {
        "train/rose/cut.jpg": jpeg[:-60],
        "train/daisy/text.jpg": b"this is no image",
        "test/rose/empty.png": b"",
    }
    root = make_folder({**TRAIN_AND_TEST, **bad})
    os.symlink(root / "nowhere.jpg", root / "train/rose/dangling.jpg")
    return root


def test_bad_images_are_refused_by_name_and_count(with_bad_images):
    with pytest.raises(ValueError, match=r"4 of 8 images of data folder .* cannot be read") as error:
        open_dataset(f"folder:{with_bad_images}")
    message = str(error.value)
    assert "train/rose/cut.jpg (OSError: image file is truncated" in message
    assert "train/daisy/text.jpg (ValueError: not a readable file" in message
    assert "train/rose/dangling.jpg (FileNotFoundError" in message
    assert "test/rose/empty.png (ValueError: the file is empty)" in message


def test_bad_images_are_skipped_with_a_warning(with_bad_images):
    with pytest.warns(UserWarning, match=r"4 of 8 images .* are skipped: .*text\.jpg.*cut\.jpg.*empty\.png") as caught:
        splits = open_dataset(f"folder:{with_bad_images}", on_bad_image="skip")
    assert len(caught) == 1 and caught[0].filename == __file__
    assert splits.train.num_examples == 3 and splits.test.num_examples == 1
    assert [os.path.basename(path) for path, _ in splits.train.skipped] == ["text.jpg", "cut.jpg", "dangling.jpg"]
    assert [os.path.basename(path) for path, _ in splits.test.skipped] == ["empty.png"]
    assert splits.train.skipped[1][1].startswith("OSError: image file is truncated")
    _, labels, weights = next(iter(eval_batches(splits.train, 5, 8)))
    assert labels.numpy().tolist() == [0, 1, 1, 0, 0] and weights.numpy().tolist() == [1, 1, 1, 0, 0]


def test_only_ten_bad_images_are_named(make_folder):
    root = make_folder({f"{part}/{i:02}.jpg": b"x" for part in "ab" for i in range(8)})
    with pytest.raises(ValueError, match="16 of 16 images .*; and 6 more") as error:
        open_dataset(f"folder:{root}")
    assert str(error.value).count(".jpg (") == 10


def test_a_class_without_a_readable_image_is_an_error(make_folder):
    root = make_folder({**TRAIN_AND_TEST, "train/tulip/1.jpg": b"x", "train/tulip/2.jpg": b""})
    with (
        pytest.warns(UserWarning, match="2 of 6 images"),
        pytest.raises(ValueError, match="train' has no readable image of tulip"),
    ):
        open_dataset(f"folder:{root}", on_bad_image="skip")


def test_skipping_may_leave_too_few_to_split(make_folder):
    root = make_folder({"a/1.jpg": None, "a/2.jpg": None, "b/1.jpg": None, "b/2.jpg": b"x"})
    with (
        pytest.warns(UserWarning, match="1 of 4 images"),
        pytest.raises(ValueError, match=r"must hold 2 images \(one is held out\) of every class, .* too few of b"),
    ):
        open_dataset(f"folder:{root}", on_bad_image="skip")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"readme.txt": b"x"},
            r"must hold images as CLASS/\*.jpg or train/CLASS/\*.jpg \(jpg .*received none",
        ),
        ({"a/readme.txt": b"x", "b/readme.txt": b"x"}, "must hold images as .*, received none"),
        ({"1.jpg": None}, "must hold images as .*, received none"),
        ({"a/1.jpg": None, "a/2.jpg": None}, r"must hold at least 2 classes, received \('a',\)"),
        ({"train/a/1.jpg": None, "test/a/1.jpg": None}, r"train' must hold at least 2 classes, received \('a',\)"),
        ({"a/1.jpg": None, "a/2.jpg": None, "b/x.txt": b""}, "must hold an image of every class, .* too few of b"),
        (
            {"a/1.jpg": None, "a/2.jpg": None, "b/1.jpg": None},
            r"must hold 2 images \(one is held out\) .* of b",
        ),
        ({**TRAIN_AND_TEST, "test/tulip/1.jpg": None}, "test' must hold classes of training only, received also tulip"),
        ({"train/1.jpg": None, "test/2.jpg": None}, "train' must hold one folder a class, received none"),
        (
            {"train/a/1.jpg": None, "train/b/1.jpg": None, "test/1.jpg": None},
            "test' must hold images .*received none",
        ),
    ],
)
def test_folders_that_are_refused(make_folder, files, message):
    with pytest.raises(ValueError, match=message):
        open_dataset(f"folder:{make_folder(files)}")


def test_one_class_may_be_looked_through(make_folder):
    splits = open_dataset(f"folder:{make_folder({'a/1.jpg': None, 'a/2.jpg': None})}", test_fraction=None)
    assert splits.class_names == ("a",) and splits.train.num_examples == splits.test.num_examples == 2


def test_missing_folder(tmp_path):
    with pytest.raises(ValueError, match="data folder must be a folder, received '.*py'"):
        open_dataset(f"folder:{__file__}")
    with pytest.raises(ValueError, match=r"data folder must exist, received '.*nowhere'"):
        open_dataset(f"folder:{tmp_path}/nowhere")


def test_file_names_need_not_be_utf8(make_folder):
    root = make_folder({f"{part}/{i}.jpg": None for part in "ab" for i in range(2)})
    name = os.path.join(os.fsencode(root), b"a", b"\xff\xfe.jpg")
    try:
        os.rename(root / "a/0.jpg", name)
    except OSError:
        pytest.skip("the file system of the temporary folder takes UTF-8 names only")
    splits = open_dataset(f"folder:{root}", test_fraction=0.5)
    for part in (splits.train, splits.test):
        assert sum(float(weights.numpy().sum()) for _, _, weights in eval_batches(part, 3, 8)) == 2


@pytest.mark.parametrize("terminal", [False, True])
def test_the_progress_bar_is_for_terminals(make_folder, capsys, monkeypatch, terminal):
    root = make_folder(TRAIN_AND_TEST)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    open_dataset(f"folder:{root}")
    output = capsys.readouterr()
    assert output.out == ""
    assert ("checking images" in output.err) is terminal


@pytest.mark.parametrize(("module", "package"), [("PIL.Image", "Pillow"), ("tqdm", "tqdm")])
def test_a_missing_package_names_the_extra(make_folder, monkeypatch, module, package):
    root = make_folder(TRAIN_AND_TEST)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf'needs {package}: pip install "vitkeras\[recipes\]"'):
        open_dataset(f"folder:{root}")


def test_real_photos(test_data):
    from vitkeras.data import train_batches

    splits = open_dataset(f"folder:{test_data}/data/flowers12")
    assert len(splits.class_names) == 12
    assert np.bincount(splits.train.labels).tolist() == [60] * 12
    assert np.bincount(splits.test.labels).tolist() == [20] * 12
    images, labels = next(iter(train_batches(splits.train, 11, 224)))
    assert images.shape == (11, 224, 224, 3) and labels.shape == (11,)
    assert -1 <= images.numpy().min() < images.numpy().max() <= 1
