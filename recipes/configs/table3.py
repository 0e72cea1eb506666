"""Pre-training from scratch, every row of paper Table 3: Adam with decoupled decay, batch 4096, 224 px.

JFT-300M is not public: the `jft_` rows are for any large set that `--data` names.
"""

from ..config import DataConfig, LossConfig, ModelConfig, OptimizerConfig, PretrainConfig, TrainConfig

# name of the set, data.spec, variants, epochs, learning rate, decay, weight decay, dropout, clipping norm
ROWS = (
    ("jft", "", ("vit_b16", "vit_b32"), (7,), 8e-4, "linear", 0.1, 0.0, None),
    ("jft", "", ("vit_l32",), (7,), 6e-4, "linear", 0.1, 0.0, None),
    ("jft", "", ("vit_l16",), (7, 14), 4e-4, "linear", 0.1, 0.0, None),
    ("jft", "", ("vit_h14",), (14,), 3e-4, "linear", 0.1, 0.0, None),
    ("jft", "", ("bit_r50x1", "bit_r50x2"), (7,), 1e-3, "linear", 0.1, 0.0, None),
    ("jft", "", ("bit_r101x1",), (7,), 8e-4, "linear", 0.1, 0.0, None),
    ("jft", "", ("bit_r152x1", "bit_r152x2"), (7,), 6e-4, "linear", 0.1, 0.0, None),
    ("jft", "", ("r50_b16", "r50_b32"), (7,), 8e-4, "linear", 0.1, 0.0, None),
    ("jft", "", ("r50_l32",), (7,), 2e-4, "linear", 0.1, 0.0, None),
    ("jft", "", ("r50_l16",), (7, 14), 4e-4, "linear", 0.1, 0.0, None),
    ("imagenet21k", "tfds:imagenet21k", ("vit_b16", "vit_b32"), (90,), 1e-3, "linear", 0.03, 0.1, None),
    ("imagenet21k", "tfds:imagenet21k", ("vit_l16", "vit_l32"), (30, 90), 1e-3, "linear", 0.03, 0.1, None),
    (
        "imagenet",
        "tfds:imagenet2012",
        ("vit_b16", "vit_b32", "vit_l16", "vit_l32"),
        (300,),
        3e-3,
        "cosine",
        0.3,
        0.1,
        1.0,
    ),
)
_WIDTHS = {"b": 768, "l": 1024, "h": 1280}


def _row(variant, spec, epochs, rate, decay, weight_decay, dropout, clip):
    is_vit = not variant.startswith("bit_")
    return PretrainConfig(
        data=DataConfig(spec, image_size=(224, 224)),
        model=ModelConfig(
            variant,
            dropout_rate=dropout,
            representation_size=_WIDTHS[variant.rpartition("_")[2][0]] if is_vit else None,
        ),
        optimizer=OptimizerConfig("adamw", rate, decay, warmup_steps=10_000, weight_decay=weight_decay, clip_norm=clip),
        loss=LossConfig("softmax"),
        train=TrainConfig(batch_size=4096, epochs=epochs, log_every=100, evaluate_every=5000),
    )


def _configs():
    configs = {}
    for data, spec, variants, lengths, *settings in ROWS:
        for variant in variants:
            for epochs in lengths:
                name = f"{data}_{variant}" + (f"_{epochs}ep" if len(lengths) > 1 else "")

                def function(variant=variant, spec=spec, epochs=epochs, settings=settings):
                    return _row(variant, spec, epochs, *settings)

                where = spec or "any large set (--data), as JFT-300M"
                rate, decay, weight_decay, dropout, _ = settings
                function.__name__ = name
                function.__doc__ = (
                    f"Table 3: {variant} on {where}, {epochs} epochs, LR {rate:g} {decay}, "
                    f"weight decay {weight_decay:g}, dropout {dropout:g}."
                )
                configs[name] = function
    return configs


CONFIGS = _configs()
