"""The parts that a recipe's configuration is made of."""

import math
from dataclasses import dataclass, field

from .override import as_dict, override

__all__ = [
    "DataConfig",
    "FinetuneConfig",
    "LossConfig",
    "ModelConfig",
    "OptimizerConfig",
    "PretrainConfig",
    "SweepConfig",
    "TrainConfig",
    "VtabConfig",
    "as_dict",
    "override",
]


def check_positive(section, config, *names):
    """Raises ValueError unless each of these numbers, where it isn't None, is above 0 and finite."""
    for name in names:
        value = getattr(config, name)
        if value is not None and not 0 < value < math.inf:
            raise ValueError(f"{section}.{name} must be above 0 and finite, received {value}.")


@dataclass(frozen=True)
class DataConfig:
    """Which images, and how they are prepared.

    Attributes:
        spec: what `vitkeras.data.open_dataset` takes, such as "folder:PATH", "csv:PATH" or "tfds:NAME".
        image_size: (height, width) in pixels.
        crop_area: (least, most) share of the image that a training crop covers, or None for no crop.
        flip: whether training images are mirrored at random.
        augment: RandAugment and MixUp level of AugReg: "none", "light1", "light2", "medium1", "medium2", "strong1" or
            "strong2".
        preprocessing: evaluation's, "resize" (the original's) or "resize_crop" (big_vision's).
        on_bad_image: "refuse" or "skip", for unreadable files of a folder.
        test_fraction: share held out when the source has no test part.
        dev_fraction: share of the training images that a sweep selects on; they train too unless `train_part` says not.
        train_part: "all", or "without_dev": the dev part is then evaluated instead of the test part while training, and
            the best checkpoint is kept by it.
        limit: int or None, train with so many images only.
        service: address of a tf.data service that decodes, such as "grpc://host:5000", or None.
    """

    spec: str = ""
    image_size: tuple[int, int] = (224, 224)
    crop_area: tuple[float, float] | None = (0.05, 1.0)
    flip: bool = True
    augment: str = "none"
    preprocessing: str = "resize"
    on_bad_image: str = "refuse"
    test_fraction: float = 0.2
    dev_fraction: float = 0.0
    train_part: str = "all"
    limit: int | None = None
    service: str | None = None

    def __post_init__(self):
        if self.train_part not in ("all", "without_dev"):
            raise ValueError(f"data.train_part must be 'all' or 'without_dev', received {self.train_part!r}.")
        if self.train_part == "without_dev" and not self.dev_fraction:
            raise ValueError("data.train_part=without_dev needs data.dev_fraction above 0, received 0.0.")


@dataclass(frozen=True)
class ModelConfig:
    """Which model, and the weights it starts from.

    Attributes:
        variant: a name of `vitkeras.models.VARIANTS`, whose sizes the next fields may replace.
        patch_size, num_layers, hidden_dim, num_heads, mlp_dim: ints, or None for the variant's own. A family that
            lacks one of these or of the next ones, as a ResNet does, refuses anything but its default.
        activation: "gelu_tanh" (original weights) or "gelu" (erf: timm, Hugging Face, DINO).
        classifier: "token" or "gap".
        position_embedding: "none", "learned_1d", "learned_2d" or "relative" (appendix D.4), of a ViT or hybrid.
        dropout_rate: float, or None for the variant's own.
        stochastic_depth_rate: float, of the last block.
        representation_size: int or None, the tanh layer before the head that the paper pre-trains with (section 3.1).
        stage_blocks: tuple of int or None, units in each stage of a ResNet or of a hybrid's stem.
        width_factor: float or None, of a ResNet or of a hybrid's stem.
        head_bias: float, the head's bias at the start; -10 or -6.9 for sigmoid losses over many classes.
        weights: None (random), a published name, or the path of a file that `load_checkpoint` takes, such as
            `model.keras` of a pre-training run.
        weights_input: the input that the weights were trained with: "original" (-1...1) or "imagenet"
            (mean and standard deviation of ImageNet); folded into the patch embedding.
    """

    variant: str = "vit_b16"
    patch_size: int | None = None
    num_layers: int | None = None
    hidden_dim: int | None = None
    num_heads: int | None = None
    mlp_dim: int | None = None
    activation: str = "gelu_tanh"
    classifier: str = "token"
    position_embedding: str = "learned_1d"
    dropout_rate: float | None = 0.0
    stochastic_depth_rate: float = 0.0
    representation_size: int | None = None
    stage_blocks: tuple[int, ...] | None = None
    width_factor: float | None = None
    head_bias: float = 0.0
    weights: str | None = None
    weights_input: str = "original"


