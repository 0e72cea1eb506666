import io
import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
from PIL import Image

import vitkeras
from vitkeras.export import ExportError, graph, saved_model, to_saved_model
from vitkeras.export.files import check_output
from vitkeras.models.axial import AxialViT
from vitkeras.models.resnet import ResNet

LOAD = """
import json, sys
sys.modules["keras"] = None  # TensorFlow imports it where it is found; here it is not
import numpy as np, tensorflow as tf
for folder in sys.argv[1:]:
    loaded = tf.saved_model.load(folder)
    images = tf.constant(np.load(f"{folder}_images.npy"))
    files = tf.constant([open(name, "rb").read() for name in json.load(open(f"{folder}_files.json"))])
    lines = []
    for name, value in (("serve", images), ("serving_default", images), ("serve_jpeg", files)):
        if len(value):
            (argument,) = loaded.signatures[name].structured_input_signature[1]
            for key, output in loaded.signatures[name](**{argument: value}).items():
                np.save(f"{folder}_{name}_{key}.npy", output)
                lines.append(f"{name} {argument} {key}")
    print(json.dumps(lines))
assert not {"vitkeras", "tf_keras"} & set(sys.modules)
"""
HEAD = {"classes": 7, "classifier_activation": None}


def feed(folder, images, files=()):
    """Writes what `load_elsewhere` gives the signatures of the SavedModel in `folder`."""
    np.save(f"{folder}_images.npy", images)
    with open(f"{folder}_files.json", "w") as file:
        json.dump([str(name) for name in files], file)


def load_elsewhere(*folders):
    """Runs SavedModels in a process that has neither this library nor Keras; returns the lines of each."""
    command = [sys.executable, "-c", LOAD, *map(str, folders)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folders[0])
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_it_loads_in_a_fresh_process_without_this_library(make, pixels, expected, tmp_path):
    from vitkeras import data

    model = make(classifier_activation="softmax")
    comparison = to_saved_model(model, str(tmp_path / "saved") + os.sep)
    assert comparison["max_abs_difference"] < 1e-5
    files = []
    rng = np.random.default_rng(5)
    for size, name in (((41, 97), "x/a.png"), ((200, 67), "x/b.jpg"), ((33, 55), "y/c.jpg")):
        smooth = np.repeat(np.repeat(rng.uniform(0, 255, (5, 5, 3)), 40, axis=0), 20, axis=1)[: size[0], : size[1]]
        for part in ("train", "test"):
            files.append(tmp_path / "photos" / part / name)
            files[-1].parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(smooth.astype("uint8")).save(files[-1])
    feed(tmp_path / "saved", pixels.astype("uint8"), files[1::2])
    (lines,) = load_elsewhere(tmp_path / "saved")
    assert lines == [
        "serve image probabilities",
        "serving_default image probabilities",
        "serve_jpeg encoded probabilities",
    ]
    for name in ("serve", "serving_default"):
        received = np.load(tmp_path / f"saved_{name}_probabilities.npy")
        np.testing.assert_allclose(received, expected(model), rtol=0, atol=1e-6)
    # Encoded photos get what evaluation gives them.
    batches = data.eval_batches(data.open_dataset(f"folder:{tmp_path}/photos").test, 3, (33, 55))
    ((batch, _, _),) = list(batches)
    reference = keras.ops.convert_to_numpy(model(batch, training=False))
    received = np.load(tmp_path / "saved_serve_jpeg_probabilities.npy")
    np.testing.assert_allclose(received, reference, rtol=0, atol=1e-6)
    assert np.abs(received - received[::-1]).max() > 1e-3


@pytest.mark.slow
def test_the_middle_of_photos(make, tmp_path):
    import tensorflow as tf

    from vitkeras.data.resizing import resize_crop

    model = make()
    to_saved_model(model, str(tmp_path / "saved"), preprocessing="resize_crop")
    image = np.random.default_rng(7).integers(0, 256, (83, 71, 3)).astype("uint8")
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "PNG")
    served = keras.layers.TFSMLayer(str(tmp_path / "saved"), call_endpoint="serve_jpeg")
    received = served(tf.constant([buffer.getvalue()]))["logits"]
    reference = model(vitkeras.preprocess_input(resize_crop(image, (33, 55))[None]))
    np.testing.assert_allclose(received, reference, rtol=0, atol=2e-5)
    # An ordinary layer of another model, too.
    layer = keras.layers.TFSMLayer(str(tmp_path / "saved"), call_endpoint="serve")
    pixels = np.random.default_rng(8).integers(0, 256, (2, 33, 55, 3)).astype("uint8")
    np.testing.assert_allclose(layer(pixels)["logits"], model(vitkeras.preprocess_input(pixels)), rtol=0, atol=2e-5)


