"""Arrays that do not fit are refused in one clear sentence, and a refused file leaves the model as it was."""

import keras
import numpy as np
import pytest
from archive_writer import archive, npy

import vitkeras

POSITION = "Transformer/posembed_input/pos_embedding"
QUERY = "Transformer/encoderblock_0/MultiHeadDotProductAttention_1/query/kernel"


def numpy(variable):
    return keras.ops.convert_to_numpy(variable)


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


def test_a_deeper_file_is_refused_in_one_sentence(refused, save, arrays):
    extra = {key.replace("block_1", "block_2"): value for key, value in arrays.items() if "block_1" in key}
    found, own = (f"{n} encoder blocks of width 48 and MLP dimension 96" for n in (3, 2))
    refused(save({**arrays, **extra}), f"is of another model: it has {found}, the model has {own}.")


def test_a_variant_is_not_built_for_a_file_of_another_size(save, arrays, monkeypatch):
    monkeypatch.setattr(vitkeras.layers, "EncoderBlock", None)
    with pytest.raises(ValueError, match="it has 2 encoder blocks of width 48 .* the model has 12 .* of width 192 and"):
        vitkeras.ViTTi16(weights=save(arrays))


def test_a_hybrids_units_belong_to_its_size(golden, make, refused):
    stem = "a ResNet of (1, 1, 1) units a stage"
    refused(golden.path("hybrid_r111_w05_p1"), f"it has {stem} and 2 encoder blocks of width 48", make())


def test_many_faults_are_not_all_listed(refused, save, arrays):
    extra = {f"other/{i}": np.ones(3, "float32") for i in range(23)}
    text = refused(save({**arrays, **extra}), "does not fit the model (23 faults): unexpected 'other/0'; ")
    assert text.count("unexpected") == 20 and text.endswith("; and 3 more.")


def test_a_file_without_class_token_names_what_is_missing(refused, golden):
    text = refused(golden.path("vit_gap"), "(2 faults): missing 'cls'; ")
    assert f"{POSITION!r} holds 4 positions" in text


def test_a_model_with_foreign_weights_is_refused(save, arrays, make, refused):
    model = make(include_top=False, pooling="token")
    composed = keras.Model(model.input, keras.layers.Dense(5, name="mine")(model.output), name="composed")
    refused(save(arrays), "model 'composed': layer 'mine' (Dense) has weights without a place in", composed)


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
