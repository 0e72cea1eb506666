"""Quantization-aware fine-tunings of a trained classifier, which `--model` names."""

from dataclasses import dataclass, field

from ..config import DataConfig, ModelConfig, OptimizerConfig, PretrainConfig, TrainConfig, check_positive


@dataclass(frozen=True)
class DistillationConfig:
    """What a model learns to compute in int8, and from whom.

    Attributes:
        model: the trained classifier, a run's workdir or `model.keras`; or "random": one of the section model without
            training, as `--smoke` takes.
        calibration_images: training images that the ranges of the activations are read from.
        learn_ranges: whether those ranges are then drawn in where that brings a block nearer to its float self.
        float_mix: whether the attention's weighted sum of the values stays in float.
        alpha: share of the distance to the float model in the loss; the rest is that of the labels.
        distance: "mse" of the logits, or "kl" of the softmax at `temperature`.
        temperature: of "kl".
    """

    model: str = ""
    calibration_images: int = 64
    learn_ranges: bool = False
    float_mix: bool = False
    alpha: float = 1.0
    distance: str = "mse"
    temperature: float = 1.0

    def __post_init__(self):
        check_positive("qat", self, "calibration_images", "temperature")
        if not 0 <= self.alpha <= 1:
            raise ValueError(f"qat.alpha must be in [0, 1], received {self.alpha}.")
        if self.distance not in ("mse", "kl"):
            raise ValueError(f"qat.distance must be 'mse' or 'kl', received {self.distance!r}.")


@dataclass(frozen=True)
class QatConfig(PretrainConfig):
    """A quantization-aware fine-tuning of a trained model."""

    qat: DistillationConfig = field(default_factory=DistillationConfig)

    def __post_init__(self):
        unused = [name for name in ("ema_decay", "sparsity", "mixed_precision") if getattr(self.train, name)]
        if unused:
            raise ValueError(f"train.{unused[0]} is not for quantization-aware training, which is float32 and dense.")


def photos():
    """A classifier of photos at 224 px: SGD at 1e-4, 240 steps of 16 whole images, mirrored at random."""
    # AdamW moves each weight by the rate, however small its gradient. On a ViT-S/14 that started at 32.7 dB, 75 steps
    # at 3e-7 gave 33.5 dB, and 25 at 1e-6 left it at 32.8.
    return QatConfig(
        data=DataConfig(image_size=(224, 224), crop_area=None),
        optimizer=OptimizerConfig("sgd", learning_rate=1e-4),
        train=TrainConfig(batch_size=16, steps=240),
    )


def digits():
    """The model of `vitkeras-finetune --config digits`: 8x8 digits at 32 px, about a minute on two CPU cores."""
    return QatConfig(
        data=DataConfig("digits", image_size=(32, 32), crop_area=None, flip=False),
        model=ModelConfig("vit_ti16", patch_size=8, num_layers=4, hidden_dim=96, num_heads=3, mlp_dim=192),
        optimizer=OptimizerConfig("adamw", learning_rate=1e-5),
        train=TrainConfig(batch_size=64, steps=200, log_every=50),
    )


CONFIGS = {function.__name__: function for function in (photos, digits)}
