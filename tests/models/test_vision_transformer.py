"""`VisionTransformer`: the whole forward pass, its shapes, and its contract as a Keras model."""

import keras
import numpy as np
import numpy_reference as reference
import pytest
from backends import compiled, gradients, randomise
from tiny_vit import DIM, HEADS, SHAPE, numpy, tiny


@pytest.fixture
def images(rng):
    return rng.uniform(-1, 1, size=(2, *SHAPE)).astype("float32")


def arrays_of(model):
    """The model's weights in the original's names, read off the layers by hand."""

    def dense(prefix, layer, shape=None, bias_shape=None):
        kernel, bias = numpy(layer.kernel), numpy(layer.bias)
        return {
            f"{prefix}/kernel": kernel.reshape(shape or kernel.shape),
            f"{prefix}/bias": bias.reshape(bias_shape or bias.shape),
        }

    def norm(prefix, layer):
        return {f"{prefix}/scale": numpy(layer.scale), f"{prefix}/bias": numpy(layer.bias)}

    names, d = [layer.name for layer in model.layers], DIM // HEADS
    arrays = dense("embedding", model.get_layer("patch_embedding").projection)
    if "class_token" in names:
        arrays["cls"] = numpy(model.get_layer("class_token").token)
    if "position_embedding" in names:
        key = "Transformer/posembed_input/pos_embedding"
        arrays[key] = numpy(model.get_layer("position_embedding").embedding)
    for i in range(sum(name.startswith("encoder_block") for name in names)):
        block, prefix = model.get_layer(f"encoder_block_{i:02d}"), f"Transformer/encoderblock_{i}"
        part = f"{prefix}/MultiHeadDotProductAttention_1"
        for name in ("query", "key", "value"):
            arrays |= dense(f"{part}/{name}", getattr(block.attention, name), (DIM, HEADS, d), (HEADS, d))
        arrays |= dense(f"{part}/out", block.attention.out, (HEADS, d, DIM))
        arrays |= norm(f"{prefix}/LayerNorm_0", block.attention_norm) | norm(f"{prefix}/LayerNorm_2", block.mlp_norm)
        arrays |= dense(f"{prefix}/MlpBlock_3/Dense_0", block.mlp.expand)
        arrays |= dense(f"{prefix}/MlpBlock_3/Dense_1", block.mlp.project)
    arrays |= norm("Transformer/encoder_norm", model.get_layer("encoder_norm"))
    for name in ("pre_logits", "head"):
        if name in names:
            arrays |= dense(name, model.get_layer(name))
    return arrays


@pytest.mark.parametrize(
    "arguments",
    [
        dict(),
        dict(representation_size=17),
        dict(activation="gelu", layer_norm_epsilon=1e-3),
        dict(classifier="gap"),
        dict(classifier="gap", position_embedding="none", num_layers=1),
    ],
    ids=str,
)
def test_equals_an_independent_numpy_forward(arguments, images, assert_close):
    model = randomise(tiny(**arguments))
    expected = reference.vision_transformer(
        arrays_of(model),
        images,
        HEADS,
        kind=arguments.get("activation", "gelu_tanh"),
        epsilon=arguments.get("layer_norm_epsilon", 1e-6),
    )
    assert np.abs(expected["logits"]).max() > 0.5
    assert_close(model(images), expected["logits"], atol=2e-5)


def test_a_missing_order_of_heads_would_fail_that_test(images, assert_close):
    model = randomise(tiny())
    expected = reference.vision_transformer(arrays_of(model), images, heads=1)
    with pytest.raises(AssertionError, match="max abs difference"):
        assert_close(model(images), expected["logits"], atol=2e-5)


