"""Vision Transformers for Keras, with the numbers of the original (arXiv 2010.11929)."""

import importlib

import vitkeras._backend  # noqa: F401
from vitkeras._version import __version__
from vitkeras.checkpoints import list_weights, load_checkpoint, save_checkpoint
from vitkeras.models import (
    AxialResNet50,
    AxialViTB16,
    AxialViTB32,
    BiTR50x1,
    BiTR50x2,
    BiTR101x1,
    BiTR152x1,
    BiTR152x2,
    BiTR200x3,
    R26ViTB32,
    R26ViTS32,
    R50ViTB16,
    R50ViTB32,
    R50ViTL16,
    R50ViTL32,
    RTiViT16,
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
    features,
    from_checkpoint,
    with_new_head,
)
from vitkeras.preprocessing import decode_predictions, preprocess_input

__all__ = [
    "AxialResNet50",
    "AxialViTB16",
    "AxialViTB32",
    "BiTR50x1",
    "BiTR50x2",
    "BiTR101x1",
    "BiTR152x1",
    "BiTR152x2",
    "BiTR200x3",
    "R26ViTB32",
    "R26ViTS32",
    "R50ViTB16",
    "R50ViTB32",
    "R50ViTL16",
    "R50ViTL32",
    "RTiViT16",
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
    "analysis",
    "at_resolution",
    "data",
    "decode_predictions",
    "evaluation",
    "export",
    "features",
    "from_checkpoint",
    "layers",
    "list_weights",
    "load_checkpoint",
    "models",
    "preprocess_input",
    "save_checkpoint",
    "summary",
    "training",
    "with_new_head",
]

# Rooms that need TensorFlow or more; imported when first used, so that `import vitkeras` stays light.
_LAZY = ("analysis", "data", "evaluation", "export", "training")


def __getattr__(name):
    if name in _LAZY:
        return importlib.import_module(f"vitkeras.{name}")
    if name == "summary":
        return importlib.import_module("vitkeras.analysis").summary
    raise AttributeError(f"module 'vitkeras' has no attribute {name!r}")
