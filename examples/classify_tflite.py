"""A photo's five best classes from an exported file; needs ai-edge-litert, numpy and pillow, not this library.

python classify_tflite.py photos.tflite photo.jpg
"""

import sys
import zipfile

import numpy as np
from ai_edge_litert.interpreter import Interpreter
from PIL import Image

model, photo = sys.argv[1:]
labels = zipfile.ZipFile(model).read("labels.txt").decode().splitlines()
run = Interpreter(model, num_threads=4).get_signature_runner()
_, height, width, _ = run.get_input_details()["image"]["shape"]
dtype = run.get_input_details()["image"]["dtype"]
image = Image.open(photo).convert("RGB").resize((width, height), Image.Resampling.BILINEAR)
(scores,) = run(image=np.asarray(image, dtype)[None]).values()
for i in scores[0].argsort()[::-1][:5]:
    print(f"{scores[0, i]:8.3f}  {labels[i]}")
