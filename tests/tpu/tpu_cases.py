"""What the TPU tests trace: one function a task, which returns (model, task, input specs, target specs)."""

import tensorflow as tf

import vitkeras
from vitkeras.training import Classification, MaskedPatchPrediction, masked_patch_model

BATCH = 4  # of one replica
IMAGE = (16, 48, 3)
SIZES = dict(patch_size=16, num_layers=1, hidden_dim=24, num_heads=3, mlp_dim=48)
RATES = dict(dropout_rate=0.1, attention_dropout_rate=0.1, stochastic_depth_rate=0.1)
SPEC = tf.TensorSpec((BATCH, *IMAGE), tf.float32)
LABELS = tf.TensorSpec((BATCH,), tf.int32)


def vit(**kwargs):
    return vitkeras.VisionTransformer(IMAGE, classes=7, classifier_activation=None, **{**SIZES, **RATES, **kwargs})


def softmax():
    return vit(), Classification(label_smoothing=0.1), SPEC, LABELS


def sigmoid_of_mixed_targets():
    return vit(classifier="gap"), Classification("sigmoid"), SPEC, tf.TensorSpec((BATCH, 7), tf.float32)


def two_dimensional_positions():
    return vit(position_embedding="learned_2d"), Classification(), SPEC, LABELS


def relative_positions():
    return vit(position_embedding="relative"), Classification(), SPEC, LABELS


def hybrid():
    model = vit(patch_size=1, stem_blocks=(1,), stem_width_factor=0.5)
    return model, Classification(), SPEC, LABELS


def resnet():
    model = vitkeras.models.ResNet((32, 64, 3), blocks=(1, 1), width_factor=0.5, classes=7, classifier_activation=None)
    return model, Classification(), tf.TensorSpec((BATCH, 32, 64, 3), tf.float32), LABELS


def axial():
    model = vitkeras.models.AxialViT(
        IMAGE, patch_size=8, num_layers=1, hidden_dim=24, num_heads=3, mlp_dim=48, classes=7, classifier_activation=None
    )
    return model, Classification(), SPEC, LABELS


def masked_patches(target="mean_color", classifier="token"):
    backbone = vit(patch_size=8, num_layers=1, include_top=False, classifier=classifier)  # 2 x 6 patches
    inputs = {
        "image": SPEC,
        "sources": tf.TensorSpec((BATCH, 12), tf.int32),
        "positions": tf.TensorSpec((BATCH, 6), tf.int32),
    }
    shape, dtype = {
        "mean_color": ((BATCH, 6), tf.int32),
        "color_4x4": ((BATCH, 6, 16), tf.int32),
        "pixels": ((BATCH, 6, 8 * 8 * 3), tf.float32),
    }[target]
    return masked_patch_model(backbone, target), MaskedPatchPrediction(target), inputs, tf.TensorSpec(shape, dtype)


def masked_colors_without_class_token():
    return masked_patches("color_4x4", "gap")


def masked_pixels():
    return masked_patches("pixels")
