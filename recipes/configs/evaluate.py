"""How a model is evaluated."""

from dataclasses import dataclass, field

from ..config import DataConfig


@dataclass(frozen=True)
class EvaluateConfig:
    """An evaluation of a trained model.

    Attributes:
        data: what to evaluate on; `image_size` is for models of any size, others have their own.
        model: a `model.keras`, a run's workdir, a checkpoint folder (`ckpt-120`), a file for `from_checkpoint`, a
            `.tflite` file or the folder of a SavedModel.
        part: "test", "dev" or "train"; or "all", training and test part together.
        batch_size: images at a time.
        ema: whether a checkpoint's averaged weights are taken.
        labels: file with the names of the model's outputs, one a line; None for those in or beside the model.
        label_map: JSON file, the data's classes to the model's outputs, such as ObjectNet's; None for by name.
        among: "model", every output is a possible answer; "data", only those of the data's classes.
        real_labels: ImageNet-ReaL's `real.json`, or None.
        head: "auto", by the last layer; "logits", "softmax", "sigmoid", or "sigmoid_logits" for a linear head that was
            trained with sigmoids.
        input_values: "auto"; "pixels" (0...255) or "scaled" (-1...1) for files that don't say what they take.
        num_threads: of a `.tflite` file.
        bins: of the calibration error.
        predictions: file for every image's answers, .csv, or .npz with all scores; None for none.
    """

    data: DataConfig = field(default_factory=DataConfig)
    model: str = ""
    part: str = "test"
    batch_size: int = 32
    ema: bool = False
    labels: str | None = None
    label_map: str | None = None
    among: str = "model"
    real_labels: str | None = None
    head: str = "auto"
    input_values: str = "auto"
    num_threads: int = 2
    bins: int = 15
    predictions: str | None = None

    def __post_init__(self):
        choices = {
            "part": ("test", "dev", "train", "all"),
            "among": ("model", "data"),
            "head": ("auto", "logits", "softmax", "sigmoid", "sigmoid_logits"),
            "input_values": ("auto", "pixels", "scaled"),
        }
        for name, known in choices.items():
            if (value := getattr(self, name)) not in known:
                *first, last = map(repr, known)
                raise ValueError(f"{name} must be {', '.join(first)} or {last}, received {value!r}.")
        for name in ("batch_size", "num_threads", "bins"):
            if (value := getattr(self, name)) < 1:
                raise ValueError(f"{name} must be above 0, received {value}.")
        if self.predictions is not None and not self.predictions.endswith((".csv", ".npz")):
            raise ValueError(f"predictions must be a .csv or .npz file, received {self.predictions!r}.")


def original():
    """The original's: the whole image resized to the model's size."""
    return EvaluateConfig()


def resize_crop():
    """big_vision's: the smaller side resized, then a central crop (256 and 224 px, 448 and 384 px)."""
    return EvaluateConfig(data=DataConfig(preprocessing="resize_crop"))


CONFIGS = {function.__name__: function for function in (original, resize_crop)}
