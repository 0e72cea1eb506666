"""Published files, and strict loading of them."""

from vitkeras.checkpoints.load import load_checkpoint
from vitkeras.checkpoints.registry import PublishedFile, find_published, published_files

__all__ = ["PublishedFile", "find_published", "load_checkpoint", "published_files"]
