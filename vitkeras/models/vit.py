"""The Vision Transformer (paper section 3.1): image to class logits, readable on one screen.

Legend: B batch, h w patch grid, N = h * w patches, D hidden dimension, K classes.
"""

import keras

from vitkeras import layers
from vitkeras.layers.mlp import check_gelu
from vitkeras.models.weights import load_weights

CLASSIFIERS = ("token", "gap", "token_unpooled", "unpooled")
POSITION_EMBEDDINGS = ("learned_1d", "none")
POOLINGS = (None, *layers.token_pooling.POOLINGS)


def VisionTransformer(
    input_shape,
    patch_size,
    num_layers,
    hidden_dim,
    num_heads,
    mlp_dim,
    include_top=True,
    classes=1000,
    representation_size=None,
    classifier="token",
    position_embedding="learned_1d",
    dropout_rate=0.0,
    attention_dropout_rate=0.0,
    stochastic_depth_rate=0.0,
    activation="gelu_tanh",
    layer_norm_epsilon=1e-6,
    classifier_activation="softmax",
    weights=None,
    pooling=None,
    input_tensor=None,
    name=None,
):
    """Builds a Vision Transformer of any size as a functional `keras.Model` (paper section 3.1).

    The layers are named `patch_embedding`, `class_token`, `position_embedding`,
    `encoder_block_00`, ..., `encoder_norm`, `pool`, `pre_logits` and `head`. Images are expected
    as -1...1 (`vitkeras.preprocess_input`).

    Args:
        input_shape: (height, width, channels); height and width are multiples of the patch.
        patch_size: int or (height, width), in pixels.
        num_layers: int >= 1, encoder blocks.
        hidden_dim: int, D; a multiple of `num_heads`.
        num_heads: int.
        mlp_dim: int.
        include_top: bool, whether the classification head is built. Default True.
        classes: int, K; used with `include_top`. Default 1000.
        representation_size: int or None (default); the width of the tanh layer `pre_logits` before the head.
        classifier: "token" (class token, default), "gap" (global average, no class token),
            "token_unpooled" or "unpooled" (the head reads every token; with and without class token).
        position_embedding: "learned_1d" (default) or "none".
        dropout_rate: float in [0, 1), appendix B.1: after each dense layer but the qkv projections
            and after the position embedding. Default 0.
        attention_dropout_rate: float in [0, 1). Default 0.
        stochastic_depth_rate: float in [0, 1), of the last block; the others rise linearly from 0. Default 0.
        activation: "gelu_tanh" (default, the original's numbers) or "gelu" (erf: timm, Hugging Face, DINO).
        layer_norm_epsilon: float. Default 1e-6.
        classifier_activation: "softmax" (default), None for logits, or any Keras activation.
        weights: None (default, random) or the path of an `.npz` file in the original layout.
        pooling: None (default, all tokens), "token", "avg" or "max"; used without the head.
        input_tensor: optional Keras tensor to build on, of shape (B, *input_shape).
        name: str or None.

    Returns:
        A `keras.Model` from (B, height, width, channels) to (B, K), or to the features asked for.

    Raises:
        ValueError: for an argument outside its range; the message names it.

    Example:
        >>> model = VisionTransformer((32, 64, 3), 16, 2, 48, 3, 96, classes=7)
        >>> model.count_params()
        75751
    """
    _check("classifier", classifier, CLASSIFIERS)
    _check("position_embedding", position_embedding, POSITION_EMBEDDINGS)
    _check("pooling", pooling, POOLINGS)
    check_gelu(activation)
    _check_sizes(num_layers=num_layers, hidden_dim=hidden_dim, num_heads=num_heads, mlp_dim=mlp_dim)
    if include_top:
        _check_sizes(classes=classes)
    if representation_size is not None:
        _check_sizes(representation_size=representation_size)
    _check_rates(
        dropout_rate=dropout_rate,
        attention_dropout_rate=attention_dropout_rate,
        stochastic_depth_rate=stochastic_depth_rate,
    )
    if include_top and pooling is not None:
        raise ValueError(f"pooling is for include_top=False, received {pooling!r} with include_top=True.")

    image = _image_input(input_shape, input_tensor)
    grid = layers.PatchEmbedding(patch_size, hidden_dim, name="patch_embedding")(image)  # (B, h, w, D)
    x = keras.layers.Reshape((-1, hidden_dim), name="patch_tokens")(grid)  # (B, N, D)

    has_class_token = classifier in ("token", "token_unpooled")
    if has_class_token:
        x = layers.ClassToken(name="class_token")(x)  # (B, N + 1, D)
    if position_embedding == "learned_1d":
        grid_size = tuple(grid.shape[1:3])
        x = layers.PositionEmbedding(grid_size, int(has_class_token), name="position_embedding")(x)
    x = keras.layers.Dropout(dropout_rate, name="embedding_dropout")(x)

    for i in range(num_layers):
        x = layers.EncoderBlock(
            num_heads,
            mlp_dim,
            dropout_rate=dropout_rate,
            attention_dropout_rate=attention_dropout_rate,
            stochastic_depth_rate=stochastic_depth_rate * i / max(num_layers - 1, 1),
            activation=activation,
            layer_norm_epsilon=layer_norm_epsilon,
            name=f"encoder_block_{i:02d}",
        )(x)
    x = layers.LayerNorm(layer_norm_epsilon, name="encoder_norm")(x)

    if include_top:
        pooling = {"token": "token", "gap": "avg"}.get(classifier)
    if pooling is not None:
        x = layers.TokenPooling(pooling, int(has_class_token), name="pool")(x)  # (B, D)
    if include_top:
        if representation_size is not None:
            x = keras.layers.Dense(
                representation_size, activation="tanh", kernel_initializer="lecun_normal", name="pre_logits"
            )(x)
        x = zero_head(classes, classifier_activation)(x)  # (B, K)

    inputs = image if input_tensor is None else keras.utils.get_source_inputs(input_tensor)
    if isinstance(inputs, list) and len(inputs) == 1:
        inputs = inputs[0]  # a list would make Keras warn whenever the model gets a plain array
    model = keras.Model(inputs, x, name=name or "vision_transformer")
    if weights is not None:
        load_weights(model, weights, include_top)
    return model


