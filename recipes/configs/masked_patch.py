"""Masked-patch prediction (paper appendix B.1.2): Adam, batch 4096, LR 2e-4, 10k warm-up steps, cosine, 224 px.

The paper pre-trained on JFT-300M, which nobody else has: give any large set with --data. It names neither weight decay
nor clipping, so that there is none.
"""

from dataclasses import dataclass, field

from ..config import DataConfig, FinetuneConfig, ModelConfig, OptimizerConfig, TrainConfig


@dataclass(frozen=True)
class MaskConfig:
    """What masked-patch prediction corrupts and predicts.

    Attributes:
        target: "mean_color", "color_4x4" or "pixels".
        rate: share of the patches that is corrupted.
    """

    target: str = "mean_color"
    rate: float = 0.5


@dataclass(frozen=True)
class MaskedPatchConfig:
    """A pre-training without labels (paper appendix B.1.2)."""

    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    mask: MaskConfig = field(default_factory=MaskConfig)
    train: TrainConfig = field(default_factory=TrainConfig)


# Sized for docs/results.md: 480 pictures a second are trained on one core of a CPU (AMD EPYC Zen 3).
_CIFAR_MODEL = ModelConfig("vit_ti16", patch_size=4, num_layers=4, hidden_dim=64, num_heads=2, mlp_dim=128)
_CIFAR_DATA = DataConfig("tfds:cifar10", image_size=(32, 32), crop_area=(0.5, 1.0))


def _paper(steps, spec="", **mask):
    return MaskedPatchConfig(
        data=DataConfig(spec),
        model=ModelConfig("vit_b16"),
        optimizer=OptimizerConfig("adamw", 2e-4, "cosine", warmup_steps=10_000, clip_norm=None),
        mask=MaskConfig(**mask),
        train=TrainConfig(batch_size=4096, steps=steps, log_every=100, evaluate_every=10_000),
    )


def b16():
    """Appendix B.1.2: ViT-B/16, mean 3-bit colour of 50 % of the patches, 1,000,000 steps."""
    return _paper(1_000_000)


def b16_100k():
    """Appendix B.1.2: the same in 100,000 steps, after which the paper saw little more gain."""
    return _paper(100_000)


def b16_imagenet():
    """Appendix B.1.2: the same on ImageNet, which the paper found nearly as good, in 100,000 steps."""
    return _paper(100_000, "tfds:imagenet2012")


def b16_rate_15():
    """Appendix B.1.2: 15 % of the patches corrupted, as BERT does; slightly worse in the paper."""
    return _paper(100_000, rate=0.15)


def b16_color_4x4():
    """Appendix B.1.2: the 3-bit colours of the patch downsized to 4 x 4, 16 predictions a patch."""
    return _paper(100_000, target="color_4x4")


def b16_pixels():
    """Appendix B.1.2: all pixels of the patch by L2; slightly worse in the paper."""
    return _paper(100_000, target="pixels")


def cifar_small():
    """CIFAR-10 and other pictures of 32 px: a 4-layer ViT of patch 4 for a CPU; not in the paper."""
    return MaskedPatchConfig(
        data=_CIFAR_DATA,
        model=_CIFAR_MODEL,
        optimizer=OptimizerConfig("adamw", 1e-3, "cosine", weight_decay=0.05),
        train=TrainConfig(batch_size=64, epochs=20, log_every=125),
    )


CONFIGS = {f.__name__: f for f in (b16, b16_100k, b16_imagenet, b16_rate_15, b16_color_4x4, b16_pixels, cifar_small)}


def _finetune_cifar_small():
    """CIFAR-10 with masked_patch's cifar_small net: from scratch, or pre-trained with --weights; not in the paper."""
    return FinetuneConfig(
        data=_CIFAR_DATA,
        model=_CIFAR_MODEL,
        optimizer=OptimizerConfig("adamw", 1e-3, "cosine", weight_decay=0.05),
        train=TrainConfig(batch_size=64, epochs=8, log_every=125, evaluate_every=125),
    )


_finetune_cifar_small.__name__ = "cifar_small"  # masked_patch has one of that name, too
FINETUNE = {"cifar_small": _finetune_cifar_small}
