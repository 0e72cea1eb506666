import errno
import json
import os
import pathlib
import re

import numpy as np
import pytest

from vitkeras.training import Checkpointer, CheckpointError
from vitkeras.training import checkpoint_files as files
from vitkeras.training.checkpointing import MAY_CHANGE, differences

CONFIG = {"data": {"image_size": (17, 19), "service": None}, "train": {"seed": 5, "keep": 3, "steps": 70}}


def state(step=0):
    rng = np.random.default_rng(step)
    return {
        "model/head/kernel": rng.normal(size=(5, 7)).astype("float32"),
        "optimizer/iteration": np.array(step),
        "file": np.arange(3, dtype="uint8"),
        "empty": np.zeros((0, 3), "float16"),
    }


def saver(folder, **kwargs):
    return Checkpointer(folder / "checkpoints", **kwargs)


def test_arrays_and_meta_come_back(tmp_path):
    one = saver(tmp_path, config=CONFIG, class_names=["ash", "elm"], seed=5)
    assert one.latest() is None and one.restore() is None and one.best() is None
    path = one.save(7, state(7), metric=0.25, extra={"log": {"loss": 1.5}})
    assert sorted(os.listdir(path)) == ["arrays.npz", "meta.json"]
    found = saver(tmp_path, config=CONFIG, class_names=("ash", "elm")).restore()
    assert found.step == 7 and found.arrays.keys() == state().keys()
    for name, array in state(7).items():
        assert found.arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(found.arrays[name], array)
    assert found.arrays["optimizer/iteration"].shape == ()
    meta = json.loads((tmp_path / "checkpoints" / "ckpt-7" / "meta.json").read_text())
    assert meta["seed"] == 5 and meta["class_names"] == ["ash", "elm"] and meta["metric"] == 0.25
    assert meta["config"]["data"]["image_size"] == [17, 19]
    assert meta["versions"].keys() == {"vitkeras", "keras", "numpy", "python"}
    assert one.extra(7) == {"log": {"loss": 1.5}}


def test_numpy_alone_reads_the_arrays(tmp_path):
    with np.load(os.path.join(saver(tmp_path).save(3, state(3)), "arrays.npz")) as file:
        np.testing.assert_array_equal(file["model/head/kernel"], state(3)["model/head/kernel"])


def test_the_last_and_the_best_stay(tmp_path):
    one = saver(tmp_path, keep=2)
    for step, metric in ((10, 0.5), (20, 0.75), (30, 0.75), (40, None), (50, 0.25)):
        one.save(step, state(step), metric)
    assert sorted(os.listdir(tmp_path / "checkpoints")) == ["BEST", "LAST", "ckpt-20", "ckpt-40", "ckpt-50"]
    assert one.latest() == 50 and one.best() == (20, 0.75)
    np.testing.assert_array_equal(one.restore(20).arrays["file"], state(20)["file"])


def test_the_same_step_is_written_once_and_takes_a_metric(tmp_path):
    one = saver(tmp_path)
    path = one.save(7, state(7))
    before = os.stat(os.path.join(path, "arrays.npz"))
    one.save(7, state(7), metric=0.5)
    after = os.stat(os.path.join(path, "arrays.npz"))
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert one.best() == (7, 0.5) and one.restore().meta["metric"] == 0.5


def test_what_a_dead_process_left_is_cleared(tmp_path):
    one = saver(tmp_path, keep=1)
    one.save(3, state(3))
    for name in ("ckpt-9", ".ckpt-9.part", "ckpt-2"):  # renamed but not pointed at; half written; half removed
        (tmp_path / "checkpoints" / name).mkdir()
        (tmp_path / "checkpoints" / name / "arrays.npz").write_bytes(b"half")
    assert one.restore().step == 3
    one.save(9, state(9))
    assert sorted(os.listdir(tmp_path / "checkpoints")) == ["LAST", "ckpt-9"]
    assert one.restore().step == 9


