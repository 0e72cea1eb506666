"""Training on the device as the document shows it, and on real photos."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

import vitkeras
from vitkeras.export import to_trainable_tflite
from vitkeras.export.head_graph import SIGNATURES
from vitkeras.export.quiet import quiet

pytestmark = pytest.mark.slow
REPOSITORY = Path(__file__).resolve().parents[2]


def test_the_documents_example_runs(make, pixels, tmp_path, monkeypatch):
    """The Python blocks of docs/on-device-training.md, one after the other, on a small net."""
    text = (REPOSITORY / "docs" / "on-device-training.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 3
    monkeypatch.chdir(tmp_path)
    labels = np.arange(13, dtype="int32") % 3
    names = {"vitkeras": vitkeras, "model": make(), "photos": pixels, "labels": labels, "photo": pixels[4]}
    with quiet():
        for block in blocks:
            exec(block, names)
    assert names["losses"][-1] < names["losses"][0] and names["answer"] == labels[4]


RESTORE = """
import sys, numpy as np
from ai_edge_litert.interpreter import Interpreter
path, stored, out = sys.argv[1:]
interpreter = Interpreter(path, num_threads=2)
kept = np.load(stored)
head = interpreter.get_signature_runner("set_head")(kernel=kept["kernel"], bias=kept["bias"])
assert head.pop("valid")
infer = interpreter.get_signature_runner("infer")
np.save(out, np.concatenate([infer(image=image[None], **head)["logits"] for image in kept["images"]]))
"""


def test_flowers_are_learnt_on_the_device(test_data, tmp_path):
    """From chance to 90 % and more with the real ViT-S/14 in int8, by the interpreter alone; a new process goes on."""
    from vitkeras import data

    model = vitkeras.VisionTransformer(
        (224, 224, 3), 14, 12, 384, 6, 1536, activation="gelu", include_top=False, pooling="token"
    )
    weights = test_data / "weights" / "vit_s14_real_fp16.npz"
    vitkeras.load_checkpoint(model, weights, input_mean=(0.485, 0.456, 0.406), input_std=(0.229, 0.224, 0.225))
    path = str(tmp_path / "flowers.tflite")
    print(to_trainable_tflite(model, path, classes=12, batch_size=30))
    splits = data.open_dataset(f"folder:{test_data}/data/flowers12")
    with quiet():
        interpreter = Interpreter(path, num_threads=2)
    run = {name: interpreter.get_signature_runner(name) for name in SIGNATURES}

    def features_of(part):
        images, labels = (values[::2] for values in data.raw_images(part, 224))  # half, for time: 30 + 10 of a class
        rows = [run["features"](image=image[None].astype("float32"))["features"] for image in images]
        return images, np.concatenate(rows), labels

    _, train_features, train_labels = features_of(splits.train)
    images, test_features, test_labels = features_of(splits.test)

    def accuracy(head):  # infer is these features times the head, see above
        return (test_features @ head["kernel"] + head["bias"]).argmax(axis=1) == test_labels

    head = run["get_head"]()
    before, order, losses = accuracy(head).mean(), np.random.default_rng(3), []
    for _ in range(40):
        for rows in order.permutation(len(train_labels)).reshape(-1, 30):
            result = run["train_head"](
                features=train_features[rows], labels=train_labels[rows], learning_rate=np.float32(0.01), **head
            )
            head = {"kernel": result["kernel"], "bias": result["bias"]}
            losses.append(result["loss"].item())
    after = accuracy(head).mean()
    print(f"accuracy {before:.4f} -> {after:.4f}, loss {np.mean(losses[:12]):.3f} -> {np.mean(losses[-12:]):.3f}")
    assert before == pytest.approx(1 / 12, abs=1e-6) and after >= 0.9

    chosen = images[::12].astype("float32")
    logits = np.concatenate([run["infer"](image=image[None], **head)["logits"] for image in chosen])
    np.testing.assert_allclose(logits, test_features[::12] @ head["kernel"] + head["bias"], rtol=0, atol=1e-3)
    np.savez(tmp_path / "kept.npz", images=chosen, **head)
    command = [sys.executable, "-c", RESTORE, path, str(tmp_path / "kept.npz"), str(tmp_path / "out.npy")]
    subprocess.run(command, check=True, capture_output=True)
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), logits)
