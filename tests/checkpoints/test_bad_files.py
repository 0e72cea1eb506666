"""Files that are no checkpoint are refused in one clear sentence, and leave the model as it was."""

import json
import pickle
import zipfile

import numpy as np
import pytest
from archive_writer import archive, npy


def test_absent(refused, tmp_path):
    refused(tmp_path / "none.npz", "none.npz' is not a file.", error=FileNotFoundError)


def test_a_folder(refused, tmp_path):
    (tmp_path / "folder.npz").mkdir()
    refused(tmp_path / "folder.npz", "folder.npz' is not a file.", error=FileNotFoundError)


def test_empty(refused, tmp_path):
    (tmp_path / "empty.npz").touch()
    refused(tmp_path / "empty.npz", "empty.npz' is empty.")


@pytest.mark.parametrize("suffix", ["h5", "ckpt", "txt"])
def test_another_suffix(refused, tmp_path, suffix):
    refused(
        tmp_path / f"w.{suffix}",
        "checkpoint must be a file that ends in one of ('.npz', '.safetensors', '.safetensors.index.json', ",
    )


PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452")
FOREIGN = {"text": b"not a checkpoint\n" * 99, "png": PNG + bytes(99), "html": b"<html><body>404</body></html>"}


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN)
def test_foreign(refused, tmp_path, content):
    (tmp_path / "foreign.npz").write_bytes(content)
    refused(tmp_path / "foreign.npz", "foreign.npz' is truncated or not an .npz file (")


def test_a_single_npy(refused, tmp_path):
    with open(tmp_path / "array.npz", "wb") as file:
        np.save(file, np.ones(3))
    refused(tmp_path / "array.npz", "is truncated or not an .npz file (")


@pytest.mark.parametrize("share", [0.02, 0.5, 0.999])
def test_truncated(refused, save, arrays, share):
    path = save(arrays)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    refused(path, "is truncated or not an .npz file (")


def test_an_archive_of_something_else(refused, tmp_path):
    path = archive(tmp_path / "keras.npz", {"config.json": json.dumps({"a": 1}), "model.weights.h5": b"\x89HDF"})
    refused(path, "array 'config.json': damaged or not a NumPy array (")


def test_an_empty_archive(refused, tmp_path):
    refused(archive(tmp_path / "nothing.npz", {}), "nothing.npz' holds no arrays.")


class Bomb:
    """Tells when it is unpickled."""

    exploded = False

    def __reduce__(self):
        return setattr, (Bomb, "exploded", True)


def test_pickles_are_never_opened(refused, save, arrays, tmp_path):
    path = save({**arrays, "head/bias": np.array([Bomb()] * 7, dtype=object)})
    refused(path, "array 'head/bias.npy': holds Python objects, which are never loaded.")
    path = archive(tmp_path / "pickle.npz", {"cls.npy": pickle.dumps(Bomb())})
    refused(path, "array 'cls.npy': damaged or not a NumPy array (")
    assert not Bomb.exploded
    pickle.loads(pickle.dumps(Bomb()))
    assert Bomb.exploded, "the bomb of this test does not work"
    Bomb.exploded = False


def test_a_header_that_promises_more_than_there_is(refused, tmp_path):
    content = npy(np.zeros((5, 7), "float32")).replace(b"(5, 7)", b"(5,99)")
    path = archive(tmp_path / "lies.npz", {"cls.npy": content})
    refused(path, "array 'cls.npy': must hold 2108 bytes for shape (5, 99), received 268.")


def test_a_header_whose_size_overflows(refused, tmp_path):
    header = npy(np.zeros((0,), "float32")).replace(b"(0,), }" + b" " * 22, b"(4294967296, 4294967296), }  ")
    assert b"4294967296" in header
    refused(archive(tmp_path / "huge.npz", {"cls.npy": header}), "array 'cls.npy': must hold 73786976294838206")


def test_an_unknown_format_version(refused, tmp_path):
    content = bytearray(npy(np.zeros(3)))
    content[6] = 9
    refused(archive(tmp_path / "v9.npz", {"cls.npy": bytes(content)}), "format version (9, 0) is not known")


def test_the_same_array_twice(refused, tmp_path):
    path = tmp_path / "twice.npz"
    archive(path, {"cls.npy": npy(np.zeros(3)), "cls": npy(np.ones(3))})
    refused(path, "holds the array 'cls' twice.")


def test_encrypted_members(refused, save, arrays):
    path = save(arrays)
    content = bytearray(path.read_bytes())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):  # the flag of encryption, in both directories
        at = content.find(mark)
        content[at + offset] |= 1
    path.write_bytes(content)
    refused(path, "damaged or not a NumPy array (")


@pytest.mark.parametrize(
    "member, message",
    [
        ("head/kernel.npy", "damaged or not a NumPy array (Bad CRC-32"),  # short: checked along with its header
        ("embedding/kernel.npy", "its data is damaged (Bad CRC-32"),
    ],
)
def test_a_flipped_bit_in_the_data(refused, save, arrays, member, message):
    path = save(arrays)
    with zipfile.ZipFile(path) as file:
        info = file.getinfo(member)
        end = info.header_offset + 30 + len(member) + info.compress_size
    content = bytearray(path.read_bytes())
    content[end - 3] ^= 1
    path.write_bytes(content)
    refused(path, f"array {member!r}: {message}")
