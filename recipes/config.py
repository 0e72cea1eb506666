"""The parts that a recipe's configuration is made of, and typed overrides of them."""

import ast
import dataclasses
import difflib
import types
import typing
from dataclasses import dataclass, field


@dataclass(frozen=True)
class DataConfig:
    """Which images, and how they are prepared.

    Attributes:
        spec: "folder:PATH", "tfds:NAME" or "digits".
        image_size: (height, width) in pixels.
        crop_area: (least, most) share of the image that a training crop covers, or None for no crop.
        flip: whether training images are mirrored at random.
        on_bad_image: "refuse" or "skip", for unreadable files of a folder.
        test_fraction: share held out when the source has no test part.
    """

    spec: str = ""
    image_size: tuple[int, int] = (224, 224)
    crop_area: tuple[float, float] | None = (0.05, 1.0)
    flip: bool = True
    on_bad_image: str = "refuse"
    test_fraction: float = 0.2


@dataclass(frozen=True)
class ModelConfig:
    """Which model, and the weights it starts from.

    Attributes:
        variant: a name of `vitkeras.models.VARIANTS`, whose sizes the next fields may replace.
        patch_size, num_layers, hidden_dim, num_heads, mlp_dim: ints, or None for the variant's own. A family that
            lacks one of these or of the next three, as a ResNet does, refuses anything but its default.
        activation: "gelu_tanh" (original weights) or "gelu" (erf: timm, Hugging Face, DINO).
        classifier: "token" or "gap".
        dropout_rate: float, or None for the variant's own.
        weights: None (random), a published name, or the path of an .npz file of the original layout.
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
    dropout_rate: float | None = 0.0
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
        seed: of weights, order, crops and dropout.
        mixed_precision: bfloat16 compute with float32 weights, softmax and LayerNorm statistics.
    """

    batch_size: int = 32
    epochs: float = 10
    steps: int | None = None
    accumulate: int = 1
    log_every: int = 10
    evaluate_every: int | None = None
    seed: int = 0
    mixed_precision: bool = False

    def __post_init__(self):
        for name in ("batch_size", "epochs", "steps", "accumulate", "log_every", "evaluate_every"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"train.{name} must be above 0, received {value}.")


@dataclass(frozen=True)
class FinetuneConfig:
    """A fine-tuning run (paper section 3.2 and appendix B.1.1)."""

    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    train: TrainConfig = field(default_factory=TrainConfig)


def override(config, assignments):
    """Applies `section.key=value` texts to a frozen configuration.

    Args:
        config: a configuration dataclass.
        assignments: iterable of str, such as "optimizer.learning_rate=0.03". Values are Python literals;
            text needs no quotes.

    Returns:
        A new configuration.

    Raises:
        ValueError: for text without "=", an unknown key (the nearest is given), or a value of another type.

    Example:
        >>> override(FinetuneConfig(), ["train.batch_size=64"]).train.batch_size
        64
    """
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals:
            raise ValueError(f"--set takes section.key=value, received {assignment!r}.")
        config = _replace(config, key.strip(), key.strip().split("."), text.strip())
    return config


def _replace(config, key, path, text):
    names = [f.name for f in dataclasses.fields(config)]
    if path[0] not in names:
        nearest = difflib.get_close_matches(path[0], names, n=1, cutoff=0)[0]
        raise ValueError(f"--set {key}: no field {path[0]!r}; nearest: {nearest!r} of {', '.join(names)}.")
    value = getattr(config, path[0])
    if dataclasses.is_dataclass(value):
        if len(path) == 1:
            raise ValueError(f"--set {key}: is a section; set one of its fields, such as {key}.{_first(value)}.")
        return dataclasses.replace(config, **{path[0]: _replace(value, key, path[1:], text)})
    if len(path) > 1:
        raise ValueError(f"--set {key}: {path[0]!r} has no fields.")
    kind = typing.get_type_hints(type(config))[path[0]]
    return dataclasses.replace(config, **{path[0]: _parse(key, kind, text)})


def _first(section):
    return dataclasses.fields(section)[0].name


def _parse(key, kind, text):
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        value = {"true": True, "false": False, "none": None}.get(text.lower(), text)
    kinds = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    for candidate in kinds:
        fits, converted = _fit(candidate, value, text)
        if fits:
            return converted
    raise ValueError(f"--set {key} must be {_name(kind)}, received {text!r}.")


def _fit(kind, value, text):
    """Whether `value` is of `kind`, and the value in that type."""
    if kind is types.NoneType:
        return value is None, None
    if typing.get_origin(kind) is tuple:
        kinds = typing.get_args(kind)
        if not isinstance(value, (tuple, list)) or len(value) != len(kinds):
            return False, None
        parts = [_fit(k, v, text) for k, v in zip(kinds, value)]
        return all(fits for fits, _ in parts), tuple(v for _, v in parts)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return True, float(value)
    if kind is str:
        return value is not None, value if isinstance(value, str) else text
    return type(value) is kind, value


def _name(kind):
    return str(kind).replace("NoneType", "none") if not isinstance(kind, type) else kind.__name__


def as_dict(config):
    """Returns the configuration as nested dicts of plain values, for JSON."""
    return dataclasses.asdict(config)
