"""How a model is evaluated."""

from ..config import DataConfig
from ..evaluate_config import EvaluateConfig


def original():
    """The original's: the whole image resized to the model's size."""
    return EvaluateConfig()


def resize_crop():
    """big_vision's: the smaller side resized, then a central crop (256 and 224 px, 448 and 384 px)."""
    return EvaluateConfig(data=DataConfig(preprocessing="resize_crop"))


CONFIGS = {function.__name__: function for function in (original, resize_crop)}
