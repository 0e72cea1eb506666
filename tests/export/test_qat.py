import importlib.util
import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest

import vitkeras
from vitkeras.export import activation_ranges, baked_model, prepare_qat, qat_calibrate, ranges_record
from vitkeras.export.fake_quant import FLOAT, QUANTIZE, FakeQuantizer, fake_quantizers, quantized_kernel, set_mode
from vitkeras.export.quantize import around_zero

if importlib.util.find_spec("tensorflow_model_optimization") is None:  # looked for, not imported
    pytest.skip('tensorflow-model-optimization is absent: pip install "vitkeras[qat]"', allow_module_level=True)


@pytest.fixture(scope="module")
def inputs(pixels):
    return vitkeras.preprocess_input(pixels).astype("float32")


@pytest.fixture
def outputs(inputs):
    return lambda model: keras.ops.convert_to_numpy(model(inputs, training=False))


def test_the_import_leaves_nothing_behind(monkeypatch):
    import tensorflow as tf

    from vitkeras._tfmot import tfmot

    for legacy in (None, "0"):
        for name in [name for name in sys.modules if name.startswith("tensorflow_model_optimization")]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.delenv("TF_USE_LEGACY_KERAS", raising=False)
        if legacy is not None:
            monkeypatch.setenv("TF_USE_LEGACY_KERAS", legacy)
        before = dict(os.environ), keras.backend.backend(), id(sys.modules["keras"])
        assert tfmot("this test").__name__ == "tensorflow_model_optimization"
        assert (dict(os.environ), keras.backend.backend(), id(sys.modules["keras"])) == before
        assert tf.keras.version() == keras.version()


