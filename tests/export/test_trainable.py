"""Files that train their own head: signatures, numbers, contracts, and what is refused."""

import json
import os

import keras
import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

import vitkeras
from vitkeras.export import ExportError, to_trainable_tflite, trainable_checks
from vitkeras.export.head_graph import SIGNATURES, numpy_step
from vitkeras.export.labels import read_labels
from vitkeras.export.quiet import quiet
from vitkeras.export.signatures import check_one_partition, check_signatures

FEATURES, CLASSES, BATCH = 38, 5, 11


def runners(path):
    with quiet():
        interpreter = Interpreter(str(path), num_threads=2)
    return {name: interpreter.get_signature_runner(name) for name in SIGNATURES}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """(model, path, report) of an int8 file, exported once."""
    model = vitkeras.VisionTransformer((33, 55, 3), 11, 2, FEATURES, 2, 53, classes=7)
    rng = np.random.default_rng(3)
    for variable in model.trainable_variables:
        variable.assign(rng.normal(float(variable.name == "scale"), 0.15, variable.shape).astype("float32"))
    path = str(tmp_path_factory.mktemp("trainable") / "net.tflite")
    names = [f"name {k}" for k in range(CLASSES)]
    return model, path, to_trainable_tflite(model, path, CLASSES, batch_size=BATCH, labels=names)


@pytest.fixture
def run(exported):
    return runners(exported[1])


@pytest.fixture
def head(rng):
    return {
        "kernel": rng.normal(size=(FEATURES, CLASSES)).astype("float32"),
        "bias": rng.normal(size=CLASSES).astype("float32"),
    }


def test_the_report_and_the_file(exported):
    _, path, report = exported
    assert (report.classes, report.features, report.batch_size) == (CLASSES, FEATURES, BATCH)
    assert report.size_bytes == os.path.getsize(path) and report.cosine > 0.99 and report.sqnr_db > 15
    assert list(report.operators) == list(SIGNATURES) and report.operators["get_head"] == 0
    assert json.loads(json.dumps(report.as_dict()))["preset"] == "int8_dynamic"
    assert "38 features -> 5 classes, 11 examples a step" in str(report)
    assert read_labels(path) == [f"name {k}" for k in range(CLASSES)]
    assert os.listdir(os.path.dirname(path)) == ["net.tflite"]


def test_infer_is_features_times_the_head(exported, run, head, pixels):
    features = np.concatenate([run["features"](image=image[None].astype("float32"))["features"] for image in pixels])
    backbone = keras.Model(exported[0].input, exported[0].get_layer("head").input)
    reference = keras.ops.convert_to_numpy(backbone(vitkeras.preprocess_input(pixels)))
    assert np.abs(features - reference).max() < 0.1 * np.abs(reference).max()  # int8
    answer = run["infer"](image=pixels[3:4].astype("float32"), **head)
    logits = features[3].astype("float64") @ head["kernel"] + head["bias"]
    np.testing.assert_allclose(answer["logits"][0], logits, rtol=0, atol=2e-5)
    powers = np.exp(logits - logits.max())
    np.testing.assert_allclose(answer["probabilities"][0], powers / powers.sum(), rtol=0, atol=2e-5)


def test_a_step_is_numpys_softmax_regression(run, head, rng):
    x = rng.normal(size=(BATCH, FEATURES)).astype("float32")
    labels = rng.integers(0, CLASSES, BATCH).astype("int32")
    step = run["train_head"](features=x, labels=labels, learning_rate=np.float32(1), **head)
    logits = x.astype("float64") @ head["kernel"] + head["bias"]
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities = powers / powers.sum(axis=1, keepdims=True)
    errors = (probabilities - np.eye(CLASSES)[labels]) / BATCH
    np.testing.assert_allclose(head["kernel"] - step["kernel"], x.T @ errors, rtol=0, atol=1e-5)
    np.testing.assert_allclose(head["bias"] - step["bias"], errors.sum(axis=0), rtol=0, atol=1e-5)
    assert step["loss"] == pytest.approx(-np.log(probabilities[range(BATCH), labels]).mean(), abs=1e-5)


def test_steps_survive_large_logits(run, head, rng):
    x = 100 * rng.normal(size=(BATCH, FEATURES)).astype("float32")
    labels = rng.integers(0, CLASSES, BATCH).astype("int32")
    step = run["train_head"](features=x, labels=labels, learning_rate=np.float32(0.1), **head)
    assert all(np.isfinite(value).all() for value in step.values()) and step["loss"] > 100


