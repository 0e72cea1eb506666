"""CSV lists: which rows are taken, and what is said of the others."""

import os
import re

import pytest

from vitkeras.data import open_dataset, raw_images


@pytest.fixture
def make_list(make_folder):
    """Function: text, further files -> path of a list beside seven images a/0.jpg ... b/6.png."""

    def make(text, files=None):
        images = {f"{'ab'[i % 2]}/{i}.{'jpg' if i % 2 else 'png'}": None for i in range(7)}
        encoded = text if isinstance(text, bytes) else text.encode()
        return make_folder({**images, **(files or {}), "list.csv": encoded}) / "list.csv"

    return make


def rows(*numbers, split=None):
    tail = "" if split is None else f",{split}"
    return "".join(
        f"{'ab'[i % 2]}/{i}.{'jpg' if i % 2 else 'png'},{'cat' if i % 3 else 'ant'}{tail}\n" for i in numbers
    )


def test_a_list_with_splits(make_list):
    text = "path,label,split\n" + rows(3, 0, 4, split="train") + rows(6, 1, split="val")
    path = make_list(text)
    splits = open_dataset(f"csv:{path}")
    assert splits.class_names == ("ant", "cat") and splits.name == f"csv:{path}"
    names = [[os.path.relpath(file, path.parent) for file in part.paths] for part in (splits.train, splits.test)]
    assert names == [["b/3.jpg", "a/0.png", "a/4.png"], ["a/6.png", "b/1.jpg"]]  # in the list's order
    assert splits.train.labels.tolist() == [0, 0, 1] and splits.test.labels.tolist() == [0, 1]
    assert raw_images(splits.train, 8)[0].shape == (3, 8, 8, 3)


def test_a_list_without_splits_is_split_by_class(make_list):
    splits = open_dataset(f"csv:{make_list('path,label' + chr(10) + rows(*range(7)))}", test_fraction=0.3, seed=2)
    assert splits.train.num_examples == 5 and sorted(splits.test.labels) == [0, 1]


def test_columns_in_any_order_quotes_a_mark_and_absolute_paths(make_list, picture, tmp_path):
    from PIL import Image

    elsewhere = tmp_path / "else, where.png"
    Image.fromarray(picture).save(elsewhere)
    text = f'\ufeffweight, label ,path\r\n1,"big, cat",b/1.jpg\r\n\r\n2,ant,"{elsewhere}"\r\n3,ant,a/0.png\r\n'
    path = make_list(text + '4,"big, cat",b/3.jpg')
    splits = open_dataset(f"csv:{path}", test_fraction=0.5)
    assert splits.class_names == ("ant", "big, cat")
    assert str(elsewhere) in splits.train.paths + splits.test.paths


def test_class_names_of_a_file(make_list):
    text = "path,label,split\n" + rows(0, 1, 2, split="train") + rows(3, split="test")
    splits = open_dataset(f"csv:{make_list(text, {'classes.txt': b'cat' + bytes([10]) + b'ant'})}")
    assert splits.class_names == ("cat", "ant") and splits.train.labels.tolist() == [1, 0, 0]


def test_bad_images_are_refused_or_skipped(make_list):
    text = "path,label,split\n" + rows(0, 1, 2, 3, split="train") + "x.jpg,cat,test\nb/5.jpg,cat,test\n"
    path = make_list(text, {"x.jpg": b"no image"})
    with pytest.raises(
        ValueError, match=r"1 of 6 images of data csv '.*list.csv' cannot be read; .*: x.jpg \(ValueErr"
    ):
        open_dataset(f"csv:{path}")
    with pytest.warns(UserWarning, match=r"1 of 6 images of data csv .* are skipped: x.jpg") as caught:
        splits = open_dataset(f"csv:{path}", on_bad_image="skip")
    assert caught[0].filename == __file__
    assert splits.test.num_examples == 1 and [os.path.basename(name) for name, _ in splits.test.skipped] == ["x.jpg"]


def test_missing_images_are_named(make_list):
    path = make_list("path,label\n" + rows(0, 1, 2, 3) + "b/9.jpg,ant\n")
    with pytest.raises(ValueError, match=r"1 of 5 images .*: b/9.jpg \(FileNotFoundError"):
        open_dataset(f"csv:{path}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must name the columns path and label in its first line, received []: path and label missing."),
        ("path,class\na,b\n", "received ['path', 'class']: label missing."),
        ("path,label\n", "must have a row for every image, received none."),
        ("path,label\na/0.png,ant,x\n", "must have usable rows only, received 1 others: line 2 (1 cells too many)."),
        ("path,label\na/0.png\n", "received 1 others: line 2 (1 cells too few)."),
        ("path,label\n,ant\na/0.png, \n", "received 2 others: line 2 (no path); line 3 (no label)."),
        (
            "path,label\na/0.png,ant\n\na/0.png,cat\n",
            "received 1 others: line 4 (the path of line 2 again).",
        ),
        (
            "path,label,split\na/0.png,ant,dev\n",
            "received 1 others: line 2 (split 'dev' is none of train, test, val, validation).",
        ),
        (b"path,label\n\xff,ant\n", "must be UTF-8 text, received other bytes"),
        ("path,label\n" + rows(0, 3), "must have at least 2 classes, received ('ant',)."),
        ("path,label,split\n" + rows(0, 1, split="train"), "must have rows of the split test, received none."),
        ("path,label,split\n" + rows(0, 1, split="test"), "must have rows of the split train, received none."),
        (
            "path,label,split\n" + rows(0, 1, split="train") + "a/2.png,eel,test\n",
            "must hold out classes of training only, received also eel.",
        ),
        (
            "path,label\n" + rows(0, 1, 2),
            "must hold 2 images (one is held out) of every class, received too few of ant.",
        ),
    ],
)
def test_lists_that_are_refused(make_list, text, message):
    path = make_list(text)
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        open_dataset(f"csv:{path}")
    assert "\n" not in str(error.value) and "list.csv" in str(error.value)


def test_one_class_may_be_looked_through(make_list):
    splits = open_dataset(f"csv:{make_list('path,label' + chr(10) + rows(0, 3))}", test_fraction=None)
    assert splits.class_names == ("ant",) and splits.test.num_examples == 2


def test_labels_that_the_names_file_lacks(make_list):
    path = make_list("path,label\n" + rows(0, 1, 2, 3), {"classes.txt": b"ant\ndog\n"})
    with pytest.raises(
        ValueError, match=r"must have labels of classes.txt only, received others in line 3 \('cat'\), "
    ):
        open_dataset(f"csv:{path}")
    path.with_name("classes.txt").write_text("ant\ncat\nant\n")
    with pytest.raises(ValueError, match="classes.txt' must name each class once, received 1 again"):
        open_dataset(f"csv:{path}")


def test_no_such_list(tmp_path):
    with pytest.raises(ValueError, match="data csv must be a file, received"):
        open_dataset(f"csv:{tmp_path}")
