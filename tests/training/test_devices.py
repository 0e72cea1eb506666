import json
import os
import subprocess
import sys

import pytest
import tensorflow as tf

from vitkeras.training import make_strategy
from vitkeras.training.devices import check_tf_config
from vitkeras.training.tpu_environment import BRIDGE, tpu_faults, tpu_requested

WORKERS = {"worker": ["10.0.0.1:2222", "10.0.0.2:2222"]}
GOOD_ENVIRONMENT = {
    "TPU_NAME": "local",
    "PJRT_DEVICE": "TPU",
    "NEXT_PLUGGABLE_DEVICE_USE_C_API": "true",
    "TF_PLUGGABLE_DEVICE_LIBRARY_PATH": "/site/libtpu/libtpu.so",
    "TF_XLA_FLAGS": f"--tf_xla_auto_jit=0 {BRIDGE}",
}
GOOD_PACKAGES = {"tensorflow-tpu": "2.20.0", "libtpu": "0.0.17"}


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch):
    for name in ("TF_CONFIG", "TPU_NAME", "PJRT_DEVICE"):
        monkeypatch.delenv(name, raising=False)


def test_cpu_and_auto():
    assert make_strategy("cpu").num_replicas_in_sync == 1
    if not tf.config.list_physical_devices("GPU") and not tpu_requested(os.environ):
        assert make_strategy() is make_strategy("cpu")


def test_unknown_or_absent_devices(monkeypatch):
    with pytest.raises(ValueError, match=r"device must be one of \('auto', .*\), received 'cuda'"):
        make_strategy("cuda")
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: [])
    with pytest.raises(ValueError, match="device 'gpu': TensorFlow sees no GPU; check nvidia-smi"):
        make_strategy("gpu")


def test_auto_takes_what_the_environment_says(monkeypatch):
    monkeypatch.setenv("TPU_NAME", "local")
    monkeypatch.setattr("importlib.metadata.distributions", lambda name: [])
    with pytest.raises(ValueError, match="device 'tpu': tensorflow-tpu is not installed: pip install"):
        make_strategy("auto")
    monkeypatch.setenv("TF_CONFIG", "{")
    with pytest.raises(ValueError, match="TF_CONFIG must be JSON"):
        make_strategy("auto")


@pytest.mark.parametrize("text", [None, ""])
def test_without_tf_config(text):
    with pytest.raises(ValueError, match="device 'multiworker' needs the environment variable TF_CONFIG, like "):
        check_tf_config(text)


@pytest.mark.parametrize(
    "config, message",
    [
        ("{]", "TF_CONFIG must be JSON like .* received '{]'"),
        ([1], "must list the workers' addresses, like .* received"),
        ({"cluster": {}}, "must list the workers' addresses"),
        ({"cluster": {"worker": []}}, "must list the workers' addresses"),
        ({"cluster": {"worker": ["10.0.0.1"]}}, "must list the workers' addresses"),
        ({"cluster": {"worker": "10.0.0.1:2222"}}, "must list the workers' addresses"),
        ({"cluster": {**WORKERS, "ps": ["10.0.0.3:1"]}}, r"must hold workers only, .* received \['ps'\]"),
        ({"cluster": WORKERS}, "must be of type 'worker' with an index in 0...1, received None"),
        ({"cluster": WORKERS, "task": {"type": "chief", "index": 0}}, "must be of type 'worker'"),
        ({"cluster": WORKERS, "task": {"type": "worker", "index": 2}}, "index in 0...1, received .*'index': 2"),
        ({"cluster": WORKERS, "task": {"type": "worker", "index": "0"}}, "index in 0...1, received .*'index': '0'"),
    ],
)
def test_malformed_tf_config(config, message):
    with pytest.raises(ValueError, match=message):
        check_tf_config(config if isinstance(config, str) else json.dumps(config))


def test_several_hosts_after_tensorflow_was_used():
    config = {"cluster": {"worker": ["localhost:1", "localhost:2"]}, "task": {"type": "worker", "index": 1}}
    code = (
        "import tensorflow as tf; from vitkeras.training import make_strategy; tf.zeros(1) + 1\n"
        "try: make_strategy('multiworker')\n"
        "except RuntimeError as error: print(error)"
    )
    environment = {**os.environ, "TF_CONFIG": json.dumps(config), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=300)
    assert done.stdout.startswith("device 'multiworker': worker 1 of 2 at localhost:2 can't start ("), done.stderr
    assert done.stdout.count("\n") == 1


def test_a_good_tpu_machine():
    assert tpu_faults(GOOD_ENVIRONMENT, GOOD_PACKAGES) == []
    assert tpu_faults({"TPU_NAME": "node-7"}, {"tensorflow-tpu": "2.20.0"}) == []  # reached over the network
    del_name = {k: v for k, v in GOOD_ENVIRONMENT.items() if k != "TPU_NAME"}
    assert tpu_faults(del_name, GOOD_PACKAGES) == []


@pytest.mark.parametrize(
    "environment, packages, message",
    [
        ({}, {"tensorflow-tpu": None}, 'tensorflow-tpu is not installed: pip install "vitkeras[tpu]".'),
        (
            {},
            {"tensorflow-cpu": "2.21.0"},
            "tensorflow-cpu 2.21.0 is installed over tensorflow-tpu and removes its TPU kernels: pip uninstall "
            "tensorflow-cpu tensorflow-tpu, then pip install tensorflow-tpu.",
        ),
        ({}, {"libtpu": None}, 'libtpu is not installed: pip install "libtpu<0.0.32".'),
        ({}, {"libtpu": "0.0.32"}, 'libtpu 0.0.32 aborts TensorFlow at import: pip install "libtpu<0.0.32".'),
        ({}, {"libtpu": "0.1.0.dev20260101"}, "libtpu 0.1.0.dev20260101 aborts TensorFlow at import"),
        ({"PJRT_DEVICE": "CPU"}, {}, "PJRT_DEVICE is 'CPU': export PJRT_DEVICE=TPU before Python starts."),
        (
            {"TF_PLUGGABLE_DEVICE_LIBRARY_PATH": None},
            {},
            "TF_PLUGGABLE_DEVICE_LIBRARY_PATH is not set: export TF_PLUGGABLE_DEVICE_LIBRARY_PATH=/x/libtpu.so before",
        ),
        ({"NEXT_PLUGGABLE_DEVICE_USE_C_API": None}, {}, "NEXT_PLUGGABLE_DEVICE_USE_C_API is not set: export NEXT"),
        ({"TF_XLA_FLAGS": BRIDGE + "x"}, {}, f'TF_XLA_FLAGS lacks {BRIDGE}: export TF_XLA_FLAGS="{BRIDGE}" before'),
    ],
)
def test_each_fault_is_named(environment, packages, message):
    merged = ({**GOOD_ENVIRONMENT, **environment}, {**GOOD_PACKAGES, **packages})
    faults = tpu_faults(*({k: v for k, v in values.items() if v is not None} for values in merged), "/x/libtpu.so")
    assert len(faults) == 1 and faults[0].startswith(message)


def test_a_bare_machine_names_all_faults():
    assert len(tpu_faults({}, {"tensorflow-tpu": "2.20.0"})) == 5


def test_what_looks_like_a_tpu_machine():
    assert tpu_requested({"TPU_NAME": "local"}, []) and tpu_requested({}, ["/dev/accel0"])
    assert tpu_requested({"PJRT_DEVICE": "TPU"}, []) and not tpu_requested({"PJRT_DEVICE": "CPU"}, [])
