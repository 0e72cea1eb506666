"""What is read off a float file's graph: roles of products, weights, and a change of it that can be seen."""

import collections

import keras
import numpy as np
import pytest

from vitkeras.export import graph, tflite
from vitkeras.export.activations import watched
from vitkeras.export.file_graph import Graph
from vitkeras.export.operators import read_operators
from vitkeras.export.runtime import TFLiteRunner


@pytest.fixture(scope="module")
def net(tmp_path_factory, make):
    model = make()
    path = str(tmp_path_factory.mktemp("operators") / "float.tflite")
    tflite.convert(graph.export_model(model, True), path)
    return model, path


def test_every_product_has_its_role(net):
    model, path = net
    operators = read_operators(path)
    roles = collections.Counter(operator.role for operator in operators)
    inner = dict.fromkeys(("query", "key", "value", "scores", "mix", "out", "fc1", "fc2"), 2)
    assert roles == {"patch": 1, **inner, "head": 1}
    shapes = {operator.role: operator.weight_shape for operator in operators}
    assert shapes["patch"] == (38, 11, 11, 3) and shapes["fc1"] == (53, 38) and shapes["fc2"] == (38, 53)
    assert shapes["scores"] == () and shapes["head"] == (7, 38)
    for operator in operators:
        assert len(operator.inputs) == (2 if operator.role in ("scores", "mix") else 1)
        if operator.role in ("query", "key", "value", "out"):
            assert f"attention/{operator.role}" in operator.label
    assert [o.label.rsplit("/", 1)[-1] for o in operators if o.role in ("fc1", "fc2")] == ["Dense_0", "Dense_1"] * 2
    assert [o.index for o in operators] == sorted(o.index for o in operators)


def test_moved_operands_lead_back_to_their_source(net):
    _, path = net
    operators = {(o.role, i): o for i, o in enumerate(read_operators(path))}
    by_role = {role: operator for (role, _), operator in reversed(operators.items())}
    query, key = by_role["scores"].chains
    assert query[0] == by_role["scores"].inputs[0] and query[-1] == by_role["query"].output
    assert key[0] == by_role["scores"].inputs[1] and key[-1] == by_role["key"].output
    assert by_role["mix"].chains[0][-1] == by_role["value"].output
    assert by_role["out"].chains[0][-1] == by_role["mix"].output
    assert {kind for _, kind in by_role["scores"].moves} == {"RESHAPE", "TRANSPOSE"}


def test_weights_are_the_models(net):
    model, path = net
    parsed = Graph(path)
    first = next(o for o in read_operators(path) if o.role == "fc2")
    dense = model.get_layer("encoder_block_00").mlp
    kernels = [v for v in dense.weights if v.path.endswith("Dense_1/kernel")]
    np.testing.assert_array_equal(parsed.weights(first.index), keras.ops.convert_to_numpy(kernels[0]).T)
    assert parsed.bias(first.index).shape == (38,)


def test_watched_tensors_are_the_products_numbers(net, pixels):
    _, path = net
    parsed = Graph(path)
    fc1 = next(o for o in read_operators(path) if o.role == "fc1")
    with watched(path, (fc1.inputs[0], fc1.output, "no such tensor")) as run:
        seen = run(pixels[2])
    assert set(seen) == {fc1.inputs[0], fc1.output}
    x = seen[fc1.inputs[0]].reshape(-1, 38).astype("float64")
    exact = x @ parsed.weights(fc1.index).T + parsed.bias(fc1.index)
    np.testing.assert_allclose(seen[fc1.output].reshape(exact.shape), exact, rtol=0, atol=2e-5)


def test_a_multiplication_is_inserted_where_it_was_asked_for(net, pixels, tmp_path):
    _, path = net
    parsed, factors = Graph(path), np.random.default_rng(3).uniform(0.5, 2, 38).astype("float32")
    fc1 = next(o for o in read_operators(path) if o.role == "fc1")
    parsed.insert_multiplication(parsed.operators[fc1.index].inputs[0], factors)
    parsed.set_weights(fc1.index, parsed.weights(fc1.index) / factors)
    changed = str(tmp_path / "changed.tflite")
    parsed.write(changed)
    before, after = TFLiteRunner(path), TFLiteRunner(changed)
    assert after.partitions() == 1 and Graph(changed).kinds.count("MUL") == Graph(path).kinds.count("MUL") + 1
    np.testing.assert_allclose(after(pixels), before(pixels), rtol=0, atol=2e-5)
    half = Graph(path)
    half.insert_multiplication(half.operators[fc1.index].inputs[0], factors)  # without the matrix: another function
    half.write(changed)
    assert np.abs(TFLiteRunner(changed)(pixels) - before(pixels)).max() > 1e-2
