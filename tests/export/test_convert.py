"""Kernels that are put into the file after its conversion, and files as the schema has them."""

import keras
import numpy as np
import pytest

import vitkeras
from vitkeras.export import to_tflite
from vitkeras.export.checks import read_graph
from vitkeras.export.convert import convert
from vitkeras.export.flatbuffer import write_model
from vitkeras.export.graph import export_model
from vitkeras.export.marks import FIRST, fill, marks_of
from vitkeras.models.axial import AxialViT

NEVER = 10**9
MODELS = {
    "d = 19": lambda: vitkeras.VisionTransformer((33, 55, 3), 11, 1, 38, 2, 38, classes=38),  # all kernels square
    "one head": lambda: vitkeras.VisionTransformer((33, 55, 3), 11, 1, 7, 1, 13, classes=5, representation_size=3),
    "relative": lambda: vitkeras.VisionTransformer(
        (33, 55, 3), 11, 1, 38, 2, 53, classes=7, position_embedding="relative"
    ),
    "hybrid": lambda: vitkeras.VisionTransformer(
        (45, 61, 3), 2, 1, 64, 2, 96, classes=7, stem_blocks=(1,), stem_width_factor=0.5
    ),
    "axial": lambda: AxialViT((33, 55, 3), 11, 1, 38, 2, 53, classes=7),
}


def numbers(file):
    """(kind of operator, stored data of its inputs) of a file's operators."""
    graph = file.subgraphs[0]
    data = [None if buffer.data is None else bytes(buffer.data) for buffer in file.buffers]
    return [(o.opcodeIndex, [data[graph.tensors[t].buffer] for t in o.inputs if t >= 0]) for o in graph.operators]


def randomise(model):
    rng = np.random.default_rng(5)
    for variable in model.trainable_variables:
        variable.assign(rng.normal(1.0 if variable.name == "scale" else 0.0, 0.2, variable.shape).astype("float32"))


SLOW = ("relative", "axial")


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in MODELS])
def test_the_file_is_that_of_a_conversion_with_all_weights(tmp_path, name):
    keras.utils.clear_session()
    model = MODELS[name]()
    randomise(model)
    model = export_model(model, True)
    convert(model, str(tmp_path / "marks"), large=1)
    convert(model, str(tmp_path / "whole"), large=NEVER)
    ours, theirs = read_graph(tmp_path / "marks"), read_graph(tmp_path / "whole")
    assert numbers(ours) == numbers(theirs)
    model.variables[0].assign(model.variables[0] + 1.0)
    convert(model, str(tmp_path / "other"), large=1)
    assert numbers(read_graph(tmp_path / "other")) != numbers(theirs)


def test_which_kernels_get_a_mark():
    model = MODELS["d = 19"]()
    marks = marks_of(model, 38 * 38)
    assert [mark.value for mark in marks] == [FIRST + k for k in range(len(marks))]
    names = {mark.kernel.path: mark.scale for mark in marks}
    assert len(names) == 8  # patches, q, k, v, out, two of the MLP, head
    assert {name: scale for name, scale in names.items() if scale != 1} == {
        "encoder_block_00/attention/query/kernel": 19**-0.5
    }
    assert len(marks_of(model, 38 * 38 + 1)) == 1 and marks_of(model) == []


def test_a_kernel_that_two_layers_share_is_converted_as_it_is(tmp_path):
    shared = keras.layers.Dense(5, name="shared")
    image = keras.Input((1, 1, 5))
    model = keras.Model(image, shared(keras.ops.tanh(shared(image)[:, 0, 0])))
    convert(model, str(tmp_path / "marks"), large=1)
    convert(model, str(tmp_path / "whole"), large=NEVER)
    assert numbers(read_graph(tmp_path / "marks")) == numbers(read_graph(tmp_path / "whole"))


def test_a_mark_that_the_file_lacks_is_not_filled(tmp_path):
    model = export_model(MODELS["one head"](), True)
    convert(model, str(tmp_path / "net"), large=NEVER)
    file = read_graph(tmp_path / "net")
    before = numbers(file)
    assert fill(file, marks_of(model, 1)) == [] and numbers(file) == before


def test_data_begin_where_the_schema_wants_them(make, tmp_path):
    path = str(tmp_path / "net.tflite")
    to_tflite(make(), path, labels=[f"class {k}" for k in range(7)], input_dtype="uint8")
    with open(path, "rb") as file:
        whole = file.read()
    found = [bytes(buffer.data) for buffer in read_graph(path).buffers if buffer.data is not None and len(buffer.data)]
    assert len(found) > 20
    for data in found:
        assert any(whole[at : at + len(data)] == data for at in range(0, len(whole), 16))


def test_data_of_any_kind_are_written(make, tmp_path):
    convert(export_model(make(), True), str(tmp_path / "net"))
    file = read_graph(tmp_path / "net")
    want = numbers(file)
    for kind in (bytes, bytearray, list):
        for buffer in file.buffers:
            buffer.data = None if buffer.data is None else kind(bytearray(buffer.data))
        write_model(file, tmp_path / "again")
        assert numbers(read_graph(tmp_path / "again")) == want
        assert isinstance(file.buffers[-1].data, kind)
