"""A recipe as two workers on loopback: one of them writes, and the losses are those of one process."""

import csv
import json
import os
import socket
import subprocess
import sys

import pytest

SETS = ["model.num_layers=1", "model.hidden_dim=24", "model.mlp_dim=48", "data.image_size=(32, 48)"]
SETS += ["train.steps=6", "train.log_every=2", "train.batch_size=8", "train.save_every=3"]
CODE = "import sys; from vitkeras.recipes import finetune; sys.exit(finetune.main(sys.argv[1:]))"


def start(workdir, device, environment, *more):
    sets = [part for text in (*SETS, *more) for part in ("--set", text)]
    arguments = [sys.executable, "-c", CODE, "--config", "digits", "--workdir", str(workdir), "--device", device, *sets]
    environment = {**os.environ, **environment}
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("localhost", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def workers(workdir, *more):
    """Runs both and returns their (exit code, output, errors)."""
    cluster = {"worker": [f"localhost:{port}" for port in free_ports(2)]}
    both = []
    for index in (0, 1):
        task = {"cluster": cluster, "task": {"type": "worker", "index": index}}
        both.append(start(workdir, "multiworker", {"TF_CONFIG": json.dumps(task)}, *more))
    outputs = [process.communicate(timeout=900) for process in both]
    return [(process.returncode, *output) for process, output in zip(both, outputs)]


def losses(workdir):
    with open(workdir / "log.csv", newline="") as file:
        rows = [(row["step"], row["split"], float(row["loss"])) for row in csv.DictReader(file)]
    assert [row[:2] for row in rows] == [("2", "train"), ("4", "train"), ("6", "train"), ("6", "test")]
    return [row[2] for row in rows]


@pytest.mark.slow
def test_two_workers(tmp_path):
    single = start(tmp_path / "one", "cpu", {})
    assert single.communicate()[0] and single.returncode == 0
    for code, _, err in workers(tmp_path / "two"):
        assert code == 0, err[-2000:]
    assert losses(tmp_path / "two") == pytest.approx(losses(tmp_path / "one"), abs=1e-5)  # six digits in the file
    names = {"classes.txt", "config.json", "curve.png", "log.csv", "metrics.json", "model.keras", "tensorboard"}
    assert set(os.listdir(tmp_path / "two")) == names | {"checkpoints"}