@pytest.mark.parametrize(
    "arguments, shape",
    [
        (dict(), (None, 13)),
        (dict(classifier="gap"), (None, 13)),
        (dict(classifier="token_unpooled"), (None, 78, 13)),
        (dict(classifier="unpooled"), (None, 77, 13)),
        (dict(include_top=False), (None, 78, DIM)),
        (dict(include_top=False, classifier="gap"), (None, 77, DIM)),
        (dict(include_top=False, pooling="token"), (None, DIM)),
        (dict(include_top=False, pooling="avg"), (None, DIM)),
        (dict(include_top=False, pooling="max"), (None, DIM)),
        (dict(include_top=False, representation_size=17, pooling="avg"), (None, DIM)),
        (dict(representation_size=17), (None, 13)),
    ],
    ids=str,
)
def test_output_shapes(arguments, shape, images):
    model = tiny(**arguments)
    assert model.output_shape == shape
    assert tuple(model(images).shape) == (2, *shape[1:])


@pytest.mark.parametrize("pooling", ["token", "avg", "max"])
def test_pooling_reads_the_tokens_that_it_names(pooling, images, assert_close):
    tokens_model, pooled_model = (randomise(tiny(include_top=False, pooling=p)) for p in (None, pooling))
    tokens = numpy(tokens_model(images))
    expected = {"token": tokens[:, 0], "avg": tokens[:, 1:].mean(1), "max": tokens[:, 1:].max(1)}[pooling]
    assert_close(pooled_model(images), expected, atol=2e-6)


@pytest.mark.parametrize("classifier, pooled", [("token_unpooled", "token"), ("unpooled", "gap")])
def test_the_unpooled_head_reads_each_token_as_the_pooled_one_reads_its(classifier, pooled, images, assert_close):
    scores = numpy(randomise(tiny(classifier=classifier))(images))
    expected = randomise(tiny(classifier=pooled))(images)
    # The head is linear, so the mean of its scores is the score of the mean.
    assert_close(scores[:, 0] if pooled == "token" else scores.mean(1), expected, atol=5e-6)


def test_the_head_starts_at_zero_so_all_classes_start_equal(images):
    model = tiny()
    assert not any(numpy(w).any() for w in model.get_layer("head").weights)
    assert not numpy(model(images)).any()
    np.testing.assert_allclose(
        numpy(tiny(classifier_activation="softmax")(images)), np.full((2, 13), 1 / 13), rtol=1e-6
    )


def test_layer_names_are_those_of_the_golden_list(golden):
    listed = (golden.path("x").parent / "layer_names.txt").read_text().split()
    names = [layer.name for layer in tiny(representation_size=17).layers]
    assert names == listed, (
        "layer names are public (saved files and user code hold them); a change needs a CHANGELOG line"
    )


def test_without_position_embedding_permuting_patches_permutes_the_outputs(rng, assert_close):
    model = randomise(tiny(position_embedding="none", include_top=False))
    patches = rng.uniform(-1, 1, size=(77, 3, 5, 2)).astype("float32")
    order = rng.permutation(77)

    def image(patches):
        return patches.reshape(7, 11, 3, 5, 2).transpose(0, 2, 1, 3, 4).reshape(1, *SHAPE)

    plain, permuted = numpy(model(image(patches))), numpy(model(image(patches[order])))
    assert_close(permuted[:, 1:], plain[:, 1:][:, order], atol=1e-5)
    assert_close(permuted[:, 0], plain[:, 0], atol=1e-5)
    located = randomise(tiny(include_top=False))
    with pytest.raises(AssertionError, match="max abs difference"):
        assert_close(located(image(patches[order]))[:, 0], located(image(patches))[:, 0], atol=1e-3)


def test_examples_of_a_batch_do_not_see_each_other(images, assert_close):
    model = randomise(tiny())
    assert_close(model(images[1:]), numpy(model(images))[1:], atol=5e-6)


def test_gradients_reach_every_weight(images, whole):
    by_weight, by_input = gradients(whole(randomise(tiny(representation_size=17))), images)
    assert len(by_weight) == 2 + 1 + 1 + 2 * 16 + 2 + 2 + 2
    for path, gradient in [*by_weight.items(), ("input", by_input)]:
        assert gradient is not None and np.isfinite(gradient).all(), path
        if not path.endswith("key/bias"):  # softmax does not see a constant added to every key
            assert np.abs(gradient).max() > 1e-5, path