def test_labels_outside_the_classes_do_not_count(run, head, rng):
    x = rng.normal(size=(BATCH, FEATURES)).astype("float32")
    labels = np.array([3, 0, -1, CLASSES, 4, 4, 1, 2, -1, 99, 0], "int32")
    step = run["train_head"](features=x, labels=labels, learning_rate=np.float32(0.3), **head)
    counted = (labels >= 0) & (labels < CLASSES)
    expected = numpy_step(x[counted], labels[counted], **head, learning_rate=0.3)
    for name, value in zip(("kernel", "bias", "loss"), expected):
        np.testing.assert_allclose(step[name], value, rtol=0, atol=1e-5)
    step = run["train_head"](features=x, labels=np.full(BATCH, -1, "int32"), learning_rate=np.float32(1), **head)
    np.testing.assert_array_equal(step["kernel"], head["kernel"])
    assert step["loss"] == 0.0


def test_the_loss_falls_and_the_classes_are_learnt(run, pixels):
    """Synthetic classes: five pictures, each with noise; the head learns to tell them apart."""
    noise = np.random.default_rng(7)
    labels = np.tile(np.arange(CLASSES, dtype="int32"), 6)
    images = np.clip(pixels[labels] + noise.normal(0, 20, (len(labels), *pixels.shape[1:])), 0, 255).astype("float32")
    features = np.concatenate([run["features"](image=image[None])["features"] for image in images])
    head, losses = run["get_head"](), []
    for step in range(200):
        rows = np.arange(step * BATCH, (step + 1) * BATCH) % len(labels)
        result = run["train_head"](features=features[rows], labels=labels[rows], learning_rate=np.float32(0.05), **head)
        head = {"kernel": result["kernel"], "bias": result["bias"]}
        losses.append(result["loss"].item())
    assert losses[0] == pytest.approx(np.log(CLASSES), abs=1e-6)  # a head of zeros knows nothing
    assert np.mean(losses[-10:]) < 0.2 < np.mean(losses[:10])
    answers = [run["infer"](image=image[None], **head)["logits"].argmax() for image in images]
    assert np.mean(answers == labels) > 0.95


def test_the_gate_for_stored_heads(run, head):
    passed = run["set_head"](**head)
    assert passed["valid"]
    for name, value in head.items():
        np.testing.assert_array_equal(passed[name], value)
    for name in head:
        for bad in (np.nan, np.inf, -np.inf):
            broken = {**head, name: head[name].copy()}
            broken[name].flat[3] = bad
            refused = run["set_head"](**broken)
            assert not refused["valid"] and np.isnan(refused["kernel"]).all() and np.isnan(refused["bias"]).all()


def test_heads_of_another_shape_are_refused(exported, head):
    wrong = {**head, "kernel": head["kernel"][:-1]}, {**head, "kernel": head["kernel"][:, 1:]}
    wrong += ({**head, "bias": head["bias"][1:]},)
    run = runners(exported[1])
    inputs = {
        "set_head": {},
        "infer": {"image": np.zeros((1, 33, 55, 3), "float32")},
        "train_head": {
            "features": np.zeros((BATCH, FEATURES), "float32"),
            "labels": np.zeros(BATCH, "int32"),
            "learning_rate": np.float32(1),
        },
    }
    for name, others in inputs.items():
        for one in wrong:
            with pytest.raises((ValueError, RuntimeError)), quiet():
                run[name](**others, **one)
        assert run[name](**others, **head)  # and the next call is answered


def test_the_models_own_head_answers_as_the_model(make, pixels, expected, tmp_path):
    model, path = make(), str(tmp_path / "own.tflite")
    report = to_trainable_tflite(model, path, 7, batch_size=1, head="model", preset="fp32")
    run = runners(path)
    first = run["get_head"]()
    received = np.concatenate(
        [run["infer"](image=image[None].astype("float32"), **first)["logits"] for image in pixels]
    )
    np.testing.assert_allclose(received, expected(model), rtol=0, atol=2e-5)
    assert report.preset == "fp32" and report.sqnr_db > 90


