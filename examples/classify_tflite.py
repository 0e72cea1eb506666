"""A photo's five best classes from an exported file; needs ai-edge-litert, numpy and pillow, not this library.

python classify_tflite.py photos.tflite photo.jpg
"""

import sys
import zipfile

import numpy as np
from ai_edge_litert.interpreter import Interpreter
from PIL import Image

model, photo = sys.argv[1:] if len(sys.argv) == 3 else sys.exit(__doc__)
labels = zipfile.ZipFile(model).read("labels.txt").decode().splitlines()
run = Interpreter(model, num_threads=4).get_signature_runner()
takes, (gives,) = run.get_input_details()["image"], run.get_output_details().values()
size = takes["shape"][2], takes["shape"][1]
pixels = np.asarray(Image.open(photo).convert("RGB").resize(size, Image.Resampling.BILINEAR)).astype("float32")
zero_in, (scale, zero) = takes["quantization"][1], gives["quantization"]  # other than 0 in int8_full files only
(scores,) = run(image=(pixels + zero_in).astype(takes["dtype"])[None]).values()
scores = (scores[0].astype("float32") - zero) * (scale or 1)
for i in scores.argsort()[::-1][:5]:
    print(f"{scores[i]:8.3f}  {labels[i]}")
