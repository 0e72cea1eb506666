"""Vision Transformers for Keras, with the numbers of the original (arXiv 2010.11929)."""

import importlib

import vitkeras._backend  # noqa: F401
from vitkeras._version import __version__
from vitkeras.checkpoints import load_checkpoint
from vitkeras.models import (
    VisionTransformer,
    ViTB8,
    ViTB16,
    ViTB32,
    ViTH14,
    ViTL16,
    ViTL32,
    ViTS16,
    ViTS32,
    ViTTi16,
    at_resolution,
    with_new_head,
)
from vitkeras.preprocessing import decode_predictions, preprocess_input

__all__ = [
    "ViTB8",
    "ViTB16",
    "ViTB32",
    "ViTH14",
    "ViTL16",
    "ViTL32",
    "ViTS16",
    "ViTS32",
    "ViTTi16",
    "VisionTransformer",
    "__version__",
    "at_resolution",
    "data",
    "decode_predictions",
    "export",
    "layers",
    "load_checkpoint",
    "models",
    "preprocess_input",
    "training",
    "with_new_head",
]

# Rooms that need TensorFlow or more; imported when first used, so that `import vitkeras` stays light.
_LAZY = ("data", "export", "training")


def __getattr__(name):
    if name in _LAZY:
        return importlib.import_module(f"vitkeras.{name}")
    raise AttributeError(f"module 'vitkeras' has no attribute {name!r}")
