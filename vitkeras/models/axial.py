"""Axial-ViT (paper appendix D.6): every block attends along rows, then along columns.

Legend: B batch, h w patch grid, N = h * w patches, D hidden dimension, K classes. AxialResNet is in `resnet.py`.
"""

import keras

from vitkeras import layers
from vitkeras.layers.mlp import check_gelu
from vitkeras.models.parts import (
    check_epsilon,
    check_rates,
    check_sizes,
    check_top,
    image_input,
    model_input,
    zero_head,
)
from vitkeras.models.weights import plan_weights

POOLINGS = (None, "avg", "max")


def AxialViT(
    input_shape,
    patch_size,
    num_layers,
    hidden_dim,
    num_heads,
    mlp_dim,
    include_top=True,
    classes=None,
    dropout_rate=0.0,
    attention_dropout_rate=0.0,
    stochastic_depth_rate=0.0,
    activation=None,
    layer_norm_epsilon=None,
    classifier_activation="softmax",
    weights=None,
    pooling=None,
    input_tensor=None,
    name=None,
):
    """Builds an Axial-ViT of any size as a functional `keras.Model` (paper appendix D.6).

    The patches stay a map, so that there is no class token: the head reads the global average. Each block is a row
    block (attention and MLP) and a column block. Layers: `patch_embedding`, `position_embedding`,
    `encoder_block_00`, ..., `encoder_norm`, `pool`, `head`. Images are expected as -1...1
    (`vitkeras.preprocess_input`).

    Args:
        input_shape: (height, width, channels); height and width are multiples of the patch.
        patch_size, num_layers, hidden_dim, num_heads, mlp_dim, include_top, classes, dropout_rate,
            attention_dropout_rate, stochastic_depth_rate, activation, layer_norm_epsilon, classifier_activation,
            weights, input_tensor, name: as in `VisionTransformer`.
        pooling: None (default, all tokens), "avg" or "max"; used without the head.

    Returns:
        A `keras.Model` from (B, height, width, channels) to (B, K), or to the features asked for.

    Raises:
        ValueError: for an argument outside its range; the message names it.

    Example:
        >>> AxialViT((32, 64, 3), 16, 2, 48, 3, 96, classes=7).output_shape
        (None, 7)
    """
    check_no_weights(weights)
    plan = plan_weights(weights, include_top, classes, activation, layer_norm_epsilon)
    classes, activation, layer_norm_epsilon = plan.classes, plan.activation, plan.layer_norm_epsilon
    check_gelu(activation)
    check_epsilon(layer_norm_epsilon)
    check_sizes(num_layers=num_layers, hidden_dim=hidden_dim, num_heads=num_heads, mlp_dim=mlp_dim)
    check_top(include_top, classes, pooling, POOLINGS)
    check_rates(
        dropout_rate=dropout_rate,
        attention_dropout_rate=attention_dropout_rate,
        stochastic_depth_rate=stochastic_depth_rate,
    )
    image = image_input(input_shape, input_tensor)
    grid = layers.PatchEmbedding(patch_size, hidden_dim, name="patch_embedding")(image)  # (B, h, w, D)
    sides = tuple(grid.shape[1:3])
    if None in sides:
        raise ValueError(f"input_shape must be known for an Axial-ViT, received {tuple(image.shape[1:])}.")
    x = layers.PositionEmbedding(sides, 0, name="position_embedding")(grid)
    x = keras.layers.Dropout(dropout_rate, name="embedding_dropout")(x)
    for i in range(num_layers):
        x = layers.AxialEncoderBlock(
            num_heads,
            mlp_dim,
            dropout_rate=dropout_rate,
            attention_dropout_rate=attention_dropout_rate,
            stochastic_depth_rate=stochastic_depth_rate * i / max(num_layers - 1, 1),
            activation=activation,
            layer_norm_epsilon=layer_norm_epsilon,
            name=f"encoder_block_{i:02d}",
        )(x)
    x = keras.layers.Reshape((-1, hidden_dim), name="tokens")(x)  # (B, N, D)
    x = layers.LayerNorm(layer_norm_epsilon, name="encoder_norm")(x)
    if include_top:
        pooling = "avg"
    if pooling is not None:
        x = layers.TokenPooling(pooling, 0, name="pool")(x)  # (B, D)
    if include_top:
        x = zero_head(classes, classifier_activation)(x)  # (B, K)
    return plan.load(keras.Model(model_input(image), x, name=name or "axial_vit"))


def check_no_weights(weights):
    """Raises ValueError unless `weights` is None: no checkpoint layout has a place for an Axial-ViT."""
    if weights is not None:
        raise ValueError(
            "weights must be None for an axial model, which no checkpoint layout has a place for, received "
            f"{weights!r}; keep one with model.save and load it with keras.saving.load_model."
        )
