"""What every test may use: golden arrays, the shared test data, fixed seeds, and a comparison that cannot pass by luck.

Nothing heavy is imported here; a test without Keras stays a test without Keras.
"""

import os
import random
import sys
from pathlib import Path

import numpy as np
import pytest

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

REPOSITORY = Path(__file__).resolve().parents[1]
GOLDEN = Path(__file__).resolve().parent / "golden"
SEED = 20101929


def pytest_configure(config):
    # Keras hands its variables to np.array when it saves a model; with NumPy 2 the missing `copy` argument of
    # `Variable.__array__` is a DeprecationWarning that only Keras can act on.
    config.addinivalue_line(
        "filterwarnings",
        "ignore:__array__ implementation doesn't accept a copy keyword"
        r":DeprecationWarning:keras\.src\.backend\.",
    )


def load_golden(name):
    """Returns the arrays of tests/golden/NAME.npz as a dict; `name` with or without the suffix."""
    with np.load(GOLDEN / f"{name.removesuffix('.npz')}.npz", allow_pickle=False) as file:
        return {key: file[key] for key in file.files}


def assert_close(actual, expected, atol):
    """Fails unless both have one shape, one kind of dtype, finite values, and differ by at most `atol` anywhere.

    Returns the maximum absolute difference.
    """
    actual, expected = _to_numpy(actual), _to_numpy(expected)
    assert actual.shape == expected.shape, f"shape {actual.shape} is not the expected {expected.shape}"
    kinds = _kind(actual.dtype), _kind(expected.dtype)
    assert kinds[0] == kinds[1], f"dtype {actual.dtype} is not of the expected kind, {expected.dtype}"
    actual, expected = actual.astype("float64"), expected.astype("float64")
    for name, values in (("actual", actual), ("expected", expected)):
        bad = values.size - np.count_nonzero(np.isfinite(values))
        assert not bad, f"{name} holds {bad} values of {values.size} that are not finite"
    assert actual.size, f"nothing to compare: shape {actual.shape} is empty"
    difference = np.abs(actual - expected)
    where = tuple(int(i) for i in np.unravel_index(difference.argmax(), difference.shape))
    worst = float(difference[where])
    assert worst <= atol, f"max abs difference {worst:.3g} at {where} is above {atol:g} (mean {difference.mean():.3g})"
    return worst


def _to_numpy(value):
    if isinstance(value, (np.ndarray, np.generic, list, tuple, int, float)):
        return np.asarray(value)
    import keras

    return keras.ops.convert_to_numpy(value)


def _kind(dtype):
    # bfloat16 and the 8-bit floats are of kind "V" to NumPy.
    return "f" if "float" in dtype.name else dtype.kind


@pytest.fixture(name="golden")
def _golden():
    """The loader `golden(name)` -> dict of arrays; `golden.path(name)` -> path of the file."""
    load_golden.path = lambda name: GOLDEN / f"{name.removesuffix('.npz')}.npz"
    return load_golden


@pytest.fixture(name="assert_close")
def _assert_close():
    return assert_close


class _WholeCalls:
    """A built layer or model whose calls, and their gradients, JAX compiles as one program."""

    def __init__(self, layer):
        import jax

        self._layer = layer
        self.stateless_call = jax.jit(self._call, static_argnames="training")

    def __getattr__(self, name):
        return getattr(self._layer, name)

    def __call__(self, x, training=None):
        states = ([v.value for v in group] for group in (self.trainable_variables, self.non_trainable_variables))
        return self.stateless_call(*states, x, training=training)[0]

    def _call(self, trainable, fixed, x, training=None):
        """Goes through the layer's `__call__`, which casts, unlike Keras' own `stateless_call`."""
        import keras

        variables = [*self.trainable_variables, *self.non_trainable_variables]
        keywords = {} if training is None else {"training": training}
        with keras.StatelessScope(state_mapping=list(zip(variables, [*trainable, *fixed]))):
            return self._layer(x, **keywords), None


@pytest.fixture
def whole():
    """`whole(layer)`: the built layer or model itself, but on JAX with each call compiled as a whole.

    JAX compiles every operation of an eager call by itself and for each shape, some 50 ms each, while the whole call
    takes as long as a few of them, half of it without the compiler's optimisations. The contract's and the families'
    `test_compiled_equals_eager`, which have them, hold the two kinds of call to the same numbers, so that other tests
    need not pay for eager calls on JAX. On other backends nothing changes.
    """
    import keras

    if keras.backend.backend() != "jax":
        yield lambda layer: layer
        return
    import jax

    setting = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield _WholeCalls
    jax.config.update("jax_disable_most_optimizations", setting)


# The files that take longest, slow ones and on JAX, so that none of them begins when the others are through.
LONGEST = (
    "test_workers",
    "test_distribution",
    "test_resume",
    "test_masked_patch_training",
    "test_throughput",
    "test_saved_model",
    "test_stopping",
    "test_tflite",
    "test_export_latency",
    "test_on_device_training",
    "test_demo",
    "test_model_families",
    "test_any_size",
    "test_variants",
)
# Files of many tests that share nothing: each goes to whichever process is free, after all others.
SPREAD = ("test_step_lowers", "test_smoke")


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items):
    """Orders the files, and keeps each one's tests in one process, because they share models."""
    ranks = dict.fromkeys(SPREAD, len(LONGEST) + 1) | {name: rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(item.path.stem, len(LONGEST)))  # stable: a file's tests stay in order
    for item in items:
        if item.path.stem not in SPREAD:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """TensorFlow rewrites each traced graph before its first run, a fifth of the quick tests' time on small nets.

    Programs that a test starts run with it, as users do, but for those that compare kinds of runs with one another.
    """
    if "tensorflow" in sys.modules:
        sys.modules["tensorflow"].config.optimizer.set_experimental_options({"disable_meta_optimizer": True})


@pytest.fixture(autouse=True, scope="module")
def _memory_of_one_file():
    """Keras keeps the graphs and names of every model until it is told not to: gigabytes over the whole suite."""
    yield
    if "keras" in sys.modules:
        import keras

        keras.backend.clear_session()


@pytest.fixture
def rng():
    """A NumPy generator with a fixed seed."""
    return np.random.default_rng(SEED)


@pytest.fixture(scope="session")
def test_data():
    """Path of the shared test data (real photos and weights); the test is skipped, with the reason, without it."""
    setting = os.environ.get("VITKERAS_TEST_DATA")
    folder = Path(setting) if setting else REPOSITORY.parent / "shared"
    if not (folder / "data").is_dir():
        pytest.skip(f"test data absent: {folder}/data is no folder; set VITKERAS_TEST_DATA to the folder that holds it")
    return folder


@pytest.fixture(autouse=True)
def _same_state_for_every_test():
    """Fixed seeds before, the global dtype policy and float type restored after."""
    random.seed(SEED)
    np.random.seed(SEED % 2**32)
    keras = sys.modules.get("keras")
    if keras is None:
        yield
        return
    keras.utils.set_random_seed(SEED)
    policy, floatx = keras.config.dtype_policy(), keras.config.floatx()
    yield
    keras.config.set_floatx(floatx)
    keras.config.set_dtype_policy(policy)
