import importlib.util
import json
import os

import numpy as np
import pytest

import vitkeras
from vitkeras.export import activation_ranges, baked_model, prepare_qat, run_tflite, to_saved_model, to_tflite
from vitkeras.export.checks import compare, read_graph
from vitkeras.export.cli import main
from vitkeras.export.qat_ranges import read_products

if importlib.util.find_spec("tensorflow_model_optimization") is None:
    pytest.skip('tensorflow-model-optimization is absent: pip install "vitkeras[qat]"', allow_module_level=True)


@pytest.fixture(scope="module")
def inputs(pixels):
    return vitkeras.preprocess_input(pixels).astype("float32")


def kinds(path):
    from ai_edge_litert.tools import flatbuffer_utils

    graph = read_graph(path)
    return graph, [flatbuffer_utils.opcode_to_name(graph, o.opcodeIndex) for o in graph.subgraphs[0].operators]


@pytest.mark.parametrize("settings", [dict(), dict(activation="gelu", classifier="gap", representation_size=23)])
def test_the_file_answers_as_the_rounded_model(make, pixels, inputs, expected, tmp_path, settings):
    model = make(**settings)
    student = prepare_qat(model, inputs)
    path = str(tmp_path / "net.tflite")
    report = to_tflite(student, path, preset="qat_int8")
    assert report.cosine >= 0.999 and report.partitions == 1 and report.fully_accelerated
    # Rounding is the same up to single levels: the file is nearer to the student than to the float model.
    received, reference = run_tflite(path, pixels), expected(model)
    assert compare(expected(student), received)["cosine"] >= 0.9995
    noise = [np.square(received - other).sum() for other in (expected(student), reference)]
    assert noise[0] < 0.7 * noise[1]
    graph, names = kinds(path)
    assert not [name for name in names if "FAKE" in name]
    int8, float32 = 9, 0
    kinds_of_inputs = []
    for operator, name in zip(graph.subgraphs[0].operators, names):
        if name in ("FULLY_CONNECTED", "CONV_2D", "BATCH_MATMUL"):
            data, weights, output = (graph.subgraphs[0].tensors[i] for i in (*operator.inputs[:2], *operator.outputs))
            assert weights.type == int8 and data.type == output.type
            kinds_of_inputs.append(data.type)
            assert name != "BATCH_MATMUL" or list(weights.quantization.zeroPoint) == [0]
            if name != "BATCH_MATMUL":
                assert len(weights.quantization.scale) == weights.shape[0]
    heads = 1 + ("representation_size" in settings)
    assert (kinds_of_inputs.count(float32), kinds_of_inputs.count(int8)) == (2 * 2 + heads, 1 + 2 * 6)


def test_equalised_channels_and_a_float_sum_are_those_of_the_file(
    make, with_outliers, pixels, inputs, expected, tmp_path
):
    student = prepare_qat(with_outliers(make()), inputs, float_mix=True)
    path = str(tmp_path / "net.tflite")
    report = to_tflite(student, path, preset="qat_int8")
    assert report.cosine >= 0.999 and report.partitions == 1 and report.fully_accelerated
    assert compare(expected(student), run_tflite(path, pixels))["cosine"] >= 0.9995
    graph, names = kinds(path)
    tensors = graph.subgraphs[0].tensors
    float32, int8 = 0, 9
    products = [o for o, name in zip(graph.subgraphs[0].operators, names) if name == "BATCH_MATMUL"]
    assert [tensors[o.inputs[0]].type for o in products] == [int8, float32] * 2
    scale = student.get_layer("encoder_block_00").attention_norm.scale.numpy()
    stored = [np.frombuffer(bytes(buffer.data), "uint8") for buffer in graph.buffers if buffer.data is not None]
    assert [s for s in stored if s.nbytes == scale.nbytes and np.array_equal(s.view("float32"), scale)]


