import json

import numpy as np
import pytest

from vitkeras.recipes import class_map
from vitkeras.recipes.real_file import read_real_labels, real_labels_of

NAMES = ("analog clock", "digital_clock", "crane", "crane", "plunger, plumber's helper")
OBJECTNET = {"Alarm clock": "analog clock; digital clock", "Plunger": "plunger, plumber's helper", "Tent": "crane"}


@pytest.fixture
def write(tmp_path):
    def write(values, name="map.json"):
        (tmp_path / name).write_text(values if isinstance(values, str) else json.dumps(values))
        return str(tmp_path / name)

    return write


def test_by_name_and_by_order():
    found = class_map.class_map(("elm", "ash"), ("ash", "beech", "elm"), 3)
    assert found.targets == ((2,), (0,)) and found.is_single and not found.is_whole
    assert found.owners.tolist() == [1, -1, 0] and found.columns.tolist() == [[2, 0]]
    assert class_map.class_map(("elm", "ash"), (), 2).is_whole


def test_objectnets_file(write):
    found = class_map.class_map(("alarm_clock", "sock", "plunger"), NAMES, 5, write({**OBJECTNET, "Tent": 3}))
    assert found.targets == ((0, 1), (), (4,))
    assert found.covered.tolist() == [0, 2] and found.columns.tolist() == [[0, -1, 4], [1, -1, 4]]
    assert found.owners.tolist() == [0, 0, -1, -1, 2] and not found.is_single
    assert found.unused == ("Tent",)


def test_objectnets_own_names_of_its_folders_come_first(write):
    write({"time_piece": "Alarm clock", "alarm_clock": "Something else"}, class_map.FOLDERS)
    found = class_map.class_map(("alarm_clock", "time_piece"), NAMES, 5, write(OBJECTNET | {"Tent": 3}))
    assert found.targets == ((), (0, 1)) and found.unused == ("Plunger", "Tent")


def test_numbers_names_and_lists(write):
    found = class_map.class_map(("a", "b", "c"), NAMES, 5, write({"a": 3, "b": [0, "digital_clock", 0], "c": None}))
    assert found.targets == ((3,), (0, 1), ())


def test_wordnet_folders_meet_a_model_of_imagenet_without_names(monkeypatch):
    ids = [f"n{k:08d}" for k in range(1000)]
    monkeypatch.setattr(class_map, "_imagenet", lambda: [(id, f"name {id}") for id in ids])
    assert class_map.class_map((ids[7], ids[123]), (), 1000).targets == ((7,), (123,))
    with pytest.raises(ValueError, match="must have the model's 1000 classes, received 2"):
        class_map.class_map(("elm", "ash"), (), 1000)


def test_imagenets_names_serve_a_label_map(monkeypatch, write):
    names = [(f"n{k:08d}", f"thing_{k}") for k in range(1000)]
    monkeypatch.setattr(class_map, "_imagenet", lambda: names)
    path = write({"a": "thing 3, other name", "b": "n00000005"})
    assert class_map.class_map(("a", "b"), (), 1000, path).targets == ((3,), (5,))


@pytest.mark.parametrize(
    "values, outputs, message",
    [
        ({"a": "pebble"}, 5, "label map must name classes of the model, received 'pebble', the name of none"),
        ({"a": "crane"}, 5, "received 'crane', the name of several"),
        ({"a": 5}, 5, "label map must hold names or numbers in 0...4, received 5"),
        ({"a": True}, 5, "received True"),
        ({"a": 0.5}, 5, "received 0.5"),
        ({"x": 0}, 5, "must name some of the data's classes, such as 'a'; it names 'x'"),
        ({"a b": 0, "A_b": 1}, 5, "must name each class once"),
        ([1, 2], 5, "must be a JSON object of class names, received list"),
        ("{", 5, "must be a JSON file, received other text"),
        ({"a": "elm"}, 7, "label map must hold numbers where the model's names are unknown"),
    ],
)
def test_bad_maps(write, values, outputs, message):
    with pytest.raises(ValueError, match=message):
        class_map.class_map(("a",), NAMES if outputs == 5 else (), outputs, write(values))


def test_a_name_of_two_outputs_is_no_answer():
    with pytest.raises(ValueError, match="must have names of their own, received 'crane' for several"):
        class_map.class_map(("crane",), NAMES, 5)


def test_imagenets_order_is_that_of_the_wordnet_ids():
    ids = [f"n{k:08d}" for k in range(1000)]
    turned = ids[::-1]
    whole = class_map.ClassMap(tuple((k,) for k in range(1000)), 1000)
    assert class_map.imagenet_outputs(("a",), turned, whole)[:2].tolist() == [999, 998]
    few = class_map.ClassMap(((7,),), 1000)
    np.testing.assert_array_equal(class_map.imagenet_outputs(("a",), (), few), np.arange(1000))
    assert class_map.imagenet_outputs(tuple(turned), (), whole)[0] == 999  # the data's own order is another one
    with pytest.raises(ValueError, match="real_labels are for models of ImageNet's 1000 classes, received one of 3"):
        class_map.imagenet_outputs(("a",), (), class_map.ClassMap(((0,),), 3))


def test_real_labels_go_by_the_number_in_the_file_name(write):
    real = read_real_labels(write([[7], [], [1, 2]], "real.json"))
    names = ["ILSVRC2012_val_00000003.JPEG", "x/ILSVRC2012_val_00000001.png", "ILSVRC2012_val_00000002.JPEG"]
    assert real_labels_of(names, real) == [[1, 2], [7], []]


@pytest.mark.parametrize(
    "names, message",
    [
        (None, "real_labels go by the images' file names, which these data lack"),
        (["daisy.jpg", "b.jpg"], "such as ILSVRC2012_val_00000001.JPEG, received 'daisy.jpg' and 1 others like it"),
        (["ILSVRC2012_val_00000004.JPEG"], "must have an entry for image 4, received 3 entries"),
        (["ILSVRC2012_val_00000000.JPEG"], "must have an entry for image 0, received 3 entries"),
    ],
)
def test_images_without_real_labels(names, message):
    with pytest.raises(ValueError, match=message):
        real_labels_of(names, [[7], [], [1]])


def test_files_that_are_not_there_or_no_text(tmp_path):
    def read_map(path):
        return class_map.class_map(("a",), NAMES, 5, path)

    for read, name in ((read_map, "label map"), (read_real_labels, "real_labels")):
        with pytest.raises(ValueError, match=f"{name} must be a file that exists, received .*none.json'"):
            read(str(tmp_path / "none.json"))
        (tmp_path / "bytes.json").write_bytes(b"\xff\xfe")
        with pytest.raises(ValueError, match=f"{name} .*bytes.json must be a text file in UTF-8, received other bytes"):
            read(str(tmp_path / "bytes.json"))


@pytest.mark.parametrize(
    "values, message",
    [
        ("nothing", "must be a JSON file, received other text"),
        ({"a": [1]}, "must be a list of lists, received dict"),
        ([[1], 2], "must hold lists of numbers in 0...999, received 2 for image 2"),
        ([[1000]], r"received \[1000\] for image 1"),
    ],
)
def test_bad_real_files(write, values, message):
    with pytest.raises(ValueError, match=message):
        read_real_labels(write(values, "real.json"))