@pytest.mark.parametrize("how", ["graph", "xla"])
def test_compiled_equals_eager(how, images, assert_close):
    model = randomise(tiny(representation_size=17))
    x = keras.ops.convert_to_tensor(images)
    assert_close(compiled(model, how)(x), model(x), atol=1e-5)


@pytest.mark.parametrize(
    "arguments", [dict(representation_size=17), dict(include_top=False, classifier="gap")], ids=str
)
def test_saved_and_loaded_as_keras_gives_the_same_bits(arguments, images, tmp_path):
    model = randomise(tiny(**arguments, dropout_rate=0.1, stochastic_depth_rate=0.1))
    model.save(tmp_path / "model.keras")
    assert "Lambda" not in model.to_json()
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(numpy(again(images)), numpy(model(images)))
    assert [w.path for w in again.weights] == [w.path for w in model.weights]


def test_loading_needs_no_safe_mode_exception_and_keeps_the_dtype_policy(images, tmp_path):
    keras.config.set_dtype_policy("mixed_bfloat16")
    model = randomise(tiny())
    model.save(tmp_path / "model.keras")
    keras.config.set_dtype_policy("float32")
    again = keras.saving.load_model(tmp_path / "model.keras", safe_mode=True)
    assert again.get_layer("encoder_block_01").attention.query.dtype_policy.name == "mixed_bfloat16"
    np.testing.assert_array_equal(numpy(again(images)), numpy(model(images)))


def test_mixed_precision_gives_float32_scores_near_the_float32_ones(images, assert_close, whole):
    full = randomise(tiny(classifier_activation="softmax"))
    keras.config.set_dtype_policy("mixed_bfloat16")
    half = randomise(tiny(classifier_activation="softmax"))
    scores = whole(half)(images)
    assert keras.backend.standardize_dtype(scores.dtype) == "float32"
    assert keras.backend.standardize_dtype(half.get_layer("encoder_norm").output.dtype) == "bfloat16"
    assert {w.dtype for w in half.weights} == {"float32"}
    assert_close(numpy(scores).sum(-1), np.ones(2, "float32"), atol=1e-6)
    assert_close(scores, full(images), atol=0.02)


@pytest.mark.parametrize("rate", ["dropout_rate", "attention_dropout_rate", "stochastic_depth_rate"])
def test_dropout_is_active_only_while_training(rate, images):
    model, quiet = randomise(tiny(**{rate: 0.5})), randomise(tiny())
    np.testing.assert_array_equal(numpy(model(images)), numpy(quiet(images)))
    np.testing.assert_array_equal(numpy(quiet(images, training=True)), numpy(quiet(images)))
    assert any((numpy(model(images, training=True)) != numpy(quiet(images))).any() for _ in range(5))


def test_stochastic_depth_rises_linearly_from_zero():
    model = tiny(num_layers=5, stochastic_depth_rate=0.2)
    rates = [model.get_layer(f"encoder_block_{i:02d}").stochastic_depth_rate for i in range(5)]
    assert rates == pytest.approx([0, 0.05, 0.1, 0.15, 0.2])
    assert tiny(num_layers=1, stochastic_depth_rate=0.2).get_layer("encoder_block_00").stochastic_depth_rate == 0


def test_dropout_comes_after_the_position_embedding():
    names = [layer.name for layer in tiny(dropout_rate=0.3).layers]
    assert names.index("embedding_dropout") == names.index("position_embedding") + 1
    assert tiny(dropout_rate=0.3).get_layer("embedding_dropout").rate == 0.3


def test_input_tensor_is_built_upon(images, assert_close):
    pixels = keras.Input(SHAPE, name="pixels")
    model = randomise(tiny(input_tensor=keras.layers.Rescaling(1 / 127.5, -1)(pixels)))
    assert model.inputs[0].name == "pixels"
    raw = (images + 1) * 127.5
    assert_close(model(raw), randomise(tiny())(images), atol=1e-4)


def test_an_input_layers_own_tensor_needs_no_input_shape(images):
    tensor = keras.Input(SHAPE)
    assert tiny(input_shape=None, input_tensor=tensor).input_shape == (None, *SHAPE)