@pytest.mark.parametrize(
    "arguments, message",
    [
        (dict(classes=1), "classes must be an int >= 2, received 1"),
        (dict(classes=5.0), "classes must be an int >= 2, received 5.0"),
        (dict(batch_size=0), "batch_size must be an int >= 1, received 0"),
        (dict(head="ones"), r"head must be one of \('zeros', 'model'\), received 'ones'"),
        (dict(head="model"), "'model' needs a model with a head of 5 outputs, it has 7"),
        (dict(preset="int8"), r"preset must be one of \('fp32', 'int8_dynamic'\), received 'int8'"),
        (dict(labels=["a"]), "labels must hold 5 names"),
    ],
)
def test_bad_trainable_arguments(make, tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        to_trainable_tflite(make(), str(tmp_path / "net.tflite"), **{"classes": CLASSES, **arguments})
    assert not os.listdir(tmp_path)


def test_models_without_a_feature_vector(make, tmp_path):
    with pytest.raises(
        ValueError, match=r"one feature vector an image below its head, .* gives shape \(None, 16, 38\)"
    ):
        to_trainable_tflite(make(include_top=False), str(tmp_path / "net.tflite"), CLASSES)
    with pytest.raises(ValueError, match="a head of 5 outputs, it has none"):
        to_trainable_tflite(make(include_top=False, pooling="token"), str(tmp_path / "a"), CLASSES, head="model")


def test_existing_trainable_files_are_kept(make, exported):
    with pytest.raises(FileExistsError, match="overwrite=True"):
        to_trainable_tflite(make(), exported[1], CLASSES)


def test_wrong_graphs_are_refused(exported, tmp_path):
    with pytest.raises(ExportError, match="'signatures' failed: expected exactly .*, received .*'train_head'."):
        check_signatures(exported[1], ["infer"], float_only=())
    with pytest.raises(ExportError, match="'float head' failed: expected a head in float, received an int8 tensor"):
        check_signatures(exported[1], SIGNATURES, float_only=("features",))
    with pytest.raises(ExportError, match="1 XNNPACK partition for 'train_head'"):
        check_one_partition(exported[1], "train_head", str(tmp_path))


def test_a_signature_with_state_is_refused(tmp_path):
    import tensorflow as tf

    module = tf.Module()
    module.total = tf.Variable(np.zeros(3, "float32"))
    module.add = tf.function(
        lambda x: {"y": module.total.assign_add(x)}, input_signature=[tf.TensorSpec((3,), tf.float32)]
    )
    with quiet():
        tf.saved_model.save(module, str(tmp_path / "m"), signatures={"add": module.add})
        converter = tf.lite.TFLiteConverter.from_saved_model(str(tmp_path / "m"), signature_keys=["add"])
        converter.experimental_enable_resource_variables = True
        (tmp_path / "m.tflite").write_bytes(converter.convert())
    with pytest.raises(ExportError, match="failed: expected (1 subgraphs|no variables), received"):
        check_signatures(str(tmp_path / "m.tflite"), ["add"], float_only=())


@pytest.mark.parametrize("broken", ["kernel", "bias", "loss", "first", "gate"])
def test_wrong_numbers_are_refused(run, broken):
    zeros = np.zeros((FEATURES, CLASSES), "float32"), np.zeros(CLASSES, "float32")

    def wrong(name, key, change):
        return {**run, name: lambda **inputs: {**(out := run[name](**inputs)), key: change(out[key])}}

    trainable_checks._check_head(run, zeros, BATCH)
    changed = {
        "first": wrong("get_head", "kernel", lambda value: value + 1),
        "gate": wrong("set_head", "valid", lambda value: np.True_),
    }.get(broken) or wrong("train_head", broken, lambda value: value * 1.001 + 1e-3)
    with pytest.raises(ExportError, match="(train_head|get_head|set_head).* failed: expected"):
        trainable_checks._check_head(changed, zeros, BATCH)


@pytest.mark.parametrize("outputs", [list, lambda pair: dict(zip("ab", pair))])
def test_several_outputs_are_refused(tmp_path, outputs):
    image = keras.Input((8, 8, 3))
    x = keras.layers.Flatten()(image)
    model = keras.Model(image, outputs([keras.layers.Dense(3)(x), x]))
    with pytest.raises(ValueError, match="model must have one output, .* has 2"):
        to_trainable_tflite(model, str(tmp_path / "net.tflite"), classes=3)
