"""Export to SavedModel and TFLite: one file, checked against the Keras model before it is written.

Installed as `vitkeras.export`; `python -m export` in a checkout. TensorFlow, LiteRT and the quantizer are imported when
a function is called.
"""

from .card import read_card
from .compare import Comparison, compare_tflite
from .labels import read_labels
from .presets import PRESETS
from .qat import activation_ranges, baked_model, prepare_qat, ranges_record
from .range_search import LearnedRanges, learn_ranges
from .report import ExportError, ExportReport
from .runtime import run_tflite
from .saved_model import to_saved_model
from .tflite import to_tflite
from .trainable import to_trainable_tflite
from .trainable_report import TrainableReport

__all__ = [
    "PRESETS",
    "Comparison",
    "ExportError",
    "ExportReport",
    "LearnedRanges",
    "TrainableReport",
    "activation_ranges",
    "baked_model",
    "compare_tflite",
    "learn_ranges",
    "prepare_qat",
    "ranges_record",
    "read_card",
    "read_labels",
    "run_tflite",
    "to_saved_model",
    "to_tflite",
    "to_trainable_tflite",
]
