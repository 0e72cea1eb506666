"""Any damage is refused or harmless, and the order of a file's arrays is nothing."""

import zipfile

import keras
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import vitkeras

FEW = settings(
    max_examples=120,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # the model is compared before and after each example
)


def small_model(classes=3):
    """So small that half of its file is headers and directories."""
    return vitkeras.VisionTransformer((4, 6, 1), 2, 1, 4, 2, 3, classes=classes, classifier_activation=None)


def numpy(x):
    return keras.ops.convert_to_numpy(x)


@pytest.fixture(scope="module")
def model():
    return small_model()


@pytest.fixture(scope="module")
def content(model, tmp_path_factory):
    """(arrays, bytes of the file) for `model`."""
    from vitkeras.checkpoints.google import google_slots

    rng = np.random.default_rng(5)
    arrays = {slot.key: rng.normal(size=slot.shape).astype("float32") for slot in google_slots(model)}
    path = tmp_path_factory.mktemp("content") / "whole.npz"
    np.savez(path, **arrays)
    return arrays, path.read_bytes()


def load_or_refuse(model, path, arrays):
    """Loads into a model of zeros; whatever happens, it holds all of the file's numbers or none."""
    for weight in model.weights:
        weight.assign(np.zeros(weight.shape))
    try:
        vitkeras.load_checkpoint(model, path)
    except ValueError as error:
        assert "checkpoint" in str(error) or "classes" in str(error)
        assert not any(numpy(w).any() for w in model.weights), "a refused file changed the model"
        return False
    np.testing.assert_array_equal(numpy(model.get_layer("head").kernel), arrays["head/kernel"])
    total = sum(float(np.abs(numpy(w)).sum()) for w in model.weights)
    assert total == pytest.approx(sum(float(np.abs(a).sum()) for a in arrays.values()), rel=1e-6)
    return True


@FEW
@given(data=st.data())
def test_a_file_cut_anywhere_is_refused(data, model, content, tmp_path):
    arrays, whole = content
    path = tmp_path / "cut.npz"
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    assert not load_or_refuse(model, path, arrays)


@settings(FEW, max_examples=400)
@given(data=st.data())
def test_a_changed_byte_is_refused_or_harmless(data, model, content, tmp_path):
    arrays, whole = content
    changed = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "changed.npz"
    path.write_bytes(changed)
    load_or_refuse(model, path, arrays)


@settings(FEW, max_examples=20)
@given(order=st.randoms(use_true_random=False), compression=st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]))
def test_the_order_of_the_arrays_is_nothing(order, compression, model, content, tmp_path):
    arrays, _ = content
    keys = list(arrays)
    order.shuffle(keys)
    path = tmp_path / "shuffled.npz"
    with zipfile.ZipFile(path, "w", compression) as file:
        for key in keys:
            with file.open(f"{key}.npy", "w") as stream:
                np.save(stream, arrays[key])
    assert load_or_refuse(model, path, arrays)


@settings(FEW, max_examples=40)
@given(data=st.data())
def test_any_set_of_missing_arrays_is_named_in_full(data, model, content, tmp_path):
    arrays, _ = content
    gone = data.draw(st.sets(st.sampled_from(sorted(set(arrays) - {"head/kernel"})), min_size=1))
    path = tmp_path / "missing.npz"
    np.savez(path, **{key: value for key, value in arrays.items() if key not in gone})
    with pytest.raises(ValueError) as caught:
        vitkeras.load_checkpoint(model, path)
    assert f"({len(gone)} fault" in str(caught.value)
    assert all(f"missing {key!r}" in str(caught.value) for key in gone)
