"""examples/web in Chromium on photos: a file of its own, so that another process runs it beside test_web."""

import numpy as np
import pytest
from web_answers import TOLERANCE, assert_same_answers, clear_answers

import vitkeras
from vitkeras import data
from vitkeras.data.images import decode_with_pillow
from vitkeras.export import to_tflite

pytestmark = [pytest.mark.slow, pytest.mark.web]


def test_flowers_get_pythons_answers(test_data, visit, site, tmp_path):
    """Photos and the real ViT-S/14 with a head of least squares on four photos a class."""
    splits = data.open_dataset(f"folder:{test_data}/data/flowers12")
    names = list(splits.class_names)
    model = vitkeras.VisionTransformer(
        (224, 224, 3), 14, 12, 384, 6, 1536, activation="gelu", classes=len(names), classifier_activation=None
    )
    weights = test_data / "weights" / "vit_s14_real_fp16.npz"
    statistics = {"input_mean": (0.485, 0.456, 0.406), "input_std": (0.229, 0.224, 0.225)}
    vitkeras.load_checkpoint(model, weights, load_head=False, **statistics)
    images, labels = data.raw_images(splits.train, 224, limit=4 * len(names))
    head = model.get_layer("head")
    backbone = vitkeras.evaluation.feature_model(model)
    features = backbone.predict(vitkeras.preprocess_input(images), batch_size=8, verbose=0)
    centre = features.mean(axis=0)
    gram = (features - centre).T @ (features - centre) + 1024 * np.eye(384)
    kernel = 20 * np.linalg.solve(gram, (features - centre).T @ (np.eye(len(names))[labels] - 1 / len(names)))
    head.kernel.assign(kernel.astype("float32"))
    head.bias.assign((-centre @ kernel).astype("float32"))
    path = str(tmp_path / "flowers.tflite")
    to_tflite(model, path, labels=names)

    folder = test_data / "data" / "flowers12" / "test"
    photos = [str(sorted((folder / name).iterdir())[i]) for i, name in enumerate(names)]
    photos, probabilities = clear_answers(path, photos, (224, 224), TOLERANCE["int8_dynamic"])
    assert sum(names[k] in photo for k, photo in zip(probabilities.argmax(axis=1), photos)) >= 7
    steps = [{"do": "open", "url": site[1]}, {"do": "choose", "input": "model-file", "path": path}]
    steps += [{"do": "drop", "path": photo} for photo in photos]
    steps += [{"do": "pixels", "path": photos[0], "height": 224, "width": 224}]
    _, opened, *results, received = visit(steps)
    assert opened["model"] == f"flowers.tflite: {len(names)} classes, 224 × 224 pixels, CPU"
    assert_same_answers(results, probabilities, names, TOLERANCE["int8_dynamic"])
    with open(photos[0], "rb") as file:  # two decoders of one JPEG
        assert np.abs(np.array(received).reshape(224, 224, 3) - decode_with_pillow(file.read())).max() <= 1
