"""The reader of .safetensors files: each size and offset is checked, and any damage is refused or harmless."""

import json
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors_writer import safetensors_bytes

from vitkeras.checkpoints.safetensors import SafetensorsFile

FEW = settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # the folder is only written to
)


def test_arrays_come_back_as_they_were(save_safetensors, rng):
    arrays = {
        "a": rng.normal(size=(2, 3, 5)).astype("float32"),
        "b": rng.normal(size=(7,)).astype("float64"),
        "c": rng.normal(size=(3, 1)).astype("float16"),
        "scalar": np.array(1.5, "float32"),
        "empty": np.zeros((0, 5), "float32"),
        "ints": np.arange(3, dtype="int32"),
    }
    with SafetensorsFile(save_safetensors(arrays)) as file:
        assert list(file.headers) == list(arrays)
        for name, expected in arrays.items():
            assert file.headers[name].shape == expected.shape and file.headers[name].dtype == expected.dtype
            assert file.read(name).tobytes() == expected.tobytes() and file.read(name).shape == expected.shape


def test_bfloat16_is_the_upper_half_of_float32(save_safetensors, rng):
    values = rng.normal(size=(3, 5)).astype("float32")
    upper = (values.view("uint32") >> 16).astype("uint16")
    with SafetensorsFile(save_safetensors({"x": upper}, kinds={"x": "BF16"})) as file:
        array = file.read("x")
    assert array.dtype == file.headers["x"].dtype == "float32"
    np.testing.assert_array_equal(array.view("uint32"), upper.astype("uint32") << 16)
    assert np.abs(array - values).max() <= 2**-8 * np.abs(values).max()


def entry(**changes):
    return {**dict(dtype="F32", shape=[3], data_offsets=[0, 12]), **changes}


HEADERS = {
    "not JSON": (b"{", 12, "is not a .safetensors file (header: "),
    "not UTF-8": (b"\xff\xfe", 12, "is not a .safetensors file (header: "),
    "a list": (b"[]", 0, "its header is no JSON object"),
    "nothing": (b"{}", 0, "must hold 1 to 65536 arrays, received 0"),
    "deep": (b"[" * 99999, 0, "is not a .safetensors file (header: "),
    "long integer": (b'{"a": ' + b"9" * 9999 + b"}", 0, "is not a .safetensors file (header: "),
    "twice": (b'{"a": 1, "a": 2}', 0, "it names 'a' twice"),
    "no object": ({"a": 3}, 0, "array 'a': its header must hold ['data_offsets', 'dtype', 'shape'], received 3"),
    "a key more": ({"a": entry(more=1)}, 12, "array 'a': its header must hold"),
    "dtype": ({"a": entry(dtype="F8")}, 12, "array 'a': dtype must be one of ('F64', 'F32'"),
    "dtype of another type": ({"a": entry(dtype=[])}, 12, "array 'a': dtype must be one of ('F64', 'F32'"),
    "negative": ({"a": entry(shape=[-3])}, 12, "array 'a': shape must be a list of ints >= 0, received [-3]"),
    "float": ({"a": entry(shape=[3.0])}, 12, "array 'a': shape must be a list of ints >= 0, received [3.0]"),
    "size": ({"a": entry(shape=[4])}, 12, "array 'a': must hold 16 bytes for shape (4,) within 12 bytes"),
    "overflow": ({"a": entry(shape=[2**40, 2**40])}, 12, "array 'a': must hold 4835703278458516698824704 bytes"),
    "outside": ({"a": entry(data_offsets=[4, 16])}, 12, "within 12 bytes of data, received offsets [4, 16]"),
    "overlap": ({"a": entry(), "b": entry(data_offsets=[8, 20])}, 20, "array 'b': overlaps the array before it"),
    "gap": ({"a": entry(), "b": entry(data_offsets=[16, 28])}, 28, "array 'b': leaves a gap before it"),
    "rest": ({"a": entry()}, 13, "must hold 12 bytes of data, received 13"),
}


@pytest.mark.parametrize("header, size, message", HEADERS.values(), ids=HEADERS)
def test_headers_that_lie(header, size, message, tmp_path):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path = tmp_path / "bad.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(size))
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        SafetensorsFile(path)
    assert "bad.safetensors'" in str(caught.value)


@pytest.mark.parametrize("content", [b"x", b"\xff" * 99, (2**26 + 1).to_bytes(8, "little") + bytes(64)])
def test_foreign_content(content, tmp_path):
    path = tmp_path / "foreign.safetensors"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is truncated or not a .safetensors file"):
        SafetensorsFile(path)


def test_absent_and_empty(tmp_path):
    with pytest.raises(FileNotFoundError, match="none.safetensors' is not a file"):
        SafetensorsFile(tmp_path / "none.safetensors")
    (tmp_path / "empty.safetensors").touch()
    with pytest.raises(ValueError, match="empty.safetensors' is empty"):
        SafetensorsFile(tmp_path / "empty.safetensors")


def test_a_file_cut_after_it_was_opened(save_safetensors):
    path = save_safetensors({"a": np.ones(999, "float32")})
    with SafetensorsFile(path) as file:
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(ValueError, match="array 'a': its data ends early"):
            file.read("a")


SHAPES = st.lists(st.integers(0, 5), max_size=4).map(tuple)
ARRAYS = st.dictionaries(
    st.text(min_size=1, max_size=5).filter(lambda name: name != "__metadata__"),
    st.tuples(SHAPES, st.sampled_from(["float64", "float32", "float16", "int32"])),
    min_size=1,
    max_size=5,
).map(lambda items: {name: np.arange(int(np.prod(s))).reshape(s).astype(d) for name, (s, d) in items.items()})


@FEW
@given(arrays=ARRAYS)
def test_any_arrays_come_back(arrays, tmp_path):
    path = tmp_path / "any.safetensors"
    path.write_bytes(safetensors_bytes(arrays))
    with SafetensorsFile(path) as file:
        assert {name: file.read(name).tolist() for name in file.headers} == {n: a.tolist() for n, a in arrays.items()}


@FEW
@given(arrays=ARRAYS, data=st.data())
def test_a_file_cut_anywhere_is_refused(arrays, data, tmp_path):
    whole = safetensors_bytes(arrays)
    path = tmp_path / "cut.safetensors"
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(ValueError, match=r"cut\.safetensors"):
        SafetensorsFile(path)


@FEW
@given(arrays=ARRAYS, data=st.data())
def test_a_changed_byte_is_refused_or_leaves_readable_arrays(arrays, data, tmp_path):
    changed = bytearray(safetensors_bytes(arrays))
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "changed.safetensors"
    path.write_bytes(changed)
    try:
        with SafetensorsFile(path) as file:
            for name in file.headers:
                assert file.read(name).shape == file.headers[name].shape
    except ValueError as error:
        assert "changed.safetensors" in str(error)
