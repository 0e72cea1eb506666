"""Quantization-aware fine-tunings of a trained classifier, which `--model` names."""

from ..config import DataConfig, ModelConfig, OptimizerConfig, QatConfig, TrainConfig


def photos():
    """A classifier of photos at 224 px: AdamW at 3e-7, 200 steps of 16 whole images, mirrored at random."""
    # AdamW moves each weight by the rate. On a ViT-S/14 whose loss was 0.0048 the gradient's sizes added up to 4217: at
    # 1e-6 the first step is as large as the loss, and at 2e-5 the loss rose tenfold.
    return QatConfig(
        data=DataConfig(image_size=(224, 224), crop_area=None),
        optimizer=OptimizerConfig("adamw", learning_rate=3e-7),
        train=TrainConfig(batch_size=16, steps=200),
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
