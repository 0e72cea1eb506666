"""Rows of attention weights of like size: the same numbers in float, and less noise where int8 rounds them."""

import keras
import numpy as np
import pytest

import vitkeras
from vitkeras import layers
from vitkeras.export import graph, post_training, tflite, to_tflite
from vitkeras.export.even_rows import attend_evenly, even_mixes, even_rows
from vitkeras.export.file_graph import Graph
from vitkeras.export.operators import read_operators
from vitkeras.export.presets import PRESETS
from vitkeras.export.rounding import round_tensor, snr_db


def softmax_rows(rng, shape):
    """Weights of which some rows spread evenly and some are nearly all one token's."""
    scores = rng.normal(size=shape) * np.geomspace(0.01, 30, shape[-2])[:, None]
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True)).astype("float32")


def test_the_sums_are_the_same(rng, assert_close):
    weights = softmax_rows(rng, (2, 3, 7, 53))
    value = rng.normal(size=(2, 3, 53, 5)).astype("float32")
    assert_close(attend_evenly(keras.ops.convert_to_tensor(weights), value), weights @ value, 1e-6)
    even, roots = (keras.ops.convert_to_numpy(x) for x in even_rows(keras.ops.convert_to_tensor(weights)))
    assert_close(even.max(axis=-1, keepdims=True), roots, 1e-6)  # both the root of the largest weight
    assert roots.shape == (2, 3, 7, 1) and roots.min() < 0.15 and roots.max() > 0.99


def test_int8_loses_less(rng):
    weights = softmax_rows(rng, (101, 257))
    value = rng.normal(size=(257, 5)).astype("float32")
    even, roots = (keras.ops.convert_to_numpy(x) for x in even_rows(keras.ops.convert_to_tensor(weights)))
    exact = weights @ value

    def mixed(weights, factors):
        sums = round_tensor(weights, 0.0, float(weights.max())) @ value
        return round_tensor(sums, float(sums.min()), float(sums.max())) * factors

    plain, helped = (snr_db(exact, mixed(*pair)) for pair in ((weights, 1), (even, roots)))
    spread = slice(0, 30)
    worst, better = (snr_db(exact[spread], mixed(*pair)[spread]) for pair in ((weights, 1), (even, roots)))
    assert helped > plain + 2 and better > worst + 5


def test_every_attention_is_exchanged(make, pixels, expected, assert_close):
    model = make()
    before = expected(model)
    assert even_mixes(model) is model
    found = [layer for layer in model._flatten_layers() if isinstance(layer, layers.MultiHeadSelfAttention)]
    assert len(found) == 2 and all(layer.mix is attend_evenly for layer in found)
    assert_close(expected(model), before, 1e-5)


def test_roles_and_sites_are_found_behind_the_factors(make, tmp_path):
    plain, even = str(tmp_path / "plain.tflite"), str(tmp_path / "even.tflite")
    model = make()
    tflite.convert(graph.export_model(model, True), plain)
    tflite.convert(even_mixes(graph.export_model(model, True)), even)
    before, after = read_operators(plain), read_operators(even)
    assert [o.role for o in after] == [o.role for o in before]
    assert [o.label for o in after] == [o.label for o in before]
    by_role = {o.role: o for o in reversed(after)}
    assert by_role["out"].chains == ()  # other numbers than the mix gives
    assert by_role["mix"].chains[0][-1] == by_role["value"].output
    sites = [post_training.find_sites(Graph(path), read_operators(path)) for path in (plain, even)]
    kinds = [[(site.kind, len(site.products)) for site in found] for found in sites]
    assert kinds[0] == kinds[1] and kinds[1].count(("value", 1)) == 2
    mixes = {o.index for o in after if o.role == "mix"}
    pairs = post_training.value_sites(Graph(even), sites[1], mixes)
    assert [(value.role, out.role) for value, out in pairs] == [("value", "out")] * 2


@pytest.mark.parametrize("preset, times", [("fp32", 0), ("int8_dynamic", 0), ("int8_static", 2)])
def test_only_static_mixes_have_factors(make, pixels, tmp_path, preset, times):
    path = str(tmp_path / "net.tflite")
    images = {"calibration_images": np.tile(pixels, (10, 1, 1, 1))} if preset == "int8_static" else {}
    report = to_tflite(make(), path, preset, **images)
    assert Graph(path).kinds.count("REDUCE_MAX") == times and report.partitions == 1


def test_the_file_loses_less(tmp_path):
    model = vitkeras.VisionTransformer((64, 80, 3), 4, 1, 24, 3, 31, classes=7, classifier_activation=None)
    rng = np.random.default_rng(3)
    for variable in model.trainable_variables:
        variable.assign(rng.normal(variable.name == "scale", 0.15, variable.shape))
    query = model.get_layer("encoder_block_00").attention.query  # a head that looks at few tokens, two that spread
    query.kernel.assign(query.kernel.numpy() * np.repeat([8, 1, 1], 8))
    pixels = rng.integers(0, 256, (132, 64, 80, 3)).astype("float32")
    rule = PRESETS["int8_static"]

    def out_snr(change):
        path = str(tmp_path / "net.tflite")

        def build():
            return change(graph.export_model(model, True))

        done = tflite.make_file(build, rule, path, pixels[:128], images=pixels[128:])
        return next(db for label, db in done["layer_snr"] if label.endswith("attention/out"))

    even, plain = out_snr(even_mixes), out_snr(lambda model: model)
    assert even > plain + 2, (even, plain)
