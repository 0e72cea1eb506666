"""What a TPU virtual machine must have before TensorFlow can use its TPU, checked without one.

With a wrong environment TensorFlow aborts, hangs or silently uses the CPU. The checks are pure functions of the
environment variables and the installed packages.
"""

import glob
import importlib.metadata
import os
import re

LIBTPU_BELOW = (0, 0, 32)  # from which on tensorflow-tpu 2.20, the newest there is, aborts at import
CPU_WHEELS = ("tensorflow", "tensorflow-cpu", "tensorflow-intel", "tf-nightly")
PJRT = {
    "PJRT_DEVICE": "TPU",
    "NEXT_PLUGGABLE_DEVICE_USE_C_API": "true",
    "TF_PLUGGABLE_DEVICE_LIBRARY_PATH": None,  # any value: the path of libtpu.so
}
BRIDGE = "--tf_mlir_enable_mlir_bridge=true"
BEFORE = "before Python starts."


def tpu_faults(environment, packages, libtpu_path="<site-packages>/libtpu/libtpu.so"):
    """Says what is wrong with the environment of a TPU machine.

    Args:
        environment: dict of environment variables.
        packages: dict of installed package name -> version.
        libtpu_path: str, named in the advice.

    Returns:
        list of sentences, empty if all is well.

    Example:
        >>> tpu_faults({}, {})
        ['tensorflow-tpu is not installed: pip install "vitkeras[tpu]".']
    """
    if "tensorflow-tpu" not in packages:
        return ['tensorflow-tpu is not installed: pip install "vitkeras[tpu]".']
    wheels = [name for name in CPU_WHEELS if name in packages]
    if wheels:
        return [
            f"{wheels[0]} {packages[wheels[0]]} is installed over tensorflow-tpu and removes its TPU kernels: "
            f"pip uninstall {' '.join(wheels)} tensorflow-tpu, then pip install tensorflow-tpu."
        ]
    if environment.get("TPU_NAME", "local") not in ("local", ""):
        return []  # the driver of a TPU that the network reaches is on a machine of its own
    faults, version = [], packages.get("libtpu")
    if version is None:
        faults.append('libtpu is not installed: pip install "libtpu<0.0.32".')
    elif tuple(int(number) for number in re.findall(r"\d+", version)[:3]) >= LIBTPU_BELOW:
        faults.append(f'libtpu {version} aborts TensorFlow at import: pip install "libtpu<0.0.32".')
    for name, value in PJRT.items():
        given = environment.get(name)
        if not given or value not in (None, given):
            said = f"is {given!r}" if given else "is not set"
            faults.append(f"{name} {said}: export {name}={value or libtpu_path} {BEFORE}")
    if BRIDGE not in environment.get("TF_XLA_FLAGS", "").split():
        faults.append(f'TF_XLA_FLAGS lacks {BRIDGE}: export TF_XLA_FLAGS="{BRIDGE}" {BEFORE}')
    return faults


def check_tpu_environment():
    """Raises ValueError that names what is wrong with this process' environment and installed packages."""
    packages, files = {}, []
    for name in ("tensorflow-tpu", "libtpu", *CPU_WHEELS):
        for distribution in importlib.metadata.distributions(name=name):
            packages[name] = distribution.version
            if name == "libtpu":
                files.append(str(distribution.locate_file("libtpu/libtpu.so")))
    faults = tpu_faults(os.environ, packages, *files[:1])
    if faults:
        raise ValueError("device 'tpu': " + " ".join(faults))


def tpu_requested(environment, device_files=None):
    """Whether this looks like a machine with a TPU: the environment says so, or the driver's device files exist.

    Args:
        environment: dict of environment variables.
        device_files: list of paths; default: those of this machine.
    """
    if device_files is None:
        device_files = glob.glob("/dev/accel*")
    return bool(environment.get("TPU_NAME") or environment.get("PJRT_DEVICE") == "TPU" or device_files)
