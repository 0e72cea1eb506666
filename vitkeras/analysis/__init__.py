"""Looking inside a model: attention maps."""

from vitkeras.analysis.attention import attention_maps

__all__ = ["attention_maps"]
