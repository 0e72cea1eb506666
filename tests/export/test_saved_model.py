import os
import subprocess
import sys

import numpy as np
import pytest

from vitkeras.export import ExportError, graph, saved_model, to_saved_model

LOAD = """
import sys, numpy as np, tensorflow as tf
assert "vitkeras" not in sys.modules
loaded = tf.saved_model.load(sys.argv[1])
images = np.load(sys.argv[2]).astype("float32")
for name in ("serve", "serving_default"):
    out = loaded.signatures[name](image=tf.constant(images))
    (key, value), = out.items()
    np.save(f"{sys.argv[3]}_{name}.npy", value)
    print(name, key)
    assert "vitkeras" not in sys.modules
"""


def test_it_loads_in_a_fresh_process_without_this_library(make, pixels, expected, tmp_path):
    model = make(classifier_activation="softmax")
    comparison = to_saved_model(model, str(tmp_path / "saved") + os.sep)
    assert comparison["max_abs_difference"] < 1e-5
    np.save(tmp_path / "images.npy", pixels)
    command = [sys.executable, "-c", LOAD, tmp_path / "saved", tmp_path / "images.npy", tmp_path / "out"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["serve", "probabilities", "serving_default", "probabilities"]
    for name in ("serve", "serving_default"):
        received = np.load(tmp_path / f"out_{name}.npy")
        np.testing.assert_allclose(received, expected(model), rtol=0, atol=1e-6)


def test_an_existing_folder_is_kept_unless_told(make, tmp_path):
    path = tmp_path / "saved"
    path.mkdir()
    (path / "mine.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="exists; choose another name"):
        to_saved_model(make(), str(path))
    assert os.listdir(path) == ["mine.txt"]
    to_saved_model(make(), str(path), overwrite=True)
    assert "saved_model.pb" in os.listdir(path) and "mine.txt" not in os.listdir(path)
    assert os.listdir(tmp_path) == ["saved"]


def test_a_wrong_one_is_not_written(make, tmp_path, monkeypatch):
    monkeypatch.setattr(saved_model, "export_model", lambda model, pixels: graph.export_model(make(seed=4), pixels))
    with pytest.raises(ExportError, match="'difference' failed"):
        to_saved_model(make(), str(tmp_path / "saved"))
    assert not os.listdir(tmp_path)
