"""How each preset quantizes, operator by operator, and what its file must pass."""

import difflib
from dataclasses import dataclass, field

MIN_MAX, MSE, PERCENTILE = "min_max", "mse", "percentile"
# How the range of an operator's activations is chosen, as measured on a trained ViT-S/14 (benchmarks/export_roles.py):
# the dense layers need their outliers; attention weights and mixed values are many small numbers and a few large ones.
RANGES = {"mix": MSE, "patch": PERCENTILE, "stem": PERCENTILE}
STATIC = dict.fromkeys(("patch", "stem", "query", "key", "value", "scores", "mix", "fc1"), "static")


@dataclass(frozen=True)
class Preset:
    """How a file is made, and what it must pass.

    Attributes:
        summary: str, one line for people.
        weights: mode of products with weights, of `quantize.MODES`.
        modes: dict of role -> mode, where it differs; products of activations are float unless they are named.
        everything: None, or 8 or 16: every operator of the graph computes in integers of so many bits.
        ranges: dict of role -> method of `Statistics.range`; others have "min_max".
        images: "none", "optional" or "needed": whether calibration images are taken. They serve the ranges, and the
            equalisation of channels.
        searches: bool, whether the dense layers that lose most stay float.
        learned: bool, for a model that `prepare_qat` made, whose ranges are known.
        bytes_a_weight: the least that a matrix weight takes in the file.
        relative_tolerance: bound on the difference, relative to the largest output (or 1); None for no bound.
        least_cosine: of all outputs.
        least_agreement: same top-1 as the model, on images that the user gave.
        accelerated: bool, whether XNNPACK must take the whole graph in one partition.
        plain_kernels: "reference" or "builtin", the kernels without XNNPACK that must give the same answers.
        advice: str, what the report adds for people.
    """

    summary: str
    weights: str = "dynamic"
    modes: dict = field(default_factory=dict)
    everything: int | None = None
    ranges: dict = field(default_factory=lambda: RANGES)
    images: str = "optional"
    searches: bool = False
    learned: bool = False
    bytes_a_weight: float = 1
    relative_tolerance: float | None = None
    least_cosine: float = 0.99
    least_agreement: float = 0.95
    accelerated: bool = True
    plain_kernels: str = "reference"
    advice: str = ""

    def mode(self, operator):
        """The mode of an `Operator`."""
        return self.modes.get(operator.role, self.weights if operator.weight_shape else "float")


PRESETS = {
    "fp32": Preset(
        "float32, as the model computes",
        weights="float",
        images="none",
        bytes_a_weight=4,
        relative_tolerance=1e-4,
        least_cosine=0.99999,
        least_agreement=1.0,
    ),
    "fp16": Preset(
        "float16 weights, float32 activations",
        weights="fp16",
        images="none",
        bytes_a_weight=2,
        relative_tolerance=2e-2,
        least_cosine=0.9999,
        least_agreement=0.99,
    ),
    "int8_dynamic": Preset("int8 weights, activations rounded on the fly, a range a row"),
    "int8_static": Preset(
        "int8 weights and attention products in measured ranges; what loses most by that stays dynamic",
        modes=STATIC,
        images="needed",
        least_cosine=0.98,
    ),
    "int8_static_safe": Preset(
        "dense layers and convolutions in measured ranges, those that lose most in float32",
        weights="static",
        images="needed",
        searches=True,
    ),
    "int8_full": Preset(
        "integers only, int8 in and out, for NPUs without float",
        weights="static",
        everything=8,
        images="needed",
        ranges={"": MSE},
        least_cosine=0.9,
        least_agreement=0.75,
        accelerated=False,
        advice="a transformer's LayerNorm, softmax and GELU lose much in int8, and CPUs run them slowly: use it only "
        "where a chip has no float units, else int8_static.",
    ),
    "int16x8": Preset(
        "int16 activations, int8 weights; float in and out, for DSPs",
        weights="static",
        everything=16,
        images="needed",
        ranges={},
        accelerated=False,
        advice="CPUs run it in reference kernels, many times slower than float: it is for DSPs with int16 units.",
    ),
    "int4_weights": Preset(
        "4-bit weights in blocks of 32, patches and head int8; activations rounded on the fly",
        weights="int4",
        modes=dict.fromkeys(("patch", "stem", "head"), "dynamic"),
        images="none",
        plain_kernels="builtin",
        advice="4-bit blocks need XNNPACK or LiteRT's builtin CPU kernels: LiteRT 2.3's reference kernels ignore the "
        "blocks' scales.",
        bytes_a_weight=0.5,
        least_cosine=0.9,
        least_agreement=0.85,
    ),
    # Compared with the model of prepare_qat, which rounds as the file does.
    "qat_int8": Preset(
        "int8 weights and activations as a model of prepare_qat was trained to have them",
        weights="static",
        images="none",
        learned=True,
        least_cosine=0.999,
    ),
}


def find_preset(name):
    """The `Preset` of a name; raises ValueError that names the nearest for another."""
    if not isinstance(name, str) or name not in PRESETS:
        nearest = difflib.get_close_matches(str(name).lower(), PRESETS, n=1, cutoff=0)[0]
        raise ValueError(f"preset must be one of {tuple(PRESETS)}, received {name!r}; nearest: {nearest!r}.")
    return PRESETS[name]
