"""Fine-tuning, every data set of paper Table 4: SGD momentum 0.9, cosine, batch 512, 384 px, clipping at 1.

`--sweep` chooses the learning rate on the dev part. `--set model.variant=vit_l16` takes another model; the `_hybrid`
configurations take R50+ViT-B/16, for which the paper added 0.06 to ImageNet's rates (appendix B.1.1). The warm-up of
500 steps is the original code's; where the training is no longer than that, a tenth of it.
"""

from ..config import DataConfig, FinetuneConfig, ModelConfig, OptimizerConfig, SweepConfig, TrainConfig

# data.spec, steps, dev part, learning rates
SETS = {
    "imagenet": ("tfds:imagenet2012", 20_000, 0.01, (0.003, 0.01, 0.03, 0.06)),
    "cifar10": ("tfds:cifar10", 10_000, 0.02, (0.001, 0.003, 0.01, 0.03)),
    "cifar100": ("tfds:cifar100", 10_000, 0.02, (0.001, 0.003, 0.01, 0.03)),
    "pets": ("tfds:oxford_iiit_pet", 500, 0.1, (0.001, 0.003, 0.01, 0.03)),
    "flowers": ("tfds:oxford_flowers102", 500, 0.1, (0.001, 0.003, 0.01, 0.03)),
}


def _row(variant, spec, steps, dev_fraction, rates):
    return FinetuneConfig(
        data=DataConfig(spec, image_size=(384, 384), dev_fraction=dev_fraction),
        model=ModelConfig(variant, weights="imagenet21k"),
        optimizer=OptimizerConfig("sgd", 0.01, "cosine", warmup_steps=500 if steps > 500 else None),
        train=TrainConfig(batch_size=512, steps=steps, log_every=50, evaluate_every=max(500, steps // 10)),
        sweep=SweepConfig(rates),
    )


def _configs():
    configs = {}
    for data, (spec, steps, dev_fraction, rates) in SETS.items():
        for suffix, variant in (("", "vit_b16"), ("_hybrid", "r50_b16")):

            def function(variant=variant, settings=(spec, steps, dev_fraction, rates)):
                return _row(variant, *settings)

            function.__name__ = data + suffix
            tried = ", ".join(f"{rate:g}" for rate in rates)
            function.__doc__ = f"Table 4: {variant} on {spec}, {steps:,} steps; sweep {tried}; {dev_fraction:.0%} dev."
            configs[function.__name__] = function
    return configs


CONFIGS = _configs()
