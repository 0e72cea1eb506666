"""Bad files are refused in one clear sentence, and a refused file leaves the model as it was."""

import io
import json
import pickle
import warnings
import zipfile

import keras
import numpy as np
import pytest

import vitkeras

POSITION = "Transformer/posembed_input/pos_embedding"
QUERY = "Transformer/encoderblock_0/MultiHeadDotProductAttention_1/query/kernel"


def numpy(variable):
    return keras.ops.convert_to_numpy(variable)


# Files that are no checkpoint.


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
        tmp_path / f"w.{suffix}", "checkpoint must be a file that ends in one of ('.npz', '.safetensors', '.keras', "
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


def archive(path, members, **options):
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            file.writestr(name, content, **options)
    return path


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


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


# Files of arrays that do not fit.


def test_every_fault_is_named_in_one_message(refused, save, arrays):
    del arrays["cls"], arrays["Transformer/encoder_norm/bias"]
    arrays["optimizer/step"] = np.array(3.0, "float32")
    arrays[QUERY] = arrays[QUERY].reshape(48, 48)
    arrays["embedding/bias"] = arrays["embedding/bias"].astype("int32")
    arrays["head/bias"] = arrays["head/bias"].astype("complex64")
    text = refused(save(arrays), "weights.npz' does not fit the model (6 faults): ")
    for part in (
        "missing 'cls'",
        "missing 'Transformer/encoder_norm/bias'",
        "unexpected 'optimizer/step'",
        f"{QUERY!r} must have shape (48, 3, 16), received (48, 48)",
        "'embedding/bias' must be floating point, received int32",
        "'head/bias' must be floating point, received complex64",
    ):
        assert part in text


@pytest.mark.parametrize("key", ["cls", QUERY, POSITION, "head/bias"])
def test_one_missing_array(refused, save, arrays, key):
    del arrays[key]
    refused(save(arrays), f"does not fit the model (1 fault): missing {key!r}.")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("key", ["embedding/kernel", "head/bias"])
def test_values_that_are_not_finite(refused, save, arrays, key, value):
    arrays[key].flat[5] = value
    refused(save(arrays), f"does not fit the model (1 fault): {key!r} holds values that are not finite.")


@pytest.mark.parametrize("shape", [(), (7,), (48, 7, 1)])
def test_a_head_kernel_of_another_rank(refused, save, arrays, shape):
    arrays["head/kernel"] = np.ones(shape, "float32")
    refused(save(arrays), f"'head/kernel' must have shape (48, 7), received {shape}")


def test_a_position_embedding_of_another_rank(refused, save, arrays):
    arrays[POSITION] = arrays[POSITION][0]
    refused(save(arrays), f"{POSITION!r} must have shape (1, 5, 48), received (5, 48)")


def test_a_deeper_file_names_the_blocks_too_many(refused, save, arrays):
    extra = {key.replace("block_1", "block_2"): value for key, value in arrays.items() if "block_1" in key}
    text = refused(save({**arrays, **extra}), "(16 faults): unexpected 'Transformer/encoderblock_2/")
    assert text.count("unexpected") == 16


def test_a_file_without_class_token_names_what_is_missing(refused, golden):
    text = refused(golden.path("vit_gap"), "(2 faults): missing 'cls'; ")
    assert f"{POSITION!r} holds 3 positions" in text


def test_a_model_with_foreign_weights_is_refused(save, arrays, make, refused):
    model = make(include_top=False, pooling="token")
    composed = keras.Model(model.input, keras.layers.Dense(5, name="mine")(model.output), name="composed")
    refused(save(arrays), "model 'composed': layer 'mine' (Dense) has weights but no place in the original", composed)


# The head.


def test_classes_that_contradict_the_file(refused, save, arrays, make):
    message = "classes must be 7, the head of checkpoint"
    assert "received 5;" in refused(save(arrays), message, make(classes=5))


def test_other_classes_keep_the_backbone_and_make_a_zero_head(save, arrays, make):
    model = make(classes=1000, weights=save(arrays))
    assert model.output_shape == (None, 1000) and not numpy(model.get_layer("head").kernel).any()
    np.testing.assert_array_equal(numpy(model.get_layer("class_token").token), arrays["cls"])


def test_classes_left_alone_are_the_files(save, arrays, make):
    model = make(classes=None, weights=save(arrays))
    np.testing.assert_array_equal(numpy(model.get_layer("head").kernel), arrays["head/kernel"])


