"""Export to SavedModel and TFLite: one file, checked against the Keras model before it is written.

Installed as `vitkeras.export`; `python -m export` in a checkout. TensorFlow, LiteRT and the quantizer are imported when
a function is called.
"""

from .report import ExportError, ExportReport
from .runtime import run_tflite
from .saved_model import to_saved_model
from .tflite import PRESETS, to_tflite
from .trainable import to_trainable_tflite
from .trainable_report import TrainableReport

__all__ = [
    "PRESETS",
    "ExportError",
    "ExportReport",
    "TrainableReport",
    "run_tflite",
    "to_saved_model",
    "to_tflite",
    "to_trainable_tflite",
]