FAMILIES = {
    "gap": lambda make: make(classifier="gap"),
    "hybrid": lambda make: vitkeras.VisionTransformer(
        (45, 61, 3), 2, 1, 38, 2, 53, stem_blocks=(1,), stem_width_factor=0.5, **HEAD
    ),
    "resnet": lambda make: ResNet((29, 45, 3), (1, 1), 0.5, **HEAD),
    "axial": lambda make: AxialViT((33, 55, 3), 11, 1, 38, 2, 53, **HEAD),
    "axial resnet": lambda make: ResNet((29, 45, 3), (1,), 0.5, attention_heads=4, **HEAD),
    "tokens": lambda make: make(include_top=False),
    "relative": lambda make: make(position_embedding="relative"),
    "features": lambda make: vitkeras.features(make(), (0, 1)),
    "one channel": lambda make: vitkeras.VisionTransformer((22, 33, 1), 11, 1, 38, 2, 53, **HEAD),
}


@pytest.fixture(scope="module")
def families(make, tmp_path_factory):
    """name -> (lines, folder, what the model gives), all loaded by one process."""
    folder = tmp_path_factory.mktemp("families")
    rng = np.random.default_rng(11)
    expected = {}
    for name, build in FAMILIES.items():
        model = build(make)
        for variable in model.trainable_variables:
            centre = 1.0 if variable.name == "scale" else 0.0
            variable.assign(rng.normal(centre, 0.15, variable.shape).astype("float32"))
        to_saved_model(model, str(folder / name))
        images = rng.integers(0, 256, (5, *model.input_shape[1:])).astype("uint8")
        feed(folder / name, images)
        expected[name] = keras.tree.flatten(model(vitkeras.preprocess_input(images), training=False))
    lines = load_elsewhere(*(folder / name for name in FAMILIES))
    return {name: (own, folder / name, expected[name]) for name, own in zip(FAMILIES, lines, strict=True)}


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_each_family(families, name):
    lines, folder, outputs = families[name]
    names = ["features_00", "features_01"] if name == "features" else ["features" if name == "tokens" else "logits"]
    assert sorted(lines) == [f"{s} image {n}" for s in ("serve", "serving_default") for n in names]
    for key, output in zip(names, outputs, strict=True):
        scale = max(1.0, np.abs(output).max())
        np.testing.assert_allclose(np.load(f"{folder}_serve_{key}.npy"), output, rtol=0, atol=1e-4 * scale)


@pytest.mark.slow
def test_without_pixel_input(make, pixels, expected, tmp_path):
    import tensorflow as tf

    model = make()
    to_saved_model(model, str(tmp_path / "saved"), pixel_input=False)
    signatures = tf.saved_model.load(str(tmp_path / "saved")).signatures
    assert set(signatures) == {"serve", "serving_default"}
    received = signatures["serve"](image=tf.constant(vitkeras.preprocess_input(pixels), tf.float32))["logits"]
    np.testing.assert_allclose(received, expected(model), rtol=0, atol=2e-5)


def test_an_existing_folder_is_kept_unless_told(make, tmp_path):
    path = tmp_path / "saved"
    path.mkdir()
    (path / "mine.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="exists; choose another name"):
        to_saved_model(make(), str(path))
    with pytest.raises(FileExistsError, match="must be a SavedModel to be replaced, it is a folder of other things"):
        to_saved_model(make(), str(path), overwrite=True)
    (path / "saved_model.pb").write_text("an older one")
    with pytest.raises(ValueError, match="preprocessing must be one of resize, resize_crop, received 'crop'"):
        to_saved_model(make(), str(path), overwrite=True, preprocessing="crop")
    assert sorted(os.listdir(path)) == ["mine.txt", "saved_model.pb"]
    to_saved_model(make(), str(path), overwrite=True)
    assert "saved_model.pb" in os.listdir(path) and "mine.txt" not in os.listdir(path)
    assert os.listdir(tmp_path) == ["saved"]


@pytest.mark.parametrize("there, folder", [("file", True), ("folder", False)])
def test_neither_kind_replaces_the_other(tmp_path, there, folder):
    path = tmp_path / "there"
    path.mkdir() if there == "folder" else path.write_text("mine")
    with pytest.raises(OSError, match=f"must be a {'folder' if folder else 'file'}, it is a {there}"):
        check_output(str(path), True, folder)
    with pytest.raises(ValueError, match="overwrite must be True or False, received 'no'"):
        check_output(str(path), "no", folder)


def test_a_wrong_one_is_not_written(make, tmp_path, monkeypatch):
    monkeypatch.setattr(saved_model, "export_model", lambda model, pixels: graph.export_model(make(seed=4), pixels))
    with pytest.raises(ExportError, match="'difference' failed"):
        to_saved_model(make(), str(tmp_path / "saved"))
    assert not os.listdir(tmp_path)


@pytest.mark.slow
def test_a_wrong_resize_is_not_written(make, tmp_path, monkeypatch):
    """The signature of encoded files is checked by itself."""
    monkeypatch.setattr("vitkeras.data.images.decode_stored", lambda encoded: 0 * _decoded(encoded))
    with pytest.raises(ExportError, match="'difference' failed"):
        to_saved_model(make(), str(tmp_path / "saved"))
    assert not os.listdir(tmp_path)


def _decoded(encoded):
    import tensorflow as tf

    return tf.io.decode_image(encoded, channels=3, expand_animations=False)
