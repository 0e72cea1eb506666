"""Adam against SGD for pre-training ResNets (paper appendix D.1).

`docs/paper-settings.md` says what of SGD's settings could not be confirmed.
"""

from ..config import DataConfig, LossConfig, ModelConfig, OptimizerConfig, PretrainConfig, TrainConfig

VARIANTS = ("bit_r50x1", "bit_r152x2")


def _row(variant, optimizer):
    return PretrainConfig(
        data=DataConfig(image_size=(224, 224)),
        model=ModelConfig(variant),
        optimizer=optimizer,
        loss=LossConfig("softmax"),
        train=TrainConfig(batch_size=4096, epochs=7, log_every=100, evaluate_every=5000),
    )


def _configs():
    configs = {}
    for variant in VARIANTS:
        # SGD's rate is BiT's: 0.03 for 256 images, in proportion to the batch. BiT's L2 penalty of 1e-4 is left out.
        rate = 1e-3 if variant == "bit_r50x1" else 6e-4
        adam = OptimizerConfig("adamw", rate, "linear", warmup_steps=10_000, weight_decay=0.1, clip_norm=None)
        sgd = OptimizerConfig("sgd", 0.03 * 4096 / 256, "linear", warmup_steps=10_000, clip_norm=None)
        for name, optimizer in (("adam", adam), ("sgd", sgd)):

            def function(variant=variant, optimizer=optimizer):
                return _row(variant, optimizer)

            function.__name__ = f"d1_{name}_{variant}"
            function.__doc__ = (
                f"Appendix D.1: {variant} with {name}, LR {optimizer.learning_rate:g}, on any large set (--data)."
            )
            configs[function.__name__] = function
    return configs


CONFIGS = _configs()