@pytest.mark.slow
def test_a_fresh_process_keeps_keras_3():
    code = (
        "import os, vitkeras, keras\nfrom vitkeras.export.fake_quant import quantizers\nquantizers()\n"
        "import tensorflow as tf\nassert 'TF_USE_LEGACY_KERAS' not in os.environ\n"
        "assert tf.keras.version() == keras.version() and tf.keras.layers.Dense is keras.layers.Dense"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_without_tfmot_the_extra_is_named(make, inputs, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_model_optimization", None)
    with pytest.raises(ImportError, match=r'quantization-aware training needs .* pip install "vitkeras\[qat\]"'):
        prepare_qat(make(), inputs)


@pytest.mark.parametrize("settings", [dict(), dict(activation="gelu", classifier="gap", representation_size=23)])
def test_without_rounding_it_is_the_float_model(make, inputs, outputs, settings):
    model = make(dropout_rate=0.3, stochastic_depth_rate=0.2, **settings)
    before = [v.numpy() for v in model.variables]
    copy = prepare_qat(model, inputs, batch_size=5)
    reference, rounded = outputs(model), outputs(copy)
    set_mode(copy, FLOAT)
    np.testing.assert_allclose(outputs(copy), reference, rtol=0, atol=2e-5 * np.abs(reference).max())
    noise = np.abs(rounded - reference).max() / np.abs(reference).max()
    assert 1e-3 < noise < 0.3
    for variable, old in zip(model.variables, before):
        np.testing.assert_array_equal(variable.numpy(), old)
    paths = {v.path for v in copy.weights}
    assert {v.path for v in model.weights if "seed" not in v.path} <= paths
    assert {p.split("/")[-1] for p in paths - {v.path for v in model.weights}} == {"minimum", "maximum"}


@pytest.mark.parametrize("name", ["key", "value"])
def test_keys_and_values_have_a_mean_of_zero_and_the_function_stays(make, inputs, outputs, rng, name):
    model = make()
    bias = getattr(model.get_layer("encoder_block_01").attention, name).bias
    bias.assign(bias + rng.normal(0, 3, bias.shape))
    copy = prepare_qat(model, inputs, batch_size=2)
    seen = []
    quantizer = fake_quantizers(copy)[f"encoder_block_01/{name}"]
    set_mode(copy, "observe")
    quantizer.observer = seen.append
    np.testing.assert_allclose(outputs(copy), outputs(model), rtol=0, atol=5e-5)
    assert np.abs(keras.ops.convert_to_numpy(seen[0]).mean(axis=(0, 2))).max() < 1e-5


def test_ranges_before_a_gelu_end_where_it_sees_nothing(make, inputs):
    model = make()
    bias = model.get_layer("encoder_block_01").mlp.expand.bias
    bias.assign(np.where(np.arange(53) == 2, -60, bias.numpy()))
    small = model.get_layer("encoder_block_00").mlp.expand.kernel
    small.assign(0.1 * small.numpy())
    ranges = activation_ranges(prepare_qat(model, inputs))
    assert ranges["encoder_block_01/hidden"][0] == -4.0 and ranges["encoder_block_01/hidden"][1] > 1
    assert -4 < ranges["encoder_block_00/hidden"][0] < 0  # nothing lies so low


def test_channels_behind_a_norm_are_equalised(make, with_outliers, inputs, outputs, monkeypatch):
    model = with_outliers(make())
    copy, reference = prepare_qat(model, inputs), outputs(model)
    scales = copy.get_layer("encoder_block_00").attention_norm.scale.numpy()
    assert scales.argmin() == 5 and scales[5] < 0.2 * np.median(scales)
    again = prepare_qat(baked_model(copy), ranges=activation_ranges(copy))
    np.testing.assert_allclose(outputs(again), outputs(copy), rtol=0, atol=1e-5)
    set_mode(copy, FLOAT)
    np.testing.assert_allclose(outputs(copy), reference, rtol=0, atol=2e-5 * np.abs(reference).max())
    monkeypatch.setitem(qat_calibrate.LEAST_GAIN, "norm", np.inf)
    plain = prepare_qat(model, inputs)
    assert (plain.get_layer("encoder_block_00").attention_norm.scale.numpy() == 1).all()


def with_large_channels(model):
    """Value channels 3 and 22 and channel 7 before the head sixty times larger, by an equal function."""
    large = np.where(np.isin(np.arange(38), [3, 22]), 60.0, 1.0)
    for name in ("encoder_block_00", "encoder_block_01"):
        attention = model.get_layer(name).attention
        attention.value.kernel.assign(attention.value.kernel.numpy() * large)
        attention.value.bias.assign(attention.value.bias.numpy() * large)
        attention.out.kernel.assign(attention.out.kernel.numpy() / large[:, None])
    large = np.where(np.arange(38) == 7, 60.0, 1.0)
    norm, head = (
        model.get_layer("encoder_norm"),
        next(layer for layer in model.layers if type(layer).__name__ == "Dense"),
    )
    norm.scale.assign(norm.scale.numpy() * large)
    norm.bias.assign(norm.bias.numpy() * large)
    head.kernel.assign(head.kernel.numpy() / large[:, None])
    return model


@pytest.mark.parametrize("settings", [dict(), dict(classifier="gap", representation_size=23)])
def test_channels_before_dynamic_products_are_equalised(make, inputs, outputs, monkeypatch, settings):
    model = with_large_channels(make(**settings))
    copy, reference = prepare_qat(model, inputs), outputs(model)
    noise = np.square(outputs(copy) - reference).mean()
    for variable, channels in (
        (copy.get_layer("encoder_block_01").attention.value.kernel, [3, 22]),
        (copy.get_layer("encoder_norm").scale, [7]),
    ):
        sizes = np.abs(np.atleast_2d(variable.numpy())).max(axis=0)
        assert sizes[channels].max() < 5 * np.median(sizes)
    again = prepare_qat(baked_model(copy), ranges=activation_ranges(copy))
    np.testing.assert_allclose(outputs(again), outputs(copy), rtol=0, atol=1e-5)
    set_mode(copy, FLOAT)
    np.testing.assert_allclose(outputs(copy), reference, rtol=0, atol=2e-5 * np.abs(reference).max())
    monkeypatch.setitem(qat_calibrate.LEAST_GAIN, "value", np.inf)
    assert np.square(outputs(prepare_qat(model, inputs)) - reference).mean() > 10 * noise


def test_a_norm_that_is_an_output_keeps_its_channels(make, inputs):
    model = with_large_channels(make())
    both = keras.Model(model.input, [model.get_layer("encoder_norm").output, model.output])
    copy = prepare_qat(both, inputs)
    set_mode(copy, FLOAT)
    for received, exact in zip(copy(inputs), both(inputs)):
        scale = np.abs(exact.numpy()).max()
        np.testing.assert_allclose(received.numpy(), exact.numpy(), rtol=0, atol=2e-5 * scale)


def test_the_weighted_sum_may_stay_in_float(make, inputs, outputs):
    model = make()
    copy = prepare_qat(model, inputs, float_mix=True)
    ranges = activation_ranges(copy)
    rounded = activation_ranges(prepare_qat(model, inputs))
    mix = {f"encoder_block_0{i}/{name}" for i in range(2) for name in ("even_weights", "context")}
    assert len(ranges) == 2 * 7 + 1 and set(rounded) - set(ranges) == mix
    seen, attention = [], copy.get_layer("encoder_block_00")
    weights, value = np.full((1, 2, 3, 3), [0.98, 0.019, 0.001], "float32"), np.full((1, 2, 3, 19), 0.2, "float32")
    value[:, :, 2] = 500
    for block in (attention, prepare_qat(model, inputs).get_layer("encoder_block_00")):
        seen.append(keras.ops.convert_to_numpy(block._mix(weights, value)))
    np.testing.assert_allclose(seen[0], weights @ value, rtol=1e-6)
    assert np.abs(seen[1] - weights @ value).max() > 1e-3
    baked = baked_model(copy)
    assert type(baked.get_layer("encoder_block_00")) is vitkeras.layers.EncoderBlock
    np.testing.assert_allclose(outputs(prepare_qat(baked, ranges=ranges)), outputs(copy), rtol=0, atol=1e-5)


def test_ranges_know_their_model(make, inputs, outputs, tmp_path):
    students = [prepare_qat(make(seed=seed), inputs) for seed in (3, 4)]
    baked = [baked_model(student) for student in students]
    record = json.loads(json.dumps(ranges_record(students[0], baked[0])))
    baked[0].save(tmp_path / "model.keras")
    again = prepare_qat(keras.saving.load_model(tmp_path / "model.keras"), ranges=record)
    np.testing.assert_allclose(outputs(again), outputs(students[0]), rtol=0, atol=1e-5)
    with pytest.raises(ValueError, match="ranges must be of this model: they were saved with weights of SHA-256 '"):
        prepare_qat(baked[1], ranges=record)
    prepare_qat(baked[1], ranges=activation_ranges(students[0]))  # without a fingerprint nobody can tell


@pytest.mark.parametrize("zero_centred", [False, True])
def test_rounding_is_that_of_an_int8_tensor(rng, zero_centred):
    quantizer = FakeQuantizer(zero_centred=zero_centred, name="q")
    quantizer.build(())
    quantizer.mode, seen = "observe", []
    quantizer.observer = seen.append
    batch = rng.normal(0.4, 1.0, (7, 11)).astype("float32")
    np.testing.assert_array_equal(quantizer(batch), batch)
    assert len(seen) == 1 and float(quantizer.maximum) == 0
    ends = float(batch.min()), float(batch.max())
    quantizer.set_range(*(around_zero(*ends) if zero_centred else ends))
    least, greatest = float(quantizer.minimum), float(quantizer.maximum)
    scale = (greatest - least) / 255
    zero = round(-128 - least / scale)
    if zero_centred:
        assert zero == 0 and np.isclose(least / greatest, -128 / 127)
    else:
        assert np.isclose([least, greatest], ends, rtol=1e-6).all()
    quantizer.mode = QUANTIZE
    x = np.linspace(1.2 * least, 1.2 * greatest, 499).astype("float32")
    integers = np.clip(np.floor(x / scale + zero + 0.5), -128, 127)
    received = keras.ops.convert_to_numpy(quantizer(x))
    assert np.abs(received - scale * (integers - zero)).max() < 0.02 * scale
    assert len(np.unique(received)) == 256


def test_kernels_lie_on_their_channels_grid(rng):
    for shape in ((13, 5), (3, 7, 2, 5)):
        kernel = rng.normal(0, [1, 2, 3, 4, 0], shape).astype("float32")
        scale = np.abs(kernel.reshape(-1, 5)).max(axis=0) / 127
        rounded = keras.ops.convert_to_numpy(quantized_kernel(kernel))
        integers = rounded / np.where(scale, scale, 1)
        np.testing.assert_allclose(integers, np.rint(integers), atol=2e-4)
        assert np.abs(integers).max() <= 127.001 and np.abs(rounded - kernel).max() <= 0.51 * scale.max()
        assert not rounded[..., 4].any()
        np.testing.assert_allclose(quantized_kernel(rounded), rounded, atol=1e-6)


def test_gradients_reach_every_weight(make, inputs):
    import tensorflow as tf

    model = prepare_qat(make(), inputs)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(inputs, training=True) ** 2)
    variables = model.trainable_variables
    for variable, gradient in zip(variables, tape.gradient(loss, [v.value for v in variables])):
        assert gradient is not None and np.isfinite(gradient).all(), variable.path
        # The bias of a key adds the same to all scores of a query, which softmax takes away again.
        assert np.abs(gradient).max() > 0 or variable.path.endswith("key/bias"), variable.path
    frozen = {v.path for v in make().trainable_variables} - {v.path for v in variables}
    assert len(frozen) == 8 and all("_norm/" in path and "encoder_norm" not in path for path in frozen)


def test_baked_model_and_ranges_give_it_back(make, inputs, outputs, tmp_path):
    model = prepare_qat(make(), inputs)
    baked, ranges = baked_model(model), json.loads(json.dumps(activation_ranges(model)))
    baked.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert type(loaded.get_layer("encoder_block_00")) is vitkeras.layers.EncoderBlock
    assert not fake_quantizers(loaded)
    again = prepare_qat(loaded, ranges=ranges)
    np.testing.assert_allclose(outputs(again), outputs(model), rtol=0, atol=1e-5)
    assert activation_ranges(again) == {name: tuple(pair) for name, pair in ranges.items()}
    assert len(ranges) == 2 * 9 + 1
    assert all((least, greatest) != (0, 0) for least, greatest in ranges.values())


def test_errors(make, inputs):
    model = make()
    with pytest.raises(ValueError, match="either calibration_images or ranges, received both or neither"):
        prepare_qat(model)
    with pytest.raises(ValueError, match=r"calibration_images must have shape \(N, 33, 55, 3\), received \(13, 33, 5"):
        prepare_qat(model, inputs[:, :, :54])
    with pytest.raises(ValueError, match=r"must be what the model takes .* received 0...255"):
        prepare_qat(model, np.linspace(0, 255, inputs.size).reshape(inputs.shape))
    with pytest.raises(ValueError, match="calibration_images must be finite"):
        prepare_qat(model, inputs * np.nan)
    with pytest.raises(ValueError, match="batch_size must be an int >= 1, received 0"):
        prepare_qat(model, inputs, batch_size=0)
    with pytest.raises(ValueError, match=r"layer 'encoder_block_00' \(EncoderBlock\) .* has relative positions"):
        prepare_qat(make(position_embedding="relative"), inputs)
    with pytest.raises(ValueError, match=r"layer 'conv_root' \(StdConv\) .* is of no kind that it knows"):
        prepare_qat(vitkeras.VisionTransformer((64, 64, 3), 1, 1, 32, 2, 8, stem_blocks=(), classes=2), inputs)
    ranges = activation_ranges(prepare_qat(model, inputs))
    with pytest.raises(ValueError, match="must come from prepare_qat, 'vision_transformer"):
        activation_ranges(model)
    with pytest.raises(ValueError, match="they have the unexpected 'tail/input'"):
        prepare_qat(model, ranges=ranges | {"tail/input": (0, 1)})
    with pytest.raises(ValueError, match="they lack 'encoder_block_01/key'"):
        prepare_qat(model, ranges={name: pair for name, pair in ranges.items() if name != "encoder_block_01/key"})
    for ends, rule in (
        ((1, 2), r"hold 0, received \(1, 2\)"),
        (["a", "b"], "two numbers below 1e30 in size, received .'a', 'b'."),
        ((False, True), "two numbers"),
        ((0, 1e39), "two numbers"),
        ((np.nan, 1), "two numbers"),
        ((0, 1, 2), "two numbers"),
    ):
        with pytest.raises(ValueError, match=rf"\['encoder_block_01/key'\] must (be )?{rule}"):
            prepare_qat(model, ranges=ranges | {"encoder_block_01/key": ends})
    with pytest.raises(ValueError, match="ranges are for the baked_model .*: 'patch_embedding/projection/kernel' of"):
        prepare_qat(model, ranges=ranges)
