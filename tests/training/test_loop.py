"""The loop on an engine that counts: what it does at which step. With a real engine: test_resume."""

import io
import types

import numpy as np
import pytest

from vitkeras.training import Checkpointer, Outcome, StopSignal, loop, resume, train


class Counting:
    """Steps are numbers; the loss of step k (from 1) is k."""

    strategy = types.SimpleNamespace()

    def __init__(self, accuracies=()):
        self.step, self.starts, self.chunks = 0, [], []
        self.accuracies = iter(accuracies)

    def iterator(self, start):
        self.starts.append(start)

    def run(self, iterator, count):
        first, self.step = self.step, self.step + count
        self.chunks.append(self.step)
        losses = np.arange(first + 1, self.step + 1, dtype="float32")
        return {"loss": losses, "accuracy": losses / 100}

    def evaluate(self, dataset, use_ema):
        return {"loss": 1.0, "accuracy": next(self.accuracies, 0.5), "count": 3, "ema": use_ema}

    def learning_rate(self, step):
        return step / 10

    def state(self):
        return {"step": np.array(self.step)}

    def restore(self, arrays):
        if arrays.keys() != {"step"}:
            raise ValueError("missing arrays: step.")
        self.step = int(arrays["step"])


class Rows(list):
    def train(self, step, loss, accuracy, learning_rate):
        self.append((step, "train", loss, learning_rate))

    def evaluation(self, step, loss, accuracy, split):
        self.append((step, split, accuracy))


def run(engine, total, saver=None, rows=None, **kwargs):
    kwargs = {"log_every": 4, "evaluations": {"dev": None}, "save_seconds": None, **kwargs}
    return train(engine, lambda start: start, total, checkpointer=saver, log=rows, **kwargs)


def test_rows_evaluations_and_checkpoints_come_at_their_steps(tmp_path):
    engine, rows, saver = Counting([0.5, 0.25, 0.75]), Rows(), Checkpointer(tmp_path / "c", keep=9)
    outcome = run(engine, 13, saver, rows, evaluate_every=6, save_every=5)
    assert outcome == Outcome(13, True, {"dev": {"loss": 1.0, "accuracy": 0.75, "count": 3, "ema": False}})
    assert engine.starts == [0]
    assert [row for row in rows if row[1] == "train"] == [
        (4, "train", 2.5, 0.3),
        (6, "train", 5.5, 0.5),
        (8, "train", 7.5, 0.7),
        (12, "train", 10.5, 1.1),
        (13, "train", 13.0, 1.2),
    ]
    assert [row for row in rows if row[1] == "dev"] == [(6, "dev", 0.5), (12, "dev", 0.25), (13, "dev", 0.75)]
    names = sorted(path.name for path in (tmp_path / "c").iterdir())
    assert names == ["BEST", "LAST", "ckpt-10", "ckpt-13", "ckpt-5", "ckpt-6"]  # 6: the best so far; 12 was not
    assert saver.best() == (13, 0.75)


def test_a_stopped_run_saves_and_its_rows_go_on_unbroken(tmp_path):
    rows, whole = Rows(), Rows()
    run(Counting(), 13, rows=whole)
    stop = StopSignal()

    class Stopping(Counting):
        def run(self, iterator, count):
            if self.step + count >= 6:
                stop.request("SIGTERM")
            return super().run(iterator, count)

    engine, saver = Stopping(), Checkpointer(tmp_path / "c")
    outcome = run(engine, 13, saver, rows, stop=stop, save_every=3)
    assert outcome == Outcome(6, False, {}) and saver.latest() == 6
    engine = Counting()
    assert resume(engine, saver) == 6
    run(engine, 13, saver, rows, save_every=3)
    assert engine.starts == [6] and rows == whole  # row 8 is the mean of 5...8, though 5 and 6 were before the stop


def test_without_a_checkpoint_a_run_starts_at_0(tmp_path):
    assert resume(Counting(), Checkpointer(tmp_path)) == 0


def test_a_finished_run_is_evaluated_only(tmp_path):
    saver, rows = Checkpointer(tmp_path / "c"), Rows()
    run(Counting(), 5, saver)
    engine = Counting([0.125])
    assert resume(engine, saver) == 5
    assert run(engine, 5, saver, rows).metrics["dev"]["accuracy"] == 0.125
    assert engine.starts == [] and engine.chunks == [] and rows == []


def test_time_based_checkpoints(tmp_path, monkeypatch):
    clock = iter(range(10_000))
    monkeypatch.setattr(loop.time, "monotonic", lambda: next(clock))
    saver = Checkpointer(tmp_path / "c", keep=99)
    run(Counting(), 40, saver, evaluations={}, save_seconds=9, log_every=2)
    steps = sorted(int(path.name[5:]) for path in (tmp_path / "c").glob("ckpt-*"))
    assert steps[-1] == 40 and 3 <= len(steps) <= 20


def test_chunks_are_short_enough_for_a_signal(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(loop.time, "monotonic", lambda: now[0])

    class Slow(Counting):
        def run(self, iterator, count):
            now[0] += 2.0 * count
            return super().run(iterator, count)

    engine, rows = Slow(), Rows()
    run(engine, 20, rows=rows, log_every=20)
    assert engine.chunks[:2] == [2, 4] and engine.chunks[-1] == 20
    assert max(np.diff(engine.chunks[1:])) <= loop.CHUNK_SECONDS / 2.0
    assert [row[0] for row in rows] == [20, 20] and rows[0][2] == 10.5  # one row all the same


def test_averaged_weights_are_evaluated_when_asked_for():
    assert run(Counting(), 3, use_ema=True).metrics["dev"]["ema"] is True


def test_a_checkpoint_of_another_model_is_refused(tmp_path):
    saver = Checkpointer(tmp_path / "c")
    saver.save(3, {"weights": np.zeros(3)})
    with pytest.raises(ValueError, match=r"checkpoint .*ckpt-3 is of another model: missing arrays: step\."):
        resume(Counting(), saver)


def test_a_single_process_is_the_chief():
    import tensorflow as tf

    assert loop.is_chief(tf.distribute.get_strategy()) and loop.is_chief(tf.distribute.OneDeviceStrategy("CPU:0"))


def test_a_log_that_goes_on_has_no_double_rows(tmp_path):
    from vitkeras.training import RunLog
    from vitkeras.training.logs import read_log

    with RunLog(tmp_path, 9, 5, stream=io.StringIO()) as log:
        for step in (2, 4, 6):
            log.train(step, loss=step / 2, accuracy=0.5, learning_rate=0.1)
        log.evaluation(4, loss=0.25, accuracy=0.75, split="dev")
    with open(tmp_path / "log.csv", "a") as file:
        file.write("8,train,0.1")  # the process died here
    first = read_log(tmp_path / "log.csv")
    with RunLog(tmp_path, 9, 5, stream=io.StringIO(), start_step=4) as log:
        log.evaluation(4, loss=0.25, accuracy=0.75, split="dev")  # there already
        log.train(6, loss=3.0, accuracy=0.5, learning_rate=0.1)
    second = read_log(tmp_path / "log.csv")
    assert second["train"]["step"] == [2, 4, 6] and second["train"]["loss"] == [1, 2, 3]
    assert second["dev"] == first["dev"]
    assert second["train"]["seconds"][2] >= second["train"]["seconds"][1]
    assert len(list((tmp_path / "tensorboard").iterdir())) == 1
    with RunLog(tmp_path, 9, 5, stream=io.StringIO()):
        assert "train" not in read_log(tmp_path / "log.csv")
