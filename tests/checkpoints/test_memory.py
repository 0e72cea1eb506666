"""Memory while a checkpoint is loaded: one array beside the model, and none that anyone else could still write to."""

import os
import tracemalloc

import backends
import keras
import numpy as np
import pytest
from safetensors_writer import safetensors_bytes

import vitkeras
from vitkeras.checkpoints import load
from vitkeras.checkpoints.array_file import BLOCK_BYTES
from vitkeras.checkpoints.google import google_slots
from vitkeras.checkpoints.handover import ALIGNMENT, HandedOver, aligned_empty, hand_over
from vitkeras.checkpoints.npz import NpzFile

SIZES = dict(num_layers=1, hidden_dim=384, num_heads=3, mlp_dim=1536, classes=997)
# Besides the array: a block, what the archive's decompressor holds of it, and Python's own objects.
BESIDE = 4 * BLOCK_BYTES


def numpy(x):
    return keras.ops.convert_to_numpy(x)


def build(**arguments):
    return vitkeras.VisionTransformer((32, 32, 3), 16, **{**SIZES, **arguments})


def timm_arrays(dtype):
    """A complete file of ones in timm's layout for `build`."""
    width, mlp = SIZES["hidden_dim"], SIZES["mlp_dim"]
    shapes = {
        "cls_token": (1, 1, width),
        "pos_embed": (1, 5, width),
        "patch_embed.proj.weight": (width, 3, 16, 16),
        "patch_embed.proj.bias": (width,),
        "norm.weight": (width,),
        "norm.bias": (width,),
        "head.weight": (SIZES["classes"], width),
        "head.bias": (SIZES["classes"],),
    }
    for i in range(SIZES["num_layers"]):
        for name, shape in {
            "norm1": (width,),
            "norm2": (width,),
            "attn.qkv": (3 * width, width),
            "attn.proj": (width, width),
            "mlp.fc1": (mlp, width),
            "mlp.fc2": (width, mlp),
        }.items():
            shapes[f"blocks.{i}.{name}.weight"], shapes[f"blocks.{i}.{name}.bias"] = shape, shape[:1]
    return {name: np.ones(shape, dtype) for name, shape in shapes.items()}


def write_npz(path, writer, dtype, slots):
    writer(path, **{slot.key: np.ones(slot.shape, dtype) for slot in slots})


FILES = {
    "npz": ("npz", lambda path, dtype, slots: write_npz(path, np.savez, dtype, slots)),
    "compressed": ("npz", lambda path, dtype, slots: write_npz(path, np.savez_compressed, dtype, slots)),
    "timm": ("safetensors", lambda path, dtype, slots: path.write_bytes(safetensors_bytes(timm_arrays(dtype)))),
}


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("kind", FILES)
def test_loading_holds_one_array_at_a_time(kind, dtype, tmp_path, monkeypatch):
    model = build(activation="gelu")
    slots = google_slots(model)
    suffix, write = FILES[kind]
    path = tmp_path / f"model.{suffix}"
    write(path, dtype, slots)
    extra, start = [], [0]

    def watched(variable, array):
        """Counts what NumPy held since the last array, and what handing this one over takes."""
        before = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        hand_over(variable, array)
        extra.append((before[1] - start[0], tracemalloc.get_traced_memory()[1] - before[0], array.nbytes))
        tracemalloc.reset_peak()
        # Counted from here: the backend may keep the array as the variable's memory, which is no extra.
        start[0] = tracemalloc.get_traced_memory()[0]

    monkeypatch.setattr(load, "hand_over", watched)
    tracemalloc.start()
    try:
        vitkeras.load_checkpoint(model, path)
    finally:
        tracemalloc.stop()
    assert len(extra) == len(slots)
    # The patch kernel of PyTorch's layout is turned by a second copy; every other array is laid out as it is read.
    copies = [2 if kind == "timm" and size == 4 * 16 * 16 * 3 * 384 else 1 for *_, size in extra]
    for (held, handed, size), count in zip(extra[1:], copies[1:]):
        assert held <= count * size + BESIDE and handed <= (count - 1) * size + BESIDE
    # Before the first there were the headers and the check of all values, which holds blocks only.
    assert extra[0][0] <= copies[0] * extra[0][2] + BESIDE + 2**20
    largest = max(size for *_, size in extra)
    assert largest > 3 * BESIDE / 2, "the largest array must be larger than what stands beside it"
    assert all((numpy(weight) == 1).all() for weight in model.weights)


@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="the peak of resident memory is Linux's")
def test_a_variable_takes_the_memory_over():
    """Measured by the kernel, because TensorFlow's own copies are nothing that Python counts."""
    values = 3 * 2**22 + 5  # 50 MB: beyond what the C library keeps for the next array
    variable = keras.Variable(np.ones(values, "float32"))

    def resident(field):
        with open("/proc/self/status", encoding="utf-8") as file:
            return 1024 * int(next(line for line in file if line.startswith(field)).split()[1])

    def peak(assign):
        with open("/proc/self/clear_refs", "w", encoding="utf-8") as file:
            file.write("5")
        before = resident("VmRSS")
        array = aligned_empty((values,), "float32")
        array[...] = 2
        assign(array)
        return (resident("VmHWM") - before) / array.nbytes

    hand_over(keras.Variable(np.zeros(3, "float32")), np.ones(3, "float32"))
    assert peak(lambda array: hand_over(variable, array)) < 1.1
    assert peak(variable.assign) > 1.8, "this test does not see copies"
    np.testing.assert_array_equal(numpy(variable)[[0, -1]], [2, 2])


