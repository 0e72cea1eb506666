"""Published files, strict loading of every known layout, and saving in the original's."""

from vitkeras.checkpoints.load import load_checkpoint
from vitkeras.checkpoints.published import PublishedFile
from vitkeras.checkpoints.registry import find_published, list_weights, published_files
from vitkeras.checkpoints.save import save_checkpoint

__all__ = [
    "PublishedFile",
    "find_published",
    "list_weights",
    "load_checkpoint",
    "published_files",
    "save_checkpoint",
]
