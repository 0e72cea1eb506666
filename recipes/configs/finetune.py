"""Fine-tuning configurations (paper section 3.2, appendix B.1.1)."""

from ..config import DataConfig, FinetuneConfig, ModelConfig, OptimizerConfig, TrainConfig


def photos():
    """Your own photos: ViT-B/16 with AugReg weights at 224 px, SGD momentum 0.9, cosine, clip 1 (as Table 4)."""
    return FinetuneConfig(
        data=DataConfig(image_size=(224, 224)),
        model=ModelConfig("vit_b16", weights="augreg"),
        optimizer=OptimizerConfig("sgd", learning_rate=0.003),
        train=TrainConfig(batch_size=32, epochs=10),
    )


def photos_s14():
    """Photos with self-supervised ViT-S/14 weights (erf GELU, ImageNet-normalised input): give them with --weights."""
    return FinetuneConfig(
        data=DataConfig(image_size=(224, 224), crop_area=(0.25, 1.0)),
        model=ModelConfig("vit_s16", patch_size=14, activation="gelu", weights_input="imagenet"),
        optimizer=OptimizerConfig("sgd", learning_rate=0.01),
        train=TrainConfig(batch_size=32, epochs=3),
    )


def digits():
    """Scikit-learn's 8x8 digits from scratch: a 4-layer ViT of patch 8 at 32 px, 1 to 2 minutes on two CPU cores."""
    return FinetuneConfig(
        data=DataConfig("digits", image_size=(32, 32), crop_area=(0.6, 1.0), flip=False),
        model=ModelConfig("vit_ti16", patch_size=8, num_layers=4, hidden_dim=96, num_heads=3, mlp_dim=192),
        optimizer=OptimizerConfig("adamw", learning_rate=1e-3, weight_decay=0.05),
        train=TrainConfig(batch_size=64, epochs=80, log_every=50, evaluate_every=200),
    )


CONFIGS = {function.__name__: function for function in (photos, photos_s14, digits)}
