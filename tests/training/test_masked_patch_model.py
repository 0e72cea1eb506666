"""Masked-patch prediction: the model, and the backbone that is taken from it afterwards."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from masked_patch_cases import D, N, P, Q, W, backbone, dataset, first, images, model_for

import vitkeras
from vitkeras.training import Engine, MaskedPatchPrediction, masked_patch_model, pretrained_backbone
from vitkeras.training.masked_patch_batches import corruption_counts


@pytest.mark.parametrize(
    "kwargs",
    [
        dict(classifier="token"),
        dict(classifier="gap"),
        dict(position_embedding="learned_2d"),
        dict(position_embedding="relative", classifier="gap"),
        dict(position_embedding="none"),
        dict(position_embedding_at="every_layer"),
        dict(position_embedding_at="every_layer_shared"),
    ],
    ids=str,
)
def test_forward_equals_the_backbone_with_patches_exchanged_by_hand(kwargs, assert_close):
    model, plain = model_for(**kwargs), backbone(**kwargs)
    for layer in plain.layers:
        for weight, trained in zip(layer.weights, model.get_layer(layer.name).weights if layer.weights else ()):
            weight.assign(trained)
    inputs, _ = first(dataset())
    patches = keras.Model(plain.input, plain.get_layer("patch_tokens").output)(inputs["image"]).numpy()
    token = model.get_layer("corrupt_patches").mask_token.numpy()
    for patch, source in zip(patches, inputs["sources"]):
        before = patch.copy()
        for i, other in enumerate(source):
            patch[i] = token if other < 0 else before[other]
    encode = keras.Model(plain.get_layer("patch_tokens").output, plain.output)
    tokens = encode(patches).numpy()[:, int(kwargs.get("classifier") != "gap") :]
    head = model.get_layer("patch_predictions")
    picked = np.stack([row[position] for row, position in zip(tokens, inputs["positions"])])
    assert_close(model(inputs), picked @ head.kernel.numpy() + head.bias.numpy(), atol=2e-5)


def test_a_masked_patch_is_not_seen_and_keeps_its_position():
    model, (inputs, _) = model_for(), first(dataset())
    before = model(inputs).numpy()
    patch = int(inputs["positions"][0, 0])
    assert patch not in inputs["sources"][0]
    row, column = divmod(patch, W // Q)
    inputs["image"][0, row * P : (row + 1) * P, column * Q : (column + 1) * Q] = 0.9
    np.testing.assert_array_equal(model(inputs).numpy(), before)
    masked = before[0, : corruption_counts(N)[0]]
    assert np.abs(masked - masked[0]).max(axis=1)[1:].min() > 1e-3  # only positions tell masked patches apart


def test_backbone_and_model_share_weights_and_the_backbone_still_works():
    plain = backbone()
    model = masked_patch_model(plain)
    x, before = images(2), plain(images(2)).numpy()
    model.get_layer("encoder_norm").bias.assign(np.ones(D))
    np.testing.assert_allclose(plain(x).numpy(), before + 1, atol=1e-5)
    assert vitkeras.features(plain, (0, 1)).outputs[0].shape == (None, 3, 11, D)


@pytest.mark.parametrize("classifier", ["token", "gap"])
def test_the_backbone_is_a_plain_vit_with_the_trained_weights(classifier, tmp_path, assert_close):
    model = model_for(classifier=classifier)
    model.save(tmp_path / "masked.keras")
    model = keras.saving.load_model(tmp_path / "masked.keras")
    x = images(3)
    inputs = {
        "image": x,
        "sources": np.tile(np.arange(N, dtype="int32"), (3, 1)),
        "positions": np.tile(np.arange(N, dtype="int32"), (3, 1)),
    }
    tokens = keras.Model(model.input, model.get_layer("encoder_norm").output)(inputs).numpy()
    features = pretrained_backbone(model)
    assert_close(features(x), tokens[:, 0] if classifier == "token" else tokens.mean(axis=1), atol=2e-6)
    with_head = pretrained_backbone(model, classes=7)
    names = [layer.name for layer in with_head.layers]
    plain = backbone(classifier=classifier, include_top=True, classes=7)
    assert names == [layer.name for layer in plain.layers]
    np.testing.assert_allclose(with_head(x).numpy(), 1 / 7, atol=1e-6)
    path = vitkeras.save_checkpoint(features, tmp_path / "backbone.npz")
    vitkeras.load_checkpoint(plain, path, load_head=False)
    for weight, other in zip(plain.weights, with_head.weights):
        np.testing.assert_array_equal(weight.numpy(), other.numpy(), err_msg=weight.path)
    model.get_layer("encoder_norm").bias.assign(np.ones(D))
    assert not features.get_layer("encoder_norm").bias.numpy().all()  # its own copy


def test_refused_models():
    hybrid = vitkeras.VisionTransformer((64, 96, 3), 1, 1, 12, 2, 24, stem_blocks=(1, 1), stem_width_factor=0.5)
    with pytest.raises(ValueError, match="must cut its patches from the image itself, 'vision_transformer' has a stem"):
        masked_patch_model(hybrid)
    with pytest.raises(ValueError, match="backbone must have a fixed image size, received input shape"):
        masked_patch_model(vitkeras.VisionTransformer((None, None, 3), 7, 1, 12, 2, 24, include_top=False))
    with pytest.raises(ValueError, match="backbone must be a Vision Transformer of this library"):
        masked_patch_model(keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)]))
    with pytest.raises(ValueError, match="must come from masked_patch_model, 'vision_transformer' has no"):
        pretrained_backbone(backbone())
    with pytest.raises(ValueError, match="must come from masked_patch_model, 'vision_transformer' has no"):
        Engine(backbone(), task=MaskedPatchPrediction())
    with pytest.raises(ValueError, match="must predict 8192 values a patch for target 'color_4x4', received 512"):
        Engine(masked_patch_model(backbone()), task=MaskedPatchPrediction("color_4x4"))
    with pytest.raises(ValueError, match=r"targets of 'mean_color' must have shape \(2, 7\) .* received \(2, 5\)"):
        MaskedPatchPrediction()(tf.zeros((2, 7, 512)), tf.zeros((2, 5), tf.int32))
