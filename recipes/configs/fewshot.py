"""Few-shot evaluation (paper section 4.1): least squares on frozen features, 1, 5, 10 and 25 examples a class."""

from dataclasses import dataclass, field

from ..config import DataConfig, ModelConfig


@dataclass(frozen=True)
class FewshotConfig:
    """A few-shot evaluation of frozen features (paper section 4.1).

    Attributes:
        data: the support set is drawn from its training part, and all of its test part is classified.
        model: the model to build, used without `checkpoint`.
        checkpoint: a `model.keras`, a run's workdir, a checkpoint folder, or a file for `from_checkpoint`; or None.
        layer: "head" (what enters the head), the number of an encoder block, or the name of a layer.
        shots: examples of each class.
        seeds: how many draws of the support set.
        l2_reg: strength of the regularisation.
        batch_size: images at a time.
        cache: folder that keeps the features, or None.
    """

    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    checkpoint: str | None = None
    layer: int | str = "head"
    shots: tuple[int, ...] = (1, 5, 10, 25)
    seeds: int = 3
    l2_reg: float = 1024.0
    batch_size: int = 32
    cache: str | None = None

    def __post_init__(self):
        if not self.shots or min(self.shots) < 1:
            raise ValueError(f"shots must hold numbers above 0, received {self.shots}.")
        for name in ("seeds", "batch_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be above 0, received {getattr(self, name)}.")


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