def test_arrays_start_at_a_multiple_of_64_bytes():
    for shape, dtype in (((), "f4"), ((0, 3), "f8"), ((7, 11), "f2"), ((997, 383), "f4")):
        for _ in range(5):
            array = aligned_empty(shape, dtype)
            assert array.shape == shape and array.dtype == dtype and array.flags.c_contiguous and array.flags.writeable
            assert array.ctypes.data % ALIGNMENT == 0 or not array.size


def test_what_is_handed_over_becomes_an_array_of_any_dtype():
    array = np.arange(5, dtype="float32")
    given = HandedOver(array)
    assert np.asarray(given) is array and np.array(given, copy=True) is not None
    np.testing.assert_array_equal(np.asarray(given, "float64"), array.astype("float64"))


@pytest.mark.parametrize("shape", [(), (7,), (5, 3)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_any_array_goes_into_any_variable(shape, dtype, rng):
    values = np.asarray(rng.normal(size=(*shape[::-1], 2)), "float32")[..., 0].T  # neither contiguous nor aligned
    variable = keras.Variable(np.zeros(shape), dtype=dtype)
    hand_over(variable, values)
    expected = keras.ops.cast(keras.ops.convert_to_tensor(values), dtype)
    np.testing.assert_array_equal(
        numpy(keras.ops.cast(variable.value, "float32")), numpy(keras.ops.cast(expected, "float32"))
    )


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16", "bfloat16", "float64"])
def test_models_of_every_dtype_policy(policy, save, arrays, make):
    keras.config.set_dtype_policy(policy)
    model = make()
    vitkeras.load_checkpoint(model, save(arrays))
    kernel = model.get_layer("head").kernel
    expected = keras.ops.cast(keras.ops.convert_to_tensor(arrays["head/kernel"]), kernel.dtype)
    np.testing.assert_array_equal(numpy(keras.ops.cast(kernel, "float32")), numpy(keras.ops.cast(expected, "float32")))


def test_a_float64_model_keeps_every_bit_of_a_float64_file(save, arrays, make, rng):
    arrays["head/bias"] = rng.normal(size=7)
    keras.config.set_dtype_policy("float64")
    model = make()
    vitkeras.load_checkpoint(model, save(arrays))
    np.testing.assert_array_equal(numpy(model.get_layer("head").bias), arrays["head/bias"])


@pytest.mark.parametrize("layout, optimizer", [("npz", "sgd"), ("timm", "adam")])
def test_training_after_loading_is_as_after_any_other_assignment(layout, optimizer, golden, make, rng):
    """An optimizer updates in place: no weight shares memory with another one, with the file or with a second model."""
    path = golden.path("vit_token_32x32") if layout == "npz" else golden.path(".").parent / "timm_vit_32x32.safetensors"
    arguments = dict(activation="gelu") if layout == "timm" else {}
    images = rng.normal(size=(5, 32, 32, 3)).astype("float32")
    trained, untouched, other = (make(**arguments) for _ in range(3))
    vitkeras.load_checkpoint(trained, path)
    vitkeras.load_checkpoint(untouched, path)
    other.set_weights([numpy(w).copy() for w in untouched.weights])
    start = [numpy(w).copy() for w in untouched.weights]
    for model in (trained, other):
        updates = keras.optimizers.get(optimizer)
        for _ in range(2):
            found = backends.gradients(model, images)[0].values()
            updates.apply([keras.ops.convert_to_tensor(g) for g in found], model.trainable_weights)
    for a, b, before, left in zip(trained.weights, other.weights, start, untouched.weights):
        np.testing.assert_array_equal(numpy(a), numpy(b))
        np.testing.assert_array_equal(numpy(left), before)
    assert any((numpy(a) != b).any() for a, b in zip(trained.weights, start))


def test_loading_again_does_not_touch_what_was_read_before(golden, save, make):
    model = make(weights=golden.path("vit_token_32x32"))
    held = [keras.ops.convert_to_tensor(w) + 0 for w in model.weights]
    before = [numpy(w).copy() for w in held]
    vitkeras.load_checkpoint(model, save({k: v * 2 for k, v in golden("vit_token_32x32").items()}))
    for tensor, expected in zip(held, before):
        np.testing.assert_array_equal(numpy(tensor), expected)


@pytest.mark.parametrize("shape", [(7,), (6, 5), (6, 5, 3), (600, 701), (0, 5)])
@pytest.mark.parametrize("by_columns", [False, True])
@pytest.mark.parametrize("stored", ["C", "F"])
def test_parts_and_orders_give_the_same_numbers(shape, by_columns, stored, tmp_path, rng):
    array = np.asarray(rng.normal(size=shape), "float32", order=stored)
    np.savez(tmp_path / "a.npz", a=array)
    with NpzFile(tmp_path / "a.npz") as file:
        np.testing.assert_array_equal(file.read("a"), array)
        for parts in (1, 2, 3):
            if shape[0] % parts:
                continue
            found = list(file.read_parts("a", parts, "float64", by_columns))
            np.testing.assert_array_equal(np.concatenate(found), array.astype("float64"))
            assert len({part.ctypes.data for part in found}) == parts or not array.size
            if len(shape) == 2 and (parts == 1 or stored == "C"):
                assert all((part.T if by_columns else part).flags.c_contiguous for part in found)
