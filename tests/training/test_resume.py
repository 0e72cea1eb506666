"""A real process is killed at random moments and goes on; the weights end bit for bit as without a kill."""

import csv
import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from vitkeras.training import Checkpointer

SCRIPT = pathlib.Path(__file__).with_name("resumable_run.py")
INTERVAL = 3
COLUMNS = ("step", "split", "loss", "accuracy", "learning_rate")


def rows(path):
    """What a log says of the training, without times."""
    with open(path, newline="") as file:
        return [[row[key] for key in COLUMNS] for row in csv.DictReader(file)]


@pytest.mark.parametrize("kills, steps", [(1, 40), pytest.param(20, 200, marks=pytest.mark.slow)])
def test_a_killed_run_ends_with_the_same_weights(tmp_path, kills, steps):
    command = [sys.executable, str(SCRIPT), str(tmp_path), str(steps), str(kills), "5"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    whole, *killed, last = [json.loads(line) for line in done.stdout.splitlines()]
    assert whole == last == {"code": 0, "reached": steps, "saved": steps}
    assert [attempt["code"] for attempt in killed] == [-9] * kills
    saved = [attempt["saved"] for attempt in killed]
    assert saved == sorted(saved) and 0 < saved[-1] < steps
    for attempt in killed:  # rows come every second step
        assert attempt["saved"] >= attempt["reached"] - INTERVAL - 1
    first, second = (Checkpointer(tmp_path / name / "checkpoints").restore() for name in ("whole", "killed"))
    assert first.arrays.keys() == second.arrays.keys()
    for name, array in first.arrays.items():
        np.testing.assert_array_equal(array, second.arrays[name], err_msg=name)
    assert rows(tmp_path / "whole" / "log.csv") == rows(tmp_path / "killed" / "log.csv")
