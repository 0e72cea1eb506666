import json
import re
import types

import numpy as np
import pytest
import tensorflow as tf

from vitkeras.recipes import vtab, vtab_tasks
from vitkeras.recipes.runner import open_splits
from vitkeras.recipes.vtab_tasks import TASKS, Unavailable, interval

SETS = ["model.num_layers=1", "model.hidden_dim=24", "model.num_heads=3", "model.mlp_dim=48", "model.weights=none"]
SETS += ["data.image_size=(32, 48)", "train.steps=2", "train.batch_size=7", "data.limit=40", "optimizer.warmup_steps=1"]


def run(workdir, *more, data=("--data", "mock:32x48x5")):
    sets = [part for text in (*SETS, *more) for part in ("--set", text)]
    return vtab.main(["--config", "vtab", "--workdir", str(workdir), *data, *sets])


def test_the_suite_gives_a_mean_for_each_group(tmp_path, capsys):
    assert run(tmp_path / "run", "suite.tasks=('dtd', 'pets', 'eurosat')") == 0
    out, err = capsys.readouterr()
    result = json.loads((tmp_path / "run" / "vtab.json").read_text())
    tasks = result["tasks"]
    assert list(tasks) == ["dtd", "pets", "eurosat"] and result["missing"] == {}
    assert result["groups"] == {"natural": (tasks["dtd"] + tasks["pets"]) / 2, "specialised": tasks["eurosat"]}
    assert result["mean"] == pytest.approx(sum(tasks.values()) / 3)
    assert "mean of the tasks" in out and "40 training and 16 test images" in err
    assert run(tmp_path / "run", "suite.tasks=('dtd', 'pets', 'eurosat')") == 0
    assert capsys.readouterr().out.startswith("this run is finished: mean accuracy")


def test_settings_are_chosen_on_the_dev_part(tmp_path, capsys):
    assert run(tmp_path / "run", "suite.tasks=('dtd',)", "suite.part=train") == 0
    assert "32 training and 8 dev images" in capsys.readouterr().err


def test_missing_sets_are_named_after_the_others_ran(tmp_path, capsys, monkeypatch):
    from vitkeras import data

    def open_task(name):
        if name == "pets":
            raise Unavailable("tfds:oxford_iiit_pet (no network)")
        return data.open_dataset("mock:32x48x5")

    monkeypatch.setattr(vtab, "open_task", open_task)
    assert run(tmp_path / "run", "suite.tasks=('pets', 'dtd', 'eurosat')", data=()) == 1
    out, err = capsys.readouterr()
    message = "error: 1 of 3 tasks have no data set here: pets: tfds:oxford_iiit_pet (no network)."
    assert err.splitlines()[-1] == message
    result = json.loads((tmp_path / "run" / "vtab.json").read_text())
    assert list(result["tasks"]) == ["dtd", "eurosat"]
    assert result["groups"]["natural"] is None and result["mean"] is None
    assert result["groups"]["specialised"] == result["tasks"]["eurosat"]
    monkeypatch.setattr(vtab, "open_task", lambda name: data.open_dataset("mock:32x48x5"))
    assert run(tmp_path / "run", "suite.tasks=('pets', 'dtd', 'eurosat')", data=()) == 0  # only the missing one trains
    assert capsys.readouterr().err.count("step 2/2") == 2


def test_unknown_task(tmp_path, capsys):
    assert run(tmp_path / "run", "suite.tasks=('pet',)") == 2
    assert "received 'pet'; nearest: 'pets'" in capsys.readouterr().err


def test_a_set_that_is_nowhere_is_unavailable(monkeypatch):
    monkeypatch.setitem(TASKS, "dtd", vtab_tasks.Task("natural", "no_such_set_at_all", 47))
    with pytest.raises(Unavailable, match="tfds:no_such_set_at_all"):
        vtab_tasks.open_task("dtd")


