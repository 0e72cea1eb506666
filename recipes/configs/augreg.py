"""Pre-training as in AugReg (arXiv 2106.10270): sigmoid loss, Adam 1e-3 cosine, 300 epochs, seven augmentations.

The paper's grid has weight decay 0.03 or 0.1 and dropout with stochastic depth 0 or 0.1: `--set` changes them.
"""

from ..config import DataConfig, LossConfig, ModelConfig, OptimizerConfig, PretrainConfig, TrainConfig

LEVELS = ("none", "light1", "light2", "medium1", "medium2", "strong1", "strong2")
# data.spec and the head's first bias: about the logarithm of a class's share
SETS = {"imagenet21k": ("tfds:imagenet21k", -10.0), "imagenet": ("tfds:imagenet2012", -6.9)}


def _augreg(level, spec, head_bias):
    return PretrainConfig(
        data=DataConfig(spec, image_size=(224, 224), augment=level),
        model=ModelConfig("vit_b16", head_bias=head_bias),
        optimizer=OptimizerConfig("adamw", 1e-3, "cosine", warmup_steps=10_000, weight_decay=0.03),
        loss=LossConfig("sigmoid"),
        train=TrainConfig(batch_size=4096, epochs=300, log_every=100, evaluate_every=5000),
    )


def _configs():
    configs = {}
    for data, (spec, head_bias) in SETS.items():
        for level in LEVELS:

            def function(level=level, spec=spec, head_bias=head_bias):
                return _augreg(level, spec, head_bias)

            function.__name__ = f"augreg_{data}_{level}"
            function.__doc__ = (
                f"AugReg: vit_b16 on {spec}, 300 epochs, sigmoid loss, RandAugment and MixUp level {level}."
            )
            configs[function.__name__] = function
    return configs


CONFIGS = _configs()