def test_integers_in_the_file_are_those_of_the_baked_kernels(make, inputs, tmp_path):
    student = prepare_qat(make(), inputs)
    path = str(tmp_path / "net.tflite")
    to_tflite(student, path, preset="qat_int8")
    graph, names = kinds(path)
    first = graph.subgraphs[0].operators[names.index("CONV_2D")]
    stored = np.frombuffer(bytes(graph.buffers[graph.subgraphs[0].tensors[first.inputs[1]].buffer].data), "int8")
    kernel = baked_model(student).get_layer("patch_embedding").projection.kernel.numpy()
    integers = np.rint(kernel / np.abs(kernel).max(axis=(0, 1, 2)) * 127)
    np.testing.assert_array_equal(stored.reshape(38, 11, 11, 3), integers.transpose(3, 0, 1, 2))


def test_every_range_has_its_tensor(make, inputs, tmp_path):
    ranges = activation_ranges(prepare_qat(make(representation_size=23), inputs))
    path = str(tmp_path / "float.tflite")
    to_tflite(make(representation_size=23), path, preset="fp32")
    graph = read_graph(path)
    products = read_products(graph, {name: name for name in ranges})
    dynamic = [product.output for product in products if not product.ranges]
    assert len(products) == 1 + 2 * 8 + 2 and len(dynamic) == 2 * 2 + 2
    assert sum("/out" in name for name in dynamic) == sum("Dense_1" in name for name in dynamic) == 2
    named = {tensor: name for product in products for tensor, name in product.ranges.items()}
    assert set(named.values()) == {*ranges, (0.0, 255.0)}
    ends = {"query": "/query", "key": "/key", "hidden": "/Dense_0"}
    for tensor, name in named.items():
        end = "image" if name == (0.0, 255.0) else ends.get(name.split("/")[1], "")
        assert end in tensor or "transpose" in tensor, (tensor, name)
    with pytest.raises(ValueError, match="an operator for each range, 'tail/output' has none"):
        read_products(graph, ranges | {"tail/output": (0, 1)})
    with pytest.raises(ValueError, match="must be of an attention with ranges"):
        read_products(graph, {name: pair for name, pair in ranges.items() if "01/scores" not in name})


def test_command_line(make, inputs, tmp_path, capsys):
    student = prepare_qat(make(), inputs)
    model, ranges, out = (str(tmp_path / name) for name in ("model.keras", "ranges.json", "net.tflite"))
    baked_model(student).save(model)
    (tmp_path / "ranges.json").write_text(json.dumps(activation_ranges(student)))
    command = ["--model", model, "--out", out, "--preset", "qat_int8"]
    assert main(command) == 2 and "--ranges JSON is needed for --preset qat_int8" in capsys.readouterr().err
    (tmp_path / "bad.json").write_text('{"head/input": 3}')
    assert main([*command, "--ranges", str(tmp_path / "bad.json")]) == 2
    assert "must hold names with two numbers each" in capsys.readouterr().err
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe")
    make().save(tmp_path / "float.keras")
    for change, message in (
        (["--ranges", str(tmp_path / "no.json")], "no.json' must be a text file in UTF-8: No such file or directory."),
        (["--ranges", str(tmp_path / "bytes.json")], "bytes.json' must be a text file in UTF-8: it holds other bytes."),
        (["--ranges", ranges, "--preset", "fp32"], "--ranges is for --preset qat_int8, received --preset fp32."),
        (["--ranges", ranges, "--model", str(tmp_path / "float.keras")], "holds other values than int8 ones."),
    ):
        assert main([*command, *change]) == 2 and message in capsys.readouterr().err
    assert not os.path.exists(out)
    assert main([*command, "--ranges", ranges]) == 0
    assert "qat_int8, image 0...255 -> logits" in capsys.readouterr().out and os.path.exists(out)


def test_errors(make, inputs, tmp_path):
    path, student = str(tmp_path / "net.tflite"), prepare_qat(make(), inputs)
    with pytest.raises(ValueError, match="preset 'qat_int8' is for a model of prepare_qat, received 'vision_trans"):
        to_tflite(make(), path, preset="qat_int8")
    with pytest.raises(ValueError, match="pixel_input must be True for preset 'qat_int8'"):
        to_tflite(student, path, preset="qat_int8", pixel_input=False)
    for refuse, argument in ((to_tflite, path), (to_saved_model, path), (prepare_qat, inputs)):
        with pytest.raises(ValueError, match=r"comes from prepare_qat: export it with to_tflite\(preset='qat_int8'\)"):
            refuse(student, argument)
    assert not os.listdir(tmp_path)