def zero_head(classes, activation, dtype=None):
    """The linear classifier of fine-tuning: D x K, zero at initialisation (paper section 3.2)."""
    # The variable dtype: logits and softmax are float32 under mixed policies.
    dtype = keras.dtype_policies.get(dtype or keras.config.dtype_policy()).variable_dtype
    return keras.layers.Dense(classes, activation=activation, kernel_initializer="zeros", dtype=dtype, name="head")


def _check(argument, value, allowed):
    if value not in allowed:
        raise ValueError(f"{argument} must be one of {allowed}, received {value!r}.")


def _check_sizes(**sizes):
    for argument, value in sizes.items():
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"{argument} must be a positive int, received {value!r}.")


def _check_rates(**rates):
    for argument, value in rates.items():
        if not 0 <= value < 1:
            raise ValueError(f"{argument} must be in [0, 1), received {value!r}.")


def _image_input(input_shape, input_tensor):
    shape = tuple(input_shape) if input_tensor is None else tuple(input_tensor.shape[1:])
    if len(shape) != 3 or not all(isinstance(side, int) and side > 0 for side in shape):
        raise ValueError(f"input_shape must be (height, width, channels), all positive ints, received {shape}.")
    if input_tensor is None:
        return keras.Input(shape, name="image")
    if input_shape is not None and tuple(input_shape) != shape:
        raise ValueError(f"input_tensor has shape {shape}, which contradicts input_shape {tuple(input_shape)}.")
    return input_tensor
