"""From a word such as "gpu" to a `tf.distribute.Strategy`, or one sentence that says why not."""

import json
import os
import re

from vitkeras._tensorflow import tf
from vitkeras.training.tpu_environment import check_tpu_environment, tpu_requested

DEVICES = ("auto", "cpu", "gpu", "tpu", "multiworker")


def make_strategy(device="auto"):
    """Makes the strategy that models, optimizers and engines are built under.

    Call it before anything is computed with TensorFlow: several hosts and TPUs are set up by it.

    Args:
        device: "cpu" (one replica for each logical CPU; usually one), "gpu" (one for each visible GPU), "tpu" (one
            for each core of the TPU that `TPU_NAME` names, or of this machine), "multiworker" (the hosts that
            `TF_CONFIG` lists, this process being one of them), or "auto" (default): the first that is there of
            multiworker, TPU, GPU and CPU.

    Returns:
        A `tf.distribute.Strategy`.

    Raises:
        ValueError: if `device` is unknown or absent, or `TF_CONFIG` or the TPU's environment is wrong.
        RuntimeError: if the TPU or the other hosts can't be reached, or TensorFlow was used before.

    Example:
        >>> make_strategy("cpu").num_replicas_in_sync
        1
    """
    if device not in DEVICES:
        raise ValueError(f"device must be one of {DEVICES}, received {device!r}.")
    if device == "auto":
        device = _find_device(os.environ)
    return {"cpu": _cpu, "gpu": _gpu, "tpu": _tpu, "multiworker": _multiworker}[device]()


def check_tf_config(text):
    """Reads a `TF_CONFIG` of several workers.

    Args:
        text: str, JSON such as `{"cluster": {"worker": ["10.0.0.1:2222", "10.0.0.2:2222"]}, "task": {"type":
            "worker", "index": 0}}`; None where the variable isn't set.

    Returns:
        (list of addresses, int index of this worker).

    Raises:
        ValueError: if it is missing or malformed.

    Example:
        >>> check_tf_config('{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}')
        (['a:1', 'b:1'], 1)
    """
    wanted = 'like {"cluster": {"worker": ["host:port", ...]}, "task": {"type": "worker", "index": 0}}'
    if not text:
        raise ValueError(f"device 'multiworker' needs the environment variable TF_CONFIG, {wanted}.")
    try:
        config = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"TF_CONFIG must be JSON {wanted}, received {text!r} ({error}).") from None
    cluster, task = ((config.get(key) if isinstance(config, dict) else None) for key in ("cluster", "task"))
    workers = cluster.get("worker") if isinstance(cluster, dict) else None
    if not isinstance(workers, list) or not workers or not all(_is_address(worker) for worker in workers):
        raise ValueError(f"TF_CONFIG must list the workers' addresses, {wanted}, received {text!r}.")
    others = sorted(set(cluster) - {"worker"})
    if others:
        raise ValueError(f"TF_CONFIG must hold workers only, each of which evaluates its share, received {others}.")
    kind, index = (task.get(key) if isinstance(task, dict) else None for key in ("type", "index"))
    if kind != "worker" or not isinstance(index, int) or not 0 <= index < len(workers):
        raise ValueError(
            f"TF_CONFIG's task must be of type 'worker' with an index in 0...{len(workers) - 1}, received {task!r}."
        )
    return workers, index


def _is_address(worker):
    return isinstance(worker, str) and re.fullmatch(r"\S+:\d+", worker) is not None


def _find_device(environment):
    if environment.get("TF_CONFIG"):
        return "multiworker"
    if tpu_requested(environment):
        return "tpu"
    return "gpu" if tf.config.list_physical_devices("GPU") else "cpu"


def _cpu():
    cpus = tf.config.list_logical_devices("CPU")
    if len(cpus) > 1:
        return tf.distribute.MirroredStrategy([cpu.name for cpu in cpus])
    if tf.config.list_physical_devices("GPU"):
        return tf.distribute.OneDeviceStrategy(cpus[0].name)
    return tf.distribute.get_strategy()  # whose data go to the model without a detour over another device's queue


def _gpu():
    gpus = tf.config.list_logical_devices("GPU")
    if not gpus:
        raise ValueError(
            "device 'gpu': TensorFlow sees no GPU; check nvidia-smi, CUDA_VISIBLE_DEVICES, and that "
            'pip install "vitkeras[tf]" was made, not "vitkeras[tf-cpu]".'
        )
    if len(gpus) == 1:
        return tf.distribute.OneDeviceStrategy(gpus[0].name)
    return tf.distribute.MirroredStrategy([gpu.name for gpu in gpus])


def _tpu():
    check_tpu_environment()
    name = os.environ.get("TPU_NAME") or "local"
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(name)
        if name != "local":
            tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        return tf.distribute.TPUStrategy(resolver)
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        raise RuntimeError(f"device 'tpu': no TPU answers as {name!r} ({_first_line(error)}).") from error


def _multiworker():
    workers, index = check_tf_config(os.environ.get("TF_CONFIG"))
    try:
        return tf.distribute.MultiWorkerMirroredStrategy()
    except (tf.errors.OpError, RuntimeError) as error:
        raise RuntimeError(
            f"device 'multiworker': worker {index} of {len(workers)} at {workers[index]} can't start "
            f"({_first_line(error)})."
        ) from error


def _first_line(error):
    return str(error).strip().partition("\n")[0].rstrip(".")