@dataclass(frozen=True)
class OptimizerConfig:
    """Optimizer and schedule.

    Attributes:
        name: "sgd" (momentum) or "adamw".
        learning_rate: peak, after the warm-up.
        decay: "cosine", "linear" or "constant".
        warmup_steps: linear warm-up; None for a tenth of the steps.
        momentum: of SGD.
        weight_decay: of AdamW, on kernels only.
        clip_norm: global gradient norm, after the all-reduce; None for no clipping.
    """

    name: str = "sgd"
    learning_rate: float = 0.01
    decay: str = "cosine"
    warmup_steps: int | None = None
    momentum: float = 0.9
    weight_decay: float = 0.0
    clip_norm: float | None = 1.0

    def __post_init__(self):
        check_positive("optimizer", self, "learning_rate", "clip_norm")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"optimizer.momentum must be in [0, 1), received {self.momentum}.")
        for name in ("weight_decay", "warmup_steps"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < math.inf:
                raise ValueError(f"optimizer.{name} must be at least 0 and finite, received {value}.")


@dataclass(frozen=True)
class LossConfig:
    """What is minimised.

    Attributes:
        name: "softmax" or "sigmoid" cross-entropy.
        label_smoothing: float in [0, 1).
    """

    name: str = "softmax"
    label_smoothing: float = 0.0


@dataclass(frozen=True)
class TrainConfig:
    """Length and rhythm of a run.

    Attributes:
        batch_size: images in one update, over all replicas.
        epochs: passes over the training images.
        steps: updates; None for `epochs`.
        accumulate: micro-batches in one update.
        log_every: steps between two log rows.
        evaluate_every: steps between two evaluations; None for only the last.
        save_every: steps between two checkpoints; None for `save_minutes` alone. The last step has one too.
        save_minutes: minutes between two checkpoints, the most that a dying machine costs.
        keep: how many of the last checkpoints stay.
        seed: of weights, order, crops and dropout.
        mixed_precision: bfloat16 compute with float32 weights, softmax and LayerNorm statistics.
        remat: whether blocks are computed again in the backward pass, which saves memory.
        jit_compile: whether loss and gradients are compiled by XLA, for GPUs. A run goes on with what it began with:
            XLA draws other dropout masks.
        ema_decay: of a moving average of the weights, such as 0.9999, which is then evaluated and saved; or None.
        sparsity: share of the encoder blocks' weights that is zero at the end, by magnitude; reached after four fifths
            of the steps. 0 (default) for no pruning.
    """

    batch_size: int = 32
    epochs: float = 10
    steps: int | None = None
    accumulate: int = 1
    log_every: int = 10
    evaluate_every: int | None = None
    save_every: int | None = None
    save_minutes: float = 10.0
    keep: int = 3
    seed: int = 0
    mixed_precision: bool = False
    remat: bool = False
    jit_compile: bool = False
    ema_decay: float | None = None
    sparsity: float = 0.0

    def __post_init__(self):
        names = "batch_size epochs steps accumulate log_every evaluate_every save_every save_minutes keep"
        check_positive("train", self, *names.split())
        if not 0 <= self.seed < 2**31:
            raise ValueError(f"train.seed must be >= 0 and below 2**31, received {self.seed}.")
        if not 0 <= self.sparsity < 1:
            raise ValueError(f"train.sparsity must be at least 0 and below 1, received {self.sparsity}.")
        if self.sparsity and self.ema_decay is not None:
            raise ValueError(f"train.sparsity must be 0 with train.ema_decay, received {self.sparsity}.")


@dataclass(frozen=True)
class PretrainConfig:
    """A supervised training from scratch (paper section 4.1, Table 3; AugReg)."""

    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    train: TrainConfig = field(default_factory=TrainConfig)


@dataclass(frozen=True)
class SweepConfig:
    """What `--sweep` tries on the dev part (paper Table 4).

    Attributes:
        learning_rates: tuple of float.
    """

    learning_rates: tuple[float, ...] = (0.001, 0.003, 0.01, 0.03)

    def __post_init__(self):
        if not all(0 < rate < math.inf for rate in self.learning_rates):
            raise ValueError(f"sweep.learning_rates must be above 0 and finite, received {self.learning_rates}.")


@dataclass(frozen=True)
class FinetuneConfig(PretrainConfig):
    """A fine-tuning run (paper section 3.2 and appendix B.1.1)."""

    sweep: SweepConfig = field(default_factory=SweepConfig)


@dataclass(frozen=True)
class SuiteConfig:
    """Which tasks of VTAB, and what they train on.

    Attributes:
        tasks: names of `vtab_tasks.TASKS`, or () for all 19.
        part: "all" (800 + 200 images, for results on the test part) or "train" (800 images, evaluated on the other
            200, to choose settings with).
    """

    tasks: tuple[str, ...] = ()
    part: str = "all"

    def __post_init__(self):
        if self.part not in ("all", "train"):
            raise ValueError(f"suite.part must be 'all' or 'train', received {self.part!r}.")


@dataclass(frozen=True)
class VtabConfig(PretrainConfig):
    """The VTAB-1k suite (paper section 4.1 and appendix B.1.1)."""

    suite: SuiteConfig = field(default_factory=SuiteConfig)
