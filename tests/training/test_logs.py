import io
import os

import pytest

from vitkeras.training import RunLog
from vitkeras.training.logs import plot_log, read_log


class Terminal(io.StringIO):
    def isatty(self):
        return True


def write(folder, stream):
    with RunLog(folder, total_steps=7, batch_size=5, stream=stream) as log:
        log.train(3, loss=1.5, accuracy=0.25, learning_rate=0.01)
        log.evaluation(3, loss=1.25, accuracy=0.5)
        log.train(7, loss=0.5, accuracy=0.75, learning_rate=0.001)


def test_lines_csv_and_tensorboard(tmp_path):
    stream = io.StringIO()
    write(str(tmp_path), stream)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("step 3/7  loss 1.5000  accuracy 0.2500  learning rate 1.000e-02  ")
    assert lines[1] == "step 3/7  test loss 1.2500  test accuracy 0.5000"
    assert lines[2].endswith(" 0 s left")
    log = read_log(tmp_path / "log.csv")
    assert log["train"]["step"] == [3, 7] and log["train"]["loss"] == [1.5, 0.5]
    assert log["test"] == {"step": [3], "loss": [1.25], "accuracy": [0.5], "seconds": log["test"]["seconds"]}
    assert log["train"]["learning_rate"] == [0.01, 0.001]
    assert all(speed > 0 for speed in log["train"]["images_per_second"])
    events = os.listdir(tmp_path / "tensorboard")
    assert len(events) == 1
    data = (tmp_path / "tensorboard" / events[0]).read_bytes()
    for tag in (b"train/loss", b"train/learning_rate", b"test/accuracy"):
        assert tag in data


def test_a_terminal_gets_a_bar(tmp_path):
    stream = Terminal()
    write(str(tmp_path), stream)
    text = stream.getvalue()
    assert "7/7" in text and "loss 0.5000 acc 0.750" in text
    assert "step 3/7  test loss 1.2500  test accuracy 0.5000" in text
    assert "images/s" not in text


def test_plot(tmp_path):
    write(str(tmp_path), io.StringIO())
    plot_log(tmp_path / "log.csv", tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_the_log_says_which_extra_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "tensorboard", None)
    with pytest.raises(ImportError, match=r'TensorBoard log needs TensorBoard: pip install "vitkeras\[recipes\]"'):
        write(str(tmp_path), io.StringIO())
