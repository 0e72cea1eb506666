"""The Vision Transformer (paper section 3.1): image to class logits, readable on one screen.

Legend: B batch, h w patch grid, N = h * w patches, D hidden dimension, K classes.
"""

import keras

from vitkeras import layers
from vitkeras.checkpoints.sizes import Sizes
from vitkeras.layers.mlp import check_gelu
from vitkeras.layers.patch_embedding import pair
from vitkeras.layers.residual_unit import body_stride
from vitkeras.models.parts import (
    check_choice,
    check_epsilon,
    check_rates,
    check_sizes,
    check_top,
    check_units,
    image_input,
    model_input,
    zero_head,
)
from vitkeras.models.resnet import resnet_body
from vitkeras.models.weights import plan_weights

CLASSIFIERS = ("token", "gap", "token_unpooled", "unpooled")
POSITION_EMBEDDINGS = ("none", "learned_1d", "learned_2d", "relative")
DEFAULT_IMAGE_SIZE = 224  # pixels, of pre-training in the paper
POSITIONS_AT = ("stem", "every_layer", "every_layer_shared")
POOLINGS = (None, *layers.token_pooling.POOLINGS)


def VisionTransformer(
    input_shape,
    patch_size,
    num_layers,
    hidden_dim,
    num_heads,
    mlp_dim,
    include_top=True,
    classes=None,
    representation_size=None,
    classifier="token",
    position_embedding="learned_1d",
    position_embedding_at="stem",
    stem_blocks=None,
    stem_width_factor=1.0,
    dropout_rate=0.0,
    attention_dropout_rate=0.0,
    stochastic_depth_rate=0.0,
    activation=None,
    layer_norm_epsilon=None,
    classifier_activation="softmax",
    weights=None,
    pooling=None,
    input_tensor=None,
    grid_size=None,
    name=None,
):
    """Builds a Vision Transformer of any size as a functional `keras.Model` (paper section 3.1).

    The layers are named `patch_embedding` (a hybrid's stem before it, see `resnet_body`), `class_token`,
    `position_embedding`, `encoder_block_00`, ..., `encoder_norm`, `pool`, `pre_logits` and `head`. Images are expected
    as -1...1 (`vitkeras.preprocess_input`).

    Args:
        input_shape: (height, width, channels); height and width are multiples of the patch. None for height and width
            makes a model for images of any size, which resizes its position embedding inside the graph.
        patch_size: int or (height, width), in pixels, or in positions of the stem's map.
        num_layers: int >= 1, encoder blocks.
        hidden_dim: int, D; a multiple of `num_heads`.
        num_heads: int.
        mlp_dim: int.
        include_top: bool, whether the classification head is built. Default True.
        classes: int or None, K; used with `include_top`. Default None: the head of the weights file, 1000 without a
            file. Another number than the file's keeps its backbone and makes a head of zeros.
        representation_size: int or None (default); the width of the tanh layer `pre_logits` before the head.
        classifier: "token" (class token, default), "gap" (global average, no class token),
            "token_unpooled" or "unpooled" (the head reads every token; with and without class token).
        position_embedding: "learned_1d" (default), "learned_2d" (an X and a Y half), "relative" (a bias of every
            layer's attention) or "none"; appendix D.4.
        position_embedding_at: where the learned ones are added: "stem" (default, after the patch embedding),
            "every_layer" (before each block, one a block) or "every_layer_shared" (before each block, the same one).
        stem_blocks: None (default), or units a stage of the ResNet that the patches are cut from, such as (3, 4, 9):
            the hybrid architecture; (): its root alone.
        stem_width_factor: float, multiplies the stem's widths. Default 1.
        dropout_rate: float in [0, 1), appendix B.1: after each dense layer but the qkv projections
            and after the position embedding. Default 0.
        attention_dropout_rate: float in [0, 1). Default 0.
        stochastic_depth_rate: float in [0, 1), of the last block; the others rise linearly from 0. Default 0.
        activation: "gelu_tanh" (the original's numbers) or "gelu" (erf: timm, Hugging Face, DINO). Default None: what
            the weights file says of itself, "gelu_tanh" where it doesn't.
        layer_norm_epsilon: float or None (default): what the weights file says of itself, 1e-6 where it doesn't.
        classifier_activation: "softmax" (default), None for logits, or any Keras activation.
        weights: None (default, random), a file or folder that `load_checkpoint` takes, or an http(s) address.
        pooling: None (default, all tokens), "token", "avg" or "max"; used without the head.
        input_tensor: optional Keras tensor to build on, of shape (B, *input_shape).
        grid_size: (h, w) of the stored position embedding in a model for any image size; default that of 224 pixels.
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
    check_choice("classifier", classifier, CLASSIFIERS)
    check_choice("position_embedding", position_embedding, POSITION_EMBEDDINGS)
    check_choice("position_embedding_at", position_embedding_at, POSITIONS_AT)
    if position_embedding in ("none", "relative") and position_embedding_at != "stem":
        raise ValueError(
            f"position_embedding_at is for the learned position embeddings, received {position_embedding_at!r} with "
            f"position_embedding={position_embedding!r}."
        )
    if stem_blocks is None and stem_width_factor != 1.0:
        raise ValueError(f"stem_width_factor is for stem_blocks, received {stem_width_factor!r} without them.")
    check_sizes(num_layers=num_layers, hidden_dim=hidden_dim, num_heads=num_heads, mlp_dim=mlp_dim)
    if stem_blocks is not None:
        check_units(stem_blocks=stem_blocks)
    sizes = Sizes(num_layers, hidden_dim, mlp_dim, None if stem_blocks is None else tuple(stem_blocks))
    plan = plan_weights(weights, include_top, classes, activation, layer_norm_epsilon, sizes)
    classes, activation, layer_norm_epsilon = plan.classes, plan.activation, plan.layer_norm_epsilon
    check_gelu(activation)
    check_epsilon(layer_norm_epsilon)
    check_top(include_top, classes, pooling, POOLINGS)
    if representation_size is not None:
        check_sizes(representation_size=representation_size)
    check_rates(
        dropout_rate=dropout_rate,
        attention_dropout_rate=attention_dropout_rate,
        stochastic_depth_rate=stochastic_depth_rate,
    )

    image = image_input(input_shape, input_tensor)
    x = image if stem_blocks is None else resnet_body(image, stem_blocks, stem_width_factor, prefix="stem_")
    patch = layers.PatchEmbedding(patch_size, hidden_dim, name="patch_embedding")
    sides = tuple(x.shape[1:3])
    if stem_blocks is not None and any(n is not None and (n % p or not n) for n, p in zip(sides, patch.patch_size)):
        raise ValueError(
            f"input_shape {tuple(image.shape[1:])} makes a map of {sides} behind the stem, which must be a multiple of "
            f"the patch size {patch.patch_size}."
        )
    grid = patch(x)  # (B, h, w, D)
    x = keras.layers.Reshape((-1, hidden_dim), name="patch_tokens")(grid)  # (B, N, D)

    if position_embedding == "relative" and None in grid.shape[1:3]:
        raise ValueError(f"input_shape must be known for relative positions, received {tuple(image.shape[1:])}.")

    has_class_token = classifier in ("token", "token_unpooled")
    if pooling == "token" and not has_class_token:
        raise ValueError(f"pooling='token' needs a class token, received classifier={classifier!r}.")
    if has_class_token:
        x = layers.ClassToken(name="class_token")(x)  # (B, N + 1, D)
    prefix = int(has_class_token)
    if grid_size is None and None in grid.shape[1:3]:
        stride = 1 if stem_blocks is None else body_stride(stem_blocks)
        grid_size = tuple(max(1, -(-DEFAULT_IMAGE_SIZE // stride) // side) for side in patch.patch_size)
    add_positions = _positions(position_embedding, position_embedding_at, grid, grid_size, prefix)
    x = add_positions(x, 0)
    x = keras.layers.Dropout(dropout_rate, name="embedding_dropout")(x)

    for i in range(num_layers):
        if i and position_embedding_at != "stem":
            x = add_positions(x, i)
        x = layers.EncoderBlock(
            num_heads,
            mlp_dim,
            dropout_rate=dropout_rate,
            attention_dropout_rate=attention_dropout_rate,
            stochastic_depth_rate=stochastic_depth_rate * i / max(num_layers - 1, 1),
            activation=activation,
            layer_norm_epsilon=layer_norm_epsilon,
            relative_positions=position_embedding == "relative",
            num_prefix_tokens=prefix,
            name=f"encoder_block_{i:02d}",
        )(x)
    x = layers.LayerNorm(layer_norm_epsilon, name="encoder_norm")(x)

    if include_top:
        pooling = {"token": "token", "gap": "avg"}.get(classifier)
    if pooling is not None:
        x = layers.TokenPooling(pooling, prefix, name="pool")(x)  # (B, D)
    if include_top:
        if representation_size is not None:
            x = keras.layers.Dense(
                representation_size, activation="tanh", kernel_initializer="lecun_normal", name="pre_logits"
            )(x)
        x = zero_head(classes, classifier_activation)(x)  # (B, K)

    return plan.load(keras.Model(model_input(image), x, name=name or "vision_transformer"))


def _positions(kind, at, grid, grid_size, num_prefix_tokens):
    """Returns a function of (tokens, index of the block) that adds the learned position embedding (appendix D.4)."""
    if kind not in ("learned_1d", "learned_2d"):
        return lambda x, i: x
    layer_class = {"learned_1d": layers.PositionEmbedding, "learned_2d": layers.PositionEmbedding2D}[kind]
    known = tuple(grid.shape[1:3])
    resizes = None in known
    if grid_size is not None and not resizes and pair(grid_size, "grid_size") != known:
        raise ValueError(f"grid_size must be {known}, the grid of input_shape, received {grid_size}.")
    size = grid_size if resizes else known
    made = {}

    def add(x, i):
        name = "position_embedding" if at != "every_layer" else f"position_embedding_{i:02d}"
        if name not in made:
            made[name] = layer_class(size, num_prefix_tokens, name=name)
        return made[name](x, grid) if resizes else made[name](x)

    return add
