"""Few-shot evaluation (paper section 4.1): least squares on frozen features, 1, 5, 10 and 25 examples a class."""

from ..config import DataConfig, FewshotConfig, ModelConfig


def trained():
    """Section 4.1: any model of yours; give it with --model."""
    return FewshotConfig()


def vit_b16_21k():
    """Section 4.1: ViT-B/16 of ImageNet-21k at 224 px, on any data set."""
    return FewshotConfig(data=DataConfig(image_size=(224, 224)), model=ModelConfig("vit_b16", weights="imagenet21k"))


def vit_s14():
    """Section 4.1: self-supervised ViT-S/14 (erf GELU, ImageNet-normalised input), weights by --weights."""
    return FewshotConfig(
        data=DataConfig(image_size=(224, 224)),
        model=ModelConfig("vit_s16", patch_size=14, activation="gelu", weights_input="imagenet"),
    )


CONFIGS = {function.__name__: function for function in (trained, vit_b16_21k, vit_s14)}