def test_a_file_without_head(refused, save, arrays):
    del arrays["head/kernel"], arrays["head/bias"]
    refused(save(arrays), "has no head; use include_top=False, or load_checkpoint(..., load_head=False).")


@pytest.mark.parametrize("has_head", [True, False])
@pytest.mark.parametrize("has_pre_logits", [True, False])
def test_without_the_head_every_backbone_loads(save, golden, make, has_head, has_pre_logits):
    arrays = golden("vit_token_rep24" if has_pre_logits else "vit_token_32x32")
    if not has_head:
        arrays = {k: v for k, v in arrays.items() if not k.startswith("head/")}
    path = save(arrays)
    headless = make(include_top=False, weights=path)
    kept = vitkeras.load_checkpoint(make(classes=5), path, load_head=False)
    for model in (headless, kept):
        np.testing.assert_array_equal(numpy(model.get_layer("class_token").token), arrays["cls"])
    assert not numpy(kept.get_layer("head").kernel).any()


def test_load_head_false_ignores_only_the_head(refused, save, arrays):
    refused(save({**arrays, "tail/kernel": arrays["cls"]}), "(1 fault): unexpected 'tail/kernel'.", load_head=False)


def test_pre_logits_of_the_file_need_a_place(refused, golden):
    refused(
        golden.path("vit_token_rep24"),
        "has pre_logits before its head: build with representation_size=24 to keep it, or drop both with "
        "include_top=False or load_head=False.",
    )


def test_pre_logits_of_the_model_need_an_array(refused, save, arrays, make):
    model = make(representation_size=48)
    refused(save(arrays), "(2 faults): missing 'pre_logits/kernel'; missing 'pre_logits/bias'.", model)


def test_pre_logits_of_another_width(refused, golden, make):
    text = refused(
        golden.path("vit_token_rep24"), "'pre_logits/kernel' must have shape (48, 23)", make(representation_size=23)
    )
    assert "'head/kernel' must have shape (23, 7), received (24, 7)" in text


def test_an_all_zero_head_is_loaded_with_a_warning(save, arrays, make):
    arrays["head/kernel"] = np.zeros((48, 7), "float32")
    with pytest.warns(
        UserWarning, match="has an all-zero head: every class gets the same score. Use include_top=False"
    ):
        model = make(weights=save(arrays))
    np.testing.assert_array_equal(
        numpy(model.get_layer("encoder_norm").scale), arrays["Transformer/encoder_norm/scale"]
    )


def test_a_zero_head_as_an_error_still_leaves_a_whole_model(save, arrays, make):
    arrays["head/kernel"] = np.zeros((48, 7), "float32")
    model = make()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="all-zero head"):
            vitkeras.load_checkpoint(model, save(arrays))
    np.testing.assert_array_equal(numpy(model.get_layer("head").bias), arrays["head/bias"])


# Other ways to store the same numbers.


def test_a_path_as_str_and_the_model_is_returned(save, arrays, make):
    model = make()
    assert vitkeras.load_checkpoint(model, str(save(arrays))) is model


def big_endian(arrays):
    return {key: value.astype(">f4") for key, value in arrays.items()}


def column_major(arrays):
    return {key: np.asfortranarray(value) for key, value in arrays.items()}


STORED = {
    "compressed": (lambda a: a, np.savez_compressed, 0),
    "big-endian": (big_endian, np.savez, 0),
    "column-major": (column_major, np.savez, 0),
    "float64": (lambda a: {k: v.astype("float64") for k, v in a.items()}, np.savez, 0),
    "float16": (lambda a: {k: v.astype("float16") for k, v in a.items()}, np.savez, 1e-3),
}


@pytest.mark.parametrize("change, writer, atol", STORED.values(), ids=STORED)
def test_the_same_numbers_stored_otherwise(save, arrays, make, change, writer, atol, golden, assert_close):
    model = make(weights=save(change(arrays), writer=writer))
    assert_close(numpy(model.get_layer("encoder_block_00").attention.query.kernel), arrays[QUERY].reshape(48, 48), atol)
    io = golden("vit_token_32x32_io")
    assert_close(model(io["input"]), io["logits"], atol=20 * atol or 2e-5)


def test_members_without_suffix_are_arrays_too(arrays, make, tmp_path):
    path = archive(tmp_path / "bare.npz", {key: npy(value) for key, value in arrays.items()})
    np.testing.assert_array_equal(numpy(make(weights=path).get_layer("head").bias), arrays["head/bias"])