@pytest.mark.parametrize("stage", ["_force", "_write_arrays", "write_json", "os.mkdir", "os.rename"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
def test_a_disk_that_takes_nothing_leaves_the_last_good_one(tmp_path, monkeypatch, stage, code):
    def full(*_):
        raise OSError(code, os.strerror(code))

    one = saver(tmp_path)
    one.save(3, state(3))
    with monkeypatch.context() as patch:
        patch.setattr(f"vitkeras.training.checkpoint_files.{stage}", full)
        message = rf"could not be written to .*checkpoints \({os.strerror(code)}\); the last good one is ckpt-3\."
        with pytest.raises(CheckpointError, match="checkpoint ckpt-5 " + message):
            one.save(5, state(5))
    assert sorted(os.listdir(tmp_path / "checkpoints")) == ["LAST", "ckpt-3"]
    assert one.restore().step == 3
    one.save(5, state(5))
    assert one.latest() == 5


def test_a_real_full_disk(tmp_path):
    """/dev/full takes no byte."""
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    with pytest.raises(OSError, match="No space left"), open("/dev/full", "wb") as file:
        files._write_arrays(file, {"big": np.zeros(1 << 18)})


def test_a_folder_that_can_not_be_made(tmp_path):
    (tmp_path / "checkpoints").write_text("a file is in the way")
    with pytest.raises(CheckpointError, match=r"could not be written to .* \(.*\); there is none before it\."):
        saver(tmp_path).save(5, state(5))


def test_a_read_only_workdir(tmp_path):
    one = saver(tmp_path)
    one.save(3, state(3))
    folder = tmp_path / "checkpoints"
    folder.chmod(0o555)
    try:
        if os.access(folder, os.W_OK):
            pytest.skip("this user may write everywhere")
        with pytest.raises(CheckpointError, match="Permission denied.; the last good one is ckpt-3"):
            one.save(5, state(5))
    finally:
        folder.chmod(0o755)
    assert one.restore().step == 3


def damage(path, how):
    arrays, meta = os.path.join(path, "arrays.npz"), os.path.join(path, "meta.json")
    if how == "flipped":
        content = bytearray(pathlib.Path(arrays).read_bytes())
        content[250] ^= 1  # within the first array's values
        pathlib.Path(arrays).write_bytes(content)
    elif how == "cut":
        os.truncate(arrays, os.path.getsize(arrays) // 2)
    elif how == "gone":
        os.remove(arrays)
    elif how == "other":
        np.savez(arrays, **{"model/head/kernel": np.zeros((5, 7), "float32")})
    elif how == "meta":
        pathlib.Path(meta).write_text('{"step": 3')
    elif how == "no meta":
        os.remove(meta)


@pytest.mark.parametrize(
    "how, message",
    [
        ("flipped", "arrays.npz can't be read .*CRC"),
        ("cut", "arrays.npz can't be read"),
        ("gone", "arrays.npz can't be read .*No such file"),
        ("other", "arrays.npz and meta.json differ in empty, file, optimizer/iteration"),
        ("meta", "meta.json can't be read"),
        ("no meta", "meta.json can't be read"),
    ],
)
def test_a_damaged_checkpoint_is_named(tmp_path, how, message):
    one = saver(tmp_path)
    one.save(2, state(2))
    damage(one.save(3, state(3)), how)
    with pytest.raises(ValueError, match=rf"checkpoint .*ckpt-3 is damaged: {message}"):
        one.restore()
    assert one.restore(2).step == 2


def test_a_damaged_pointer_is_named(tmp_path):
    one = saver(tmp_path)
    one.save(3, state(3))
    (tmp_path / "checkpoints" / "LAST").write_text("ckpt-\n")
    with pytest.raises(ValueError, match=r"LAST must name a checkpoint such as ckpt-120, received 'ckpt-'"):
        one.restore()


def changed(section, **values):
    return {**CONFIG, section: {**CONFIG[section], **values}}


def test_another_configuration_is_refused_and_its_fields_are_named(tmp_path):
    saver(tmp_path, config=CONFIG).save(3, state(3))
    other = {**changed("train", seed=6, steps=80), "data": {**CONFIG["data"], "flip": True}}
    message = (
        r"ckpt-3 is of a run with another configuration: "
        r"data.flip (None, now True), train.seed (5, now 6), train.steps (70, now 80)."
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        saver(tmp_path, config=other).restore()


@pytest.mark.parametrize("config", [changed("train", keep=9), changed("data", service="grpc://host:1"), None])
def test_some_fields_may_change(tmp_path, config):
    saver(tmp_path, config=CONFIG).save(3, state(3))
    assert saver(tmp_path, config=config).restore().step == 3


def test_nothing_that_changes_a_weight_is_on_the_list():
    assert not set(MAY_CHANGE) & {"train.seed", "train.steps", "train.epochs", "train.batch_size", "train.accumulate"}
    assert differences(CONFIG, CONFIG) == []
    assert differences({"a": {}}, {"a": {"b": 3}}, defaults={"a": {"b": 3}}) == []
    assert differences({"a": {"b": 2}}, {"a": {"b": 3}}, defaults={"a": {"b": 3}}) == ["a.b (2, now 3)"]


def test_other_classes_are_refused(tmp_path):
    saver(tmp_path, class_names=("ash", "elm")).save(3, state(3))
    with pytest.raises(ValueError, match="is of a run with the classes ash, elm, received ash, oak"):
        saver(tmp_path, class_names=("ash", "oak")).restore()


def test_bad_arguments(tmp_path):
    with pytest.raises(ValueError, match="keep must be >= 1, received 0"):
        saver(tmp_path, keep=0)
    with pytest.raises(ValueError, match="'names' is of dtype <U3"):
        saver(tmp_path).save(1, {"names": np.array(["ash"])})
    assert not (tmp_path / "checkpoints").exists()


def test_remove(tmp_path):
    one = saver(tmp_path)
    one.remove()
    one.save(3, state(3))
    one.remove()
    assert one.latest() is None and not (tmp_path / "checkpoints").exists()


def test_long_lists_are_cut():
    assert files.some("abcdefg") == "a, b, c, d, e and 2 more" and files.some("ab") == "a, b"
