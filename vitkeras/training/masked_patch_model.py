"""The model of masked-patch prediction, made from a ViT, and the ViT back from it (paper appendix B.1.2).

Legend: B batch, N patches, M corrupted patches, D hidden dimension, V predicted values of a patch.
"""

import keras

from vitkeras import layers, models
from vitkeras.training.patch_targets import prediction_size

HEAD = "patch_predictions"


def masked_patch_model(backbone, target="mean_color", name=None):
    """Builds the model that says what corrupted patches were, on the layers of a Vision Transformer.

    The patch embeddings go through `CorruptPatches`, then class token, position embedding and encoder follow as in
    the backbone; the representations of the corrupted patches are picked and one linear layer, zero at
    initialisation, predicts from each. Pooling and head of the backbone are left out. The layers are shared: training
    this model trains `backbone`.

    Args:
        backbone: a model of `VisionTransformer` or one of the plain variants, with or without class token and head,
            for images of one size. Hybrids and axial models are refused: their stem mixes neighbouring patches before
            they are corrupted, so that a masked patch can be read off its neighbours.
        target: "mean_color" (default), "color_4x4" or "pixels"; see `masked_patch_batches`.
        name: str or None.

    Returns:
        A `keras.Model` from {"image" (B, H, W, C), "sources" int (B, N), "positions" int (B, M)} to (B, M, V).

    Raises:
        ValueError: for an unknown target, or a backbone of another kind.

    Example:
        >>> backbone = vitkeras.VisionTransformer((21, 25, 3), (7, 5), 2, 48, 3, 96)
        >>> masked_patch_model(backbone).output_shape
        (None, None, 512)
    """
    patch = _patch_embedding(backbone)
    height, width, channels = backbone.input_shape[1:]
    size = prediction_size(target, patch.patch_size, channels)
    count = (height // patch.patch_size[0]) * (width // patch.patch_size[1])
    image = keras.Input((height, width, channels), name="image")
    sources = keras.Input((count,), dtype="int32", name="sources")
    positions = keras.Input((None,), dtype="int32", name="positions")
    policy, x = patch.dtype_policy, image
    for layer in _encoder(backbone):
        x = layer(x)
        if layer.name == "patch_tokens":
            x = layers.CorruptPatches(dtype=policy, name="corrupt_patches")(x, sources)  # (B, N, D)
    x = layers.PickTokens(_num_prefix_tokens(backbone), dtype=policy, name="pick_tokens")(x, positions)  # (B, M, D)
    # The variable dtype: predictions are float32 under mixed policies, as those of a classification head.
    x = keras.layers.Dense(size, kernel_initializer="zeros", dtype=policy.variable_dtype, name=HEAD)(x)  # (B, M, V)
    inputs = {"image": image, "sources": sources, "positions": positions}
    return keras.Model(inputs, x, name=name or f"masked_patch_{backbone.name}")


def pretrained_backbone(model, classes=None, classifier_activation="softmax"):
    """Returns the plain Vision Transformer out of a model of masked-patch prediction, for fine-tuning.

    Args:
        model: from `masked_patch_model`, also if it was saved and loaded.
        classes: int, width of a new linear head that is zero at initialisation; or None (default) for no head: the
            model then gives the features (B, D) that a head reads, class token or average.
        classifier_activation: "softmax" (default), or None for logits; used with `classes`.

    Returns:
        A new `keras.Model` with copied weights, which `save_checkpoint` takes.

    Raises:
        ValueError: if the model is of another kind, or `classes` isn't a positive int.

    Example:
        >>> backbone = vitkeras.VisionTransformer((21, 25, 3), (7, 5), 2, 48, 3, 96)
        >>> pretrained_backbone(masked_patch_model(backbone), classes=7).output_shape
        (None, 7)
    """
    if HEAD not in [layer.name for layer in model.layers]:
        raise ValueError(f"model must come from masked_patch_model, {model.name!r} has no {HEAD}.")
    prefix = _num_prefix_tokens(model)
    image = keras.Input(model.input["image"].shape[1:], name="image")
    x, policy = image, model.get_layer("patch_embedding").dtype_policy
    for layer in _encoder(model):
        x = layer(x)
    x = layers.TokenPooling("token" if prefix else "avg", prefix, dtype=policy, name="pool")(x)
    shared = keras.Model(image, x, name=model.name.removeprefix("masked_patch_"))
    if classes is not None:
        return models.with_new_head(shared, classes, classifier_activation)
    own = keras.models.clone_model(shared)
    for old, new in zip(shared.variables, own.variables, strict=True):
        new.assign(old)
    return own


def _encoder(model):
    """The layers from the image to `encoder_norm` in the order of their calls, without the corruption.

    A layer that is called twice, such as a position embedding shared by all blocks, is listed twice.
    """
    for depth in sorted(model._nodes_by_depth, reverse=True):
        for node in model._nodes_by_depth[depth]:
            layer = node.operation
            if isinstance(layer, (keras.layers.InputLayer, layers.CorruptPatches)):
                continue
            yield layer
            if layer.name == "encoder_norm":
                return


def _num_prefix_tokens(model):
    return sum(isinstance(layer, layers.ClassToken) for layer in model.layers)


def _patch_embedding(backbone):
    """The backbone's patch embedding, or a ValueError that says why masked patches make no sense there."""
    names = [layer.name for layer in getattr(backbone, "layers", ())]
    if not {"patch_embedding", "patch_tokens", "encoder_norm"} <= set(names):
        raise ValueError(f"backbone must be a Vision Transformer of this library, received {backbone!r}.")
    patch = backbone.get_layer("patch_embedding")
    if patch.input is not backbone.input:
        raise ValueError(
            f"backbone must cut its patches from the image itself, {backbone.name!r} has a stem before them, through "
            "which a masked patch would still be seen by its neighbours."
        )
    if None in backbone.input_shape[1:]:
        raise ValueError(f"backbone must have a fixed image size, received input shape {backbone.input_shape}.")
    return patch
