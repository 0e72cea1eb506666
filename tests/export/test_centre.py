"""Centred keys and values: the same function, means of zero, and less noise where int8 rounds an attention."""

import keras
import numpy as np
import pytest

from vitkeras.export import ExportError, graph, post_training, tflite, to_tflite
from vitkeras.export.centre import key_sites, measure_means
from vitkeras.export.file_graph import Graph
from vitkeras.export.operators import read_operators
from vitkeras.export.post_training import centre
from vitkeras.export.runtime import TFLiteRunner


def images(count):
    return np.random.default_rng(17).integers(0, 256, (count, 33, 55, 3)).astype("float32")


def shifted(make, *names, by=3, **kwargs):
    """A net whose keys and values have means far from zero, as trained ones have."""
    model = make(**kwargs)
    for block in ("encoder_block_00", "encoder_block_01"):
        for name in names or ("key", "value"):
            bias = getattr(model.get_layer(block).attention, name).bias
            bias.assign(bias + np.random.default_rng(5).normal(0, by, bias.shape))
    return model


def converted(model, tmp_path):
    paths = [str(tmp_path / name) for name in ("before.tflite", "after.tflite")]
    tflite.convert(graph.export_model(model, True), paths[0])
    return paths


def everything(operators):
    return {operator.index for operator in operators}


@pytest.mark.parametrize("kind", ["learned_1d", "relative"])
def test_means_are_zero_and_the_function_is_the_same(make, tmp_path, kind):
    before, after = converted(shifted(make, position_embedding=kind), tmp_path)
    operators = read_operators(before)
    assert centre(before, after, operators, everything(operators), images(7)) == 4
    for path, least, most in ((before, 1, 10), (after, 0, 1e-5)):
        names = [operator.output for operator in read_operators(path) if operator.role in ("key", "value")]
        means = measure_means(path, names, images(7))
        assert len(means) == 4
        assert all(least <= np.abs(mean).max() <= most for mean in means.values())
    answers = [TFLiteRunner(path)(images(3)) for path in (before, after)]
    np.testing.assert_allclose(*answers, rtol=0, atol=1e-4 * max(1, np.abs(answers[0]).max()))


@pytest.mark.parametrize("constant", [0.0, 0.7])  # left out of the file, and stored once
def test_equal_biases_are_told_apart(make, tmp_path, constant):
    model = make()
    for name in ("encoder_block_00", "encoder_block_01"):
        attention = model.get_layer(name).attention
        for layer in (attention.key, attention.value, attention.out):
            layer.bias.assign(np.full(layer.bias.shape, constant))
    before, after = converted(model, tmp_path)
    operators = read_operators(before)
    assert centre(before, after, operators, everything(operators), images(5)) == 4
    answers = [TFLiteRunner(path)(images(3)) for path in (before, after)]
    np.testing.assert_allclose(*answers, rtol=0, atol=1e-4 * max(1, np.abs(answers[0]).max()))


@pytest.mark.parametrize("static, count", [("scores", 2), ("mix", 2), ("fc1", 0)])
def test_only_where_the_product_is_static(make, tmp_path, static, count):
    before, after = converted(make(), tmp_path)
    operators = read_operators(before)
    chosen = {operator.index for operator in operators if operator.role == static}
    assert centre(before, after, operators, chosen, images(5)) == count
    assert (tmp_path / "after.tflite").exists() == (count > 0)


@pytest.mark.parametrize(
    "change, count",
    [
        ("", 1),
        ("scale", 1),
        ("mask", 1),
        ("factors of keys", 0),
        ("squared", 0),
        ("clipped", 0),
        ("other softmax", 0),
        ("relu", 0),
        ("relu of scores", 0),
        ("read twice", 0),
        ("scores are an output", 0),
    ],
)
def test_keys_of_which_a_softmax_sees_the_mean_stay(tmp_path, change, count):
    """Attentions of another library: only where a number more in a row of scores changes nothing, keys are centred."""
    rng = np.random.default_rng(7)
    image = keras.Input((5, 7, 3))
    tokens = keras.layers.Reshape((35, 3))(image)
    query, key, value = (
        keras.layers.Dense(11, activation="relu" if change == "relu" and i == 1 else None, name=name)(tokens)
        for i, name in enumerate(("q", "k", "v"))
    )
    scores = keras.ops.matmul(query, keras.ops.transpose(key, (0, 2, 1)))  # (B, 35, 35)
    found = scores
    if change == "scale":
        found = scores * 0.3
    if change == "mask":
        found = scores + rng.normal(size=(35, 35)).astype("float32")
    if change == "factors of keys":
        found = scores * rng.uniform(0.5, 1, (1, 1, 35)).astype("float32")
    if change == "squared":
        found = scores * scores
    if change == "clipped":
        found = keras.ops.minimum(scores, 1.0)
    if change == "relu of scores":
        found = keras.ops.relu(scores + 0.1)
    if change == "other softmax":  # over the queries: its rows are the scores' columns
        found = keras.ops.transpose(scores + rng.normal(size=(35, 35)).astype("float32"), (0, 2, 1))
    weights = keras.ops.softmax(found, axis=-1)
    y = keras.layers.Dense(5, name="o")(keras.ops.matmul(weights, value))
    if change == "read twice":
        y = y + keras.layers.Dense(5)(key)
    model = keras.Model(image, [y, scores] if change == "scores are an output" else y)
    for variable in model.variables:
        variable.assign(rng.normal(0.5, 1, variable.shape))
    path, after = str(tmp_path / "net.tflite"), str(tmp_path / "after.tflite")
    tflite.convert(model, path)
    operators = read_operators(path)
    assert [operator.kind for operator in operators].count("BATCH_MATMUL") == 2
    assert [o.label for o in key_sites(Graph(path), operators, everything(operators))] == ["k/Tensordot"] * count
    pictures = rng.normal(size=(5, 5, 7, 3)).astype("float32")
    centre(path, after, operators, everything(operators), pictures)  # proves what it does, else raises


def test_a_wrong_constant_is_refused(make, tmp_path, monkeypatch):
    before, after = converted(shifted(make), tmp_path)
    monkeypatch.setattr(
        post_training,
        "centre_values",
        lambda graph, pairs, means: [graph.set_bias(v.index, graph.bias(v.index) - means[v.output]) for v, _ in pairs],
    )
    operators = read_operators(before)
    with pytest.raises(ExportError, match="'equalisation' failed: expected max .difference."):
        centre(before, after, operators, everything(operators), images(5))


@pytest.mark.slow
@pytest.mark.parametrize("name, by", [("key", 15), ("value", 3)])
def test_static_files_lose_less(make, tmp_path, monkeypatch, name, by):
    model = shifted(make, name, by=by)
    photos = images(141)
    reports = []
    for kind in ("centred", "plain"):
        if kind == "plain":
            monkeypatch.setattr(post_training, "centre", lambda *args: 0)
        path = str(tmp_path / f"{kind}.tflite")
        report = to_tflite(model, path, "int8_static", calibration_images=photos[:128], verify_images=photos[128:])
        reports.append(report)
    centred, plain = reports
    assert (centred.centred, plain.centred) == (4, 0) and "4 projections of keys and values" in str(centred)
    found = [db for label, db in centred.layer_snr if label.endswith(f"/{name}")]
    assert len(found) == 2 and min(found) > 25, found  # the shift itself is no noise
    assert centred.sqnr_db >= plain.sqnr_db + 2, (centred.sqnr_db, plain.sqnr_db)
