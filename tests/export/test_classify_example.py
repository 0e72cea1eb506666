import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vitkeras.export import run_tflite, to_tflite

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "classify_tflite.py"
ALONE = """
import runpy, sys
for name in ("tensorflow", "keras", "vitkeras"):
    sys.modules[name] = None  # not installed on the device
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.parametrize("preset", ["int8_dynamic", "int8_full"])
def test_five_best_classes_of_a_photo(make, pixels, tmp_path, preset):
    labels = [f"class {i}" for i in range(6)] + ["Gänseblümchen"]
    model, photo = str(tmp_path / "net.tflite"), str(tmp_path / "photo.png")
    options = {"input_dtype": "uint8"}
    if preset == "int8_full":
        options = {"calibration_images": np.concatenate([pixels] * 10)}
    to_tflite(make(classifier_activation="softmax"), model, preset, labels=labels, **options)
    Image.fromarray(pixels[4].astype("uint8")).save(photo)
    command = [sys.executable, "-X", "utf8", "-c", ALONE, str(EXAMPLE), model, photo]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    scores = run_tflite(model, pixels[4:5])[0]
    expected = [f"{scores[i]:8.3f}  {labels[i]}" for i in np.argsort(-scores)[:5]]
    assert done.stdout.splitlines() == expected


def test_without_arguments_it_says_how():
    done = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True)
    assert done.returncode == 1 and "python classify_tflite.py photos.tflite photo.jpg" in done.stderr
