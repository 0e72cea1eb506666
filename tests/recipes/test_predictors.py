"""The same net as a Keras model, as `.tflite` files and as SavedModels gives the same scores."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import vitkeras
from vitkeras import export
from vitkeras.recipes import evaluate
from vitkeras.recipes.predictors import chosen_output, head_of, open_predictor

SIZE, NAMES = (24, 16), [f"kind {k}" for k in range(7)]


def net(activation=None):
    keras.utils.set_random_seed(0)  # a module's fixture is made before the seed of each test is set
    model = vitkeras.VisionTransformer(
        (*SIZE, 3), 8, 2, 32, 2, 64, classes=7, classifier_activation=activation, name="tiny"
    )
    rng = np.random.default_rng(5)
    kernel, bias = model.get_layer("head").get_weights()
    model.get_layer("head").set_weights([rng.normal(size=kernel.shape) * 0.5, rng.normal(size=bias.shape) * 0.1])
    return model


@pytest.fixture(scope="module")
def model():
    return net()


@pytest.fixture(scope="module")
def pixels():
    return np.random.default_rng(7).integers(0, 256, (5, *SIZE, 3)).astype("uint8")


def scaled(pixels):
    return vitkeras.preprocess_input(pixels)


def same(predictor, model, pixels, atol):
    wanted = model(scaled(pixels), training=False).numpy()
    found = predictor.scores(scaled(pixels))
    np.testing.assert_allclose(found, wanted, atol=atol)
    np.testing.assert_array_equal(found.argmax(axis=1), wanted.argmax(axis=1))


def test_an_fp32_file_gives_the_keras_models_scores(model, pixels, tmp_path):
    pytest.importorskip("ai_edge_litert")
    path = str(tmp_path / "net.tflite")
    export.to_tflite(model, path, "fp32", labels=NAMES)
    found = open_predictor(path)
    same(found, model, pixels, 1e-4)
    assert (found.kind, found.size, found.outputs, found.head, found.values) == (
        "TFLite file",
        SIZE,
        7,
        "logits",
        "pixels",
    )
    assert found.class_names == tuple(NAMES)
    (tmp_path / "names.txt").write_text("\n".join("abcdefg"))
    assert open_predictor(path, labels=str(tmp_path / "names.txt")).class_names == tuple("abcdefg")
    with pytest.raises(ValueError, match="ema=true is for checkpoints"):
        open_predictor(path, ema=True)


def test_the_output_that_scores_classes():
    assert chosen_output({"logits": 0, "features_00": 1}, "net") == "logits"
    assert chosen_output(["scores", "indices"], "net") is None
    assert chosen_output(["StatefulPartitionedCall:0"], "net") == "StatefulPartitionedCall:0"
    for names in (["features"], ["embedding"], ["features_00", "features_01"], ["a", "b"]):
        with pytest.raises(ValueError, match="--model net must have an output that scores classes, received"):
            chosen_output(names, "net")


def test_the_head_is_known_by_its_last_layer():
    image = keras.Input((3,))
    for layer, head in (
        (keras.layers.Dense(2), "logits"),
        (keras.layers.Dense(2, activation="sigmoid"), "sigmoid"),
        (keras.layers.Softmax(), "softmax"),
        (keras.layers.Activation("softmax"), "softmax"),
    ):
        inner = keras.Model(image, layer(image))
        assert head_of(inner) == head and head_of(keras.Sequential([keras.Input((3,)), inner])) == head


@pytest.mark.slow
@pytest.mark.parametrize(
    "preset, settings, least",
    [
        ("fp16", {"output": "softmax"}, 0.999),
        ("int8_dynamic", {"input_dtype": "uint8"}, 0.98),
        ("int8_static", {}, 0.9),
        ("int8_static_safe", {"pixel_input": False}, 0.9),
        ("int8_full", {}, 0.7),
        ("int16x8", {}, 0.98),
        ("int4_weights", {}, 0.9),
    ],
)
def test_every_preset(model, pixels, tmp_path, preset, settings, least):
    rng, path = np.random.default_rng(11), str(tmp_path / "net.tflite")
    images = rng.integers(0, 256, (128, *SIZE, 3)).astype("uint8")
    images = images if settings.get("pixel_input", True) else scaled(images)
    needs = export.PRESETS[preset].images != "none"
    export.to_tflite(model, path, preset, calibration_images=images if needs else None, **settings)
    found = open_predictor(path)
    wanted = model(scaled(pixels), training=False).numpy()
    if "output" in settings:
        wanted = np.exp(wanted) / np.exp(wanted).sum(axis=1, keepdims=True)
    assert found.head == ("softmax" if "output" in settings else "logits")
    assert found.values == ("scaled" if "pixel_input" in settings else "pixels")
    scores = found.scores(scaled(pixels))
    assert scores.shape == (5, 7) and scores.dtype == np.float32
    assert np.corrcoef(scores.ravel(), wanted.ravel())[0, 1] > least


@pytest.mark.slow
def test_a_file_that_lists_the_best(model, pixels, tmp_path, capsys):
    path = str(tmp_path / "net.tflite")
    export.to_tflite(model, path, "fp32", output="top_k", k=3)
    found = open_predictor(path)
    assert (found.head, found.outputs, found.listed) == ("top_k", 7, 3)
    wanted, scores = model(scaled(pixels), training=False).numpy(), found.scores(scaled(pixels))
    best = np.argsort(-wanted, axis=1)[:, :3]
    np.testing.assert_array_equal(np.argsort(-scores, axis=1, kind="stable")[:, :3], best)
    assert ((scores == -1).sum(axis=1) == 4).all()
    assert evaluate.main(["--model", path, "--data", "mock:24x16x7"]) == 0
    out = capsys.readouterr().out
    assert "calibration: no class has a probability of its own" in out and "top-5" not in out
    assert evaluate.main(["--model", path, "--data", "mock:24x16x7", "--set", "among=data"]) == 2
    assert "among=data needs the scores of all classes" in capsys.readouterr().err


@pytest.mark.slow
def test_files_that_do_not_fit(model, pixels, tmp_path):
    from vitkeras.export.checks import read_graph

    path = str(tmp_path / "net.tflite")
    export.to_tflite(model, path, "fp32")
    bare = str(tmp_path / "bare.tflite")
    from ai_edge_litert.tools import flatbuffer_utils

    flatbuffer_utils.write_model(read_graph(path), bare)  # without what lies behind the graph
    with pytest.raises(ValueError, match="doesn't say what it takes; add --set input_values=pixels"):
        open_predictor(bare)
    same(open_predictor(bare, values="pixels"), model, pixels, 1e-4)
    export.to_tflite(model, path, "fp32", output="embedding", overwrite=True)
    with pytest.raises(ValueError, match="must have an output that scores classes, received embedding"):
        open_predictor(path)
    export.to_trainable_tflite(model, path, 7, overwrite=True)
    with pytest.raises(ValueError, match="must have one signature, received features, get_head, infer"):
        open_predictor(path)
    (tmp_path / "cut.tflite").write_bytes(b"TFL3")
    with pytest.raises(ValueError, match="--model .*cut.tflite. does not run in LiteRT"):
        open_predictor(str(tmp_path / "cut.tflite"))


@pytest.mark.slow
def test_saved_models(model, pixels, tmp_path):
    for name, settings, values in (("pixels", {}, "pixels"), ("scaled", {"pixel_input": False}, "scaled")):
        path = str(tmp_path / name)
        export.to_saved_model(model, path, **settings)
        (tmp_path / "classes.txt").write_text("\n".join(NAMES))
        found = open_predictor(path + "/")
        same(found, model, pixels, 1e-4)
        assert (found.kind, found.size, found.head, found.values) == ("SavedModel", SIZE, "logits", values)
        assert found.class_names == tuple(NAMES)


@pytest.mark.slow
@pytest.mark.parametrize("activation, head", [(None, "logits"), ("softmax", "softmax"), ("sigmoid", "sigmoid")])
def test_keras_own_export(pixels, tmp_path, activation, head):
    model = net(activation)
    model.export(str(tmp_path / "net"), verbose=False)
    found = open_predictor(str(tmp_path / "net"))
    same(found, model, pixels, 1e-4)
    assert found.head == head and found.values == "scaled"


@pytest.mark.slow
def test_saved_models_of_a_fixed_batch_and_those_that_do_not_fit(tmp_path):
    module = tf.Module()

    def save(function, shape, name="serve"):
        module.f = tf.function(function, [tf.TensorSpec(shape, tf.float32, name="image")])
        tf.saved_model.save(module, str(tmp_path / "net"), signatures={name: module.f})
        return str(tmp_path / "net")

    path = save(lambda image: {"logits": tf.reduce_mean(image, (1, 2)) * 2}, (2, *SIZE, 3))
    images = np.random.default_rng(3).uniform(-1, 1, (5, *SIZE, 3)).astype("float32")
    np.testing.assert_allclose(open_predictor(path).scores(images), 2 * images.mean(axis=(1, 2)), atol=1e-6)
    for function, shape, name, message in (
        (lambda image: {"logits": image}, (None, 5), "serve", r"must take one image \(batch, height, width, 3\)"),
        (lambda image: {"logits": image}, (None, *SIZE, 3), "serve", "must give one score for each class"),
        (lambda image: {"a": image, "b": image}, (None, *SIZE, 3), "serve", "must have an output that scores classes"),
        (
            lambda image: {"logits": image},
            (None, *SIZE, 3),
            "answer",
            "must have the signature serve or serving_default",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            open_predictor(save(function, shape, name))
    (tmp_path / "net" / "saved_model.pb").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="must be a SavedModel that can be loaded"):
        open_predictor(str(tmp_path / "net"))


def test_a_keras_model_that_scales_its_input(model, pixels, tmp_path):
    path = str(tmp_path / "net.keras")
    rescaling = keras.layers.Rescaling(1 / 127.5, -1)
    keras.Sequential([keras.Input((*SIZE, 3)), rescaling, model]).save(path)
    with pytest.raises(ValueError, match="doesn't say what it takes; add --set input_values=pixels"):
        open_predictor(path)
    same(open_predictor(path, values="pixels"), model, pixels, 1e-5)


@pytest.mark.slow
def test_one_command_for_all(model, tmp_path, capsys):
    paths = [str(tmp_path / name) for name in ("net.keras", "net.tflite", "saved")]
    model.save(paths[0])
    export.to_tflite(model, paths[1], "fp32")
    export.to_saved_model(model, paths[2], pixel_input=False)
    results = []
    for path in paths:
        assert evaluate.main(["--model", path, "--data", "mock:29x31x7", "--set", "batch_size=5"]) == 0
        results.append(capsys.readouterr().out.splitlines()[1:])
    # A last digit may turn: the three compute in other orders.
    words, numbers = zip(*(apart("\n".join(lines)) for lines in results))
    assert words[0] == words[1] and len(numbers[0]) > 7 * 3
    np.testing.assert_allclose(numbers[1], numbers[0], rtol=2e-4)
    # The SavedModel takes floats: uint8 pixels would round what the resize leaves between them.
    assert results[0][-1] == results[2][-1]


def apart(text):
    """(text with each fraction as #, the fractions)."""
    return re.sub(r"\d+\.\d+", "#", text), [float(number) for number in re.findall(r"\d+\.\d+", text)]