def test_derived_labels():
    objects = {"size": tf.zeros(7), "pixel_coords": tf.constant([[0, 0, 9.2], [0, 0, 8.7]])}
    assert int(vtab_tasks.clevr_count({"objects": objects})) == 4
    assert int(vtab_tasks.clevr_distance({"objects": objects})) == 2  # 8.5 to 9
    location = tf.constant([[0, 0, 3.0], [0, 0, 9.0], [0, 0, 30.0]])
    for kinds, expected in (([5, 0, 1], 1), ([5, 6, 2], 2), ([5, 6, 7], 3), ([0, 0, 0], 0)):
        record = {"objects": {"location": location, "type": tf.constant(kinds, tf.int64)}}
        assert int(vtab_tasks.kitti_distance(record)) == expected
    bins = [int(TASKS["dsprites_location"].label({"label_x_position": tf.constant(x)})) for x in range(32)]
    assert bins == list(np.repeat(np.arange(16), 2))
    bins = [int(TASKS["dsprites_orientation"].label({"label_orientation": tf.constant(x)})) for x in range(40)]
    assert bins == [x * 16 // 40 for x in range(40)] and max(bins) == 15
    assert int(TASKS["smallnorb_azimuth"].label({"label_azimuth": tf.constant(17)})) == 17


def test_intervals():
    assert [int(interval(tf.constant(x), (0.0, 8.0, 9.0))) for x in (-1.0, 0.5, 8.5, 99.0)] == [0, 0, 1, 2]


@pytest.mark.filterwarnings("ignore")  # TFDS makes up records with packages of its own, which warn
@pytest.mark.parametrize("name", [name for name, task in TASKS.items() if task.label is not None])
def test_derived_labels_are_read_through_tfds(name, monkeypatch):
    tfds = pytest.importorskip("tensorflow_datasets")
    # Made-up sets don't say how many records they have.
    monkeypatch.setattr(vtab_tasks, "_range", lambda builder, split, *_: (split, range(12)))
    with tfds.testing.mock_data(num_examples=12):
        splits = vtab_tasks.open_task(name)
        assert len(splits.class_names) == TASKS[name].classes
        for images in (splits.train, splits.test):
            records = images._make_records(0, 3)
            assert records.element_spec["label"].shape == () and records.element_spec["label"].dtype.is_integer
            if name == "kitti_distance":  # TFDS makes up lists of unequal length for it, which it then refuses
                continue
            record = next(iter(records))
            if name != "clevr_count":  # a made-up record lists any number of objects
                assert 0 <= int(record["label"]) < TASKS[name].classes
            assert images.image(record).shape[-1] == 3


class StoredSet:
    """A TFDS builder whose record k of a split has `split k` for an image and k as every label."""

    def __init__(self, sizes):
        splits = {split: types.SimpleNamespace(num_examples=count) for split, count in sizes.items()}
        self.info = types.SimpleNamespace(splits=splits)

    def download_and_prepare(self):
        pass

    def as_dataset(self, split, **_):
        name, start, stop = re.fullmatch(r"(\w+)\[(\d+):(\d+)\]", split).groups()
        assert int(stop) <= self.info.splits[name].num_examples
        numbers = tf.data.Dataset.range(int(start), int(stop))
        keys = ("label", "label_x_position", "label_azimuth")
        return numbers.map(lambda k: {"image": name + " " + tf.strings.as_string(k), **dict.fromkeys(keys, k)})


def spans(images):
    """The images of a set as (split, first, last) of unbroken runs."""
    runs = []
    for record in images._make_records(images._start, images._start + images.num_examples):
        split, number = record["image"].numpy().decode().split()
        if runs and runs[-1][0] == split and runs[-1][2] == int(number) - 1:
            runs[-1][2] += 1
        else:
            runs.append([split, int(number), int(number)])
    return [tuple(run) for run in runs]


@pytest.mark.parametrize(
    "name, sizes, train, dev, test",
    [
        ("cifar100", {"train": 5003, "test": 7}, ("train", 0, 799), ("train", 4502, 4701), ("test", 0, 6)),
        (
            "dtd",
            {"train": 1880, "validation": 307, "test": 11},
            ("train", 0, 799),
            ("validation", 0, 199),
            ("test", 0, 10),
        ),
        ("eurosat", {"train": 2701}, ("train", 0, 799), ("train", 1620, 1819), ("train", 2160, 2700)),
        ("dsprites_location", {"train": 3001}, ("train", 0, 799), ("train", 2400, 2599), ("train", 2700, 3000)),
        ("smallnorb_azimuth", {"train": 811, "test": 503}, ("train", 0, 799), ("test", 0, 199), ("test", 251, 502)),
    ],
)
def test_parts_are_the_benchmarks(monkeypatch, name, sizes, train, dev, test):
    tfds = pytest.importorskip("tensorflow_datasets")
    monkeypatch.setattr(tfds, "builder", lambda _: StoredSet(sizes))
    splits = open_splits(vtab.CONFIGS["vtab_dev"](), vtab_tasks.open_task(name))
    assert spans(splits.train) == [train, dev] and splits.train.num_examples == 1000
    assert spans(splits.train_without_dev) == [train] and spans(splits.dev) == [dev]
    assert spans(splits.test) == [test]


def test_what_the_thousand_leave_comes_after_them(monkeypatch):
    tfds = pytest.importorskip("tensorflow_datasets")
    monkeypatch.setattr(tfds, "builder", lambda _: StoredSet({"train": 1000, "validation": 307, "test": 11}))
    train = vtab_tasks.open_task("dtd").train
    rest = [("train", 800, 999), ("validation", 200, 306)]
    assert spans(train) == [("train", 0, 799), ("validation", 0, 199), *rest]
    assert spans(train.part(798, 802, "four")) == [("train", 798, 799), ("validation", 0, 1)]


def test_every_set_has_parts():
    assert set(vtab_tasks.PARTS) == {task.dataset for task in TASKS.values()}


def test_two_values_become_black_and_white():
    task = TASKS["dsprites_location"]
    assert task.scale == 255 and {t.scale for t in TASKS.values()} == {1, 255}
