"""Near-duplicates between training and test images, by hash and, with a model, by its features."""

from dataclasses import dataclass, field

from ..config import DataConfig, ModelConfig


@dataclass(frozen=True)
class NearDuplicatesConfig:
    """A search for images that are in two sets.

    Attributes:
        data: the training images; without `against`, they are compared with the test part of the same set. Of a set
            without a test part all images are taken where `against` is given.
        against: a second set, whose test part (all of it, where there is none) is compared; or None.
        max_distance: of the 64 bits of a hash, how many may differ.
        min_cosine: pairs whose features have at least this cosine are found whatever their hashes; with a model only.
        model: the model to build, used without `checkpoint` and with `model.weights`.
        checkpoint: a `model.keras`, a run's workdir, a checkpoint folder, or a file for `from_checkpoint`; or None.
        layer: "head" (what enters the head), the number of an encoder block, or the name of a layer.
        batch_size: images at a time.
        cache: folder that keeps the features, or None.
        pictures: how many pairs, the most alike, the page shows.
    """

    data: DataConfig = field(default_factory=DataConfig)
    against: str | None = None
    max_distance: int = 8
    min_cosine: float = 0.98
    model: ModelConfig = field(default_factory=ModelConfig)
    checkpoint: str | None = None
    layer: int | str = "head"
    batch_size: int = 32
    cache: str | None = None
    pictures: int = 300

    def __post_init__(self):
        if not 0 <= self.max_distance < 32:
            raise ValueError(f"max_distance must be in 0...31, received {self.max_distance}.")
        if not 0 < self.min_cosine <= 1:
            raise ValueError(f"min_cosine must be above 0 and at most 1, received {self.min_cosine}.")
        for name in ("batch_size", "pictures"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be above 0, received {getattr(self, name)}.")

    @property
    def has_model(self):
        """bool, whether features are compared."""
        return self.checkpoint is not None or self.model.weights is not None


def look_alikes():
    """By hash; with --model by the features of that model, too."""
    return NearDuplicatesConfig()


def vit_s14():
    """By hash and by self-supervised ViT-S/14 (erf GELU, ImageNet-normalised input), weights by --weights."""
    return NearDuplicatesConfig(
        model=ModelConfig("vit_s16", patch_size=14, activation="gelu", weights_input="imagenet"),
    )


CONFIGS = {function.__name__: function for function in (look_alikes, vit_s14)}
