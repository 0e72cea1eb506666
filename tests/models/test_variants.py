"""The table of variants: exact sizes, one function a row, the signature of `keras.applications`."""

import functools
import inspect
import math
import re

import keras
import numpy as np
import parameter_counts as counts
import pytest
from backends import randomise

import vitkeras
from vitkeras.models import VARIANTS, build_variant

FUNCTIONS = {
    "vit_ti16": vitkeras.ViTTi16,
    "vit_s16": vitkeras.ViTS16,
    "vit_s32": vitkeras.ViTS32,
    "vit_b8": vitkeras.ViTB8,
    "vit_b16": vitkeras.ViTB16,
    "vit_b32": vitkeras.ViTB32,
    "vit_l16": vitkeras.ViTL16,
    "vit_l32": vitkeras.ViTL32,
    "vit_h14": vitkeras.ViTH14,
    "r_ti16": vitkeras.RTiViT16,
    "r26_s32": vitkeras.R26ViTS32,
    "r26_b32": vitkeras.R26ViTB32,
    "r50_b16": vitkeras.R50ViTB16,
    "r50_b32": vitkeras.R50ViTB32,
    "r50_l16": vitkeras.R50ViTL16,
    "r50_l32": vitkeras.R50ViTL32,
    "bit_r50x1": vitkeras.BiTR50x1,
    "bit_r50x2": vitkeras.BiTR50x2,
    "bit_r101x1": vitkeras.BiTR101x1,
    "bit_r152x1": vitkeras.BiTR152x1,
    "bit_r152x2": vitkeras.BiTR152x2,
    "bit_r200x3": vitkeras.BiTR200x3,
    "axial_resnet50": vitkeras.AxialResNet50,
    "axial_vit_b16": vitkeras.AxialViTB16,
    "axial_vit_b32": vitkeras.AxialViTB32,
}
# 1000 classes, 224 px, no pre_logits: counted in the original implementation, or for the baselines the published count
# of the ResNet with batch normalisation (torchvision), whose scale and offset GroupNorm has too. None: no such number.
PARAMETERS = {
    "vit_ti16": 5_717_416,
    "vit_s16": 22_050_664,
    "vit_s32": None,
    "vit_b8": 86_576_872,
    "vit_b16": 86_567_656,
    "vit_b32": 88_224_232,
    "vit_l16": 304_326_632,
    "vit_l32": 306_535_400,
    "vit_h14": 632_045_800,
    "r_ti16": 6_337_704,
    "r26_s32": 36_431_912,
    "r26_b32": 101_383_976,
    "r50_b16": 98_659_112,
    "r50_b32": None,
    "r50_l16": None,
    "r50_l32": 328_994_856,
    "bit_r50x1": 25_557_032,
    "bit_r50x2": None,
    "bit_r101x1": 44_549_160,
    "bit_r152x1": 60_192_808,
    "bit_r152x2": None,
    "bit_r200x3": None,
    "axial_resnet50": None,
    "axial_vit_b16": None,
    "axial_vit_b32": None,
}
SIZES = {  # paper Table 1, and AugReg: layers, hidden size, MLP size, heads
    "ti": (12, 192, 768, 3),
    "s": (12, 384, 1536, 6),
    "b": (12, 768, 3072, 12),
    "l": (24, 1024, 4096, 16),
    "h": (32, 1280, 5120, 16),
}
# Units a stage. ResNet26 is bottlenecks two a stage; R50 at stride 16 moves its fourth stage's units into the third.
STEMS = {
    "r_ti16": (),
    "r26_s32": (2, 2, 2, 2),
    "r26_b32": (2, 2, 2, 2),
    "r50_b16": (3, 4, 9),
    "r50_b32": (3, 4, 6, 3),
    "r50_l16": (3, 4, 9),
    "r50_l32": (3, 4, 6, 3),
}
UNITS = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3), 200: (3, 24, 36, 3)}
VITS = [name for name in VARIANTS if name.startswith(("vit_", "r"))]
DROPOUT = {"vit_l16", "vit_h14", "r50_b16", "r50_b32", "r50_l16", "r50_l32"}
ARGUMENTS = "include_top weights input_tensor input_shape pooling classes classifier_activation name".split()


def measure(function, **arguments):
    """(parameters, positions of the last map or tokens) of a model whose variables stay unfilled, and are forgotten."""
    with keras.StatelessScope(initialize_variables=False):
        model = function(weights=None, **arguments)
    keras.utils.clear_session()
    return model.count_params(), math.prod(model.get_layer("pool").input.shape[1:-1])


@functools.cache
def measure_variant(variant, image_size=224):
    """The largest take seconds even without weights: one build for all tests."""
    return measure(FUNCTIONS[variant], input_shape=None if image_size == 224 else (image_size, image_size, 3))


def formula(variant, image_size=224):
    """The count that the paper's description of a variant gives."""
    if variant.startswith("bit_"):
        depth, factor = map(int, re.fullmatch(r"bit_r(\d+)x(\d)", variant).groups())
        return counts.resnet(UNITS[depth], factor)
    if variant == "axial_resnet50":
        return counts.resnet(UNITS[50], axially=True)
    letters, patch = row(variant)
    if variant.startswith("axial_"):
        return counts.axial_vit(*SIZES[letters][:3], patch, image_size, 1000)
    return counts.vit(*SIZES[letters][:3], patch, image_size, image_size, 1000, stem=STEMS.get(variant))


def row(variant):
    """(letters of the size, patch): a hybrid's patch is 1 position of the map, R+Ti/16's is 8."""
    letters, number = re.fullmatch(r"(?:axial_)?(?:vit|r\d*)_([a-z]+)(\d+)", variant).groups()
    return letters, int(number) if "vit" in variant else 8 if variant == "r_ti16" else 1


def test_every_row_has_a_public_function_and_every_function_a_row():
    assert FUNCTIONS.keys() == VARIANTS.keys() == PARAMETERS.keys()
    public = {name for name in vitkeras.models.__all__ if re.search(r"(ViT|BiT|ResNet).*\d", name)}
    assert public == {function.__name__ for function in FUNCTIONS.values()}
    assert public <= set(vitkeras.__all__)
    for variant, function in FUNCTIONS.items():
        assert function.__name__.lower().replace("vit", "") == variant.replace("_", "").replace("vit", "")
        assert inspect.signature(function).parameters["name"].default == variant


@pytest.mark.parametrize("variant", VITS + ["axial_vit_b16", "axial_vit_b32"])
def test_sizes_are_those_of_the_paper(variant):
    letters, patch = row(variant)
    entry = VARIANTS[variant]
    assert (entry.num_layers, entry.hidden_dim, entry.mlp_dim, entry.num_heads) == SIZES[letters]
    assert entry.patch_size == patch
    if variant in VITS:
        assert entry.stem_blocks == STEMS.get(variant)
        assert entry.dropout_rate == (0.1 if variant in DROPOUT else 0)


@pytest.mark.parametrize(
    "variant, stride",
    [("vit_h14", 14), ("r_ti16", 32), ("r26_s32", 32), ("r50_b16", 16), ("r50_l32", 32), ("bit_r50x1", 32)]
    + [("axial_vit_b16", 16), ("axial_resnet50", 32)],
)
def test_the_stride_is_that_of_the_built_model(variant, stride):
    """Position lengths at 224 and 384 pixels: 197 and 577 at stride 16, 50 and 145 at stride 32."""
    assert VARIANTS[variant].stride == stride
    assert measure_variant(variant)[1] == (224 // stride) ** 2 + (variant in VITS)  # the class token


@pytest.mark.parametrize("variant", VARIANTS)
def test_parameter_counts_are_exact(variant):
    count, _ = measure_variant(variant)
    assert count == formula(variant)
    assert count == (PARAMETERS[variant] or count)


@pytest.mark.parametrize(
    "variant, millions, exact",
    [("vit_b16", 86.86, 86_859_496), ("vit_b32", 88.30, 88_297_192), ("vit_l16", 304.72, 304_715_752)],
)
def test_parameter_counts_at_384_pixels(variant, millions, exact):
    count, _ = measure_variant(variant, 384)
    assert count == exact == formula(variant, 384)
    assert round(count / 1e6, 2) == millions


@pytest.mark.parametrize("variant, positions", [("r50_b16", 577), ("r50_l32", 145), ("r_ti16", 145)])
def test_hybrids_at_384_pixels(variant, positions):
    count, at_384 = measure_variant(variant, 384)
    assert (count, at_384) == (formula(variant, 384), positions)
    at_224, dim = (224 // VARIANTS[variant].stride) ** 2 + 1, VARIANTS[variant].hidden_dim
    assert count - formula(variant) == (positions - at_224) * dim


def test_parameter_count_with_pre_logits_and_a_rectangular_image():
    count, _ = measure(
        vitkeras.ViTB16, classes=21843, representation_size=768, input_shape=(160, 224, 3), classifier_activation=None
    )
    assert count == counts.vit(*SIZES["b"][:3], 16, 160, 224, 21843, 768)


def shrunken(variant, **arguments):
    """The public function, with its family's own architecture and little of everything else."""
    stride = VARIANTS[variant].stride
    sizes = dict(num_layers=1, hidden_dim=24, num_heads=3, mlp_dim=7)
    if variant in STEMS:
        sizes |= dict(stem_blocks=(1,) * len(STEMS[variant]), stem_width_factor=0.5)
    if variant.startswith("bit_"):
        sizes = dict(blocks=(1, 1, 1, 1), width_factor=0.5)
    if variant == "axial_resnet50":
        sizes = dict(blocks=(1, 1, 1, 1), width_factor=0.5, attention_heads=4)
    arguments = {**dict(input_shape=(2 * stride, 3 * stride, 3), classes=7, weights=None), **sizes, **arguments}
    return FUNCTIONS[variant](**arguments)


# Within a family they differ in numbers only, and JAX compiles each operation for each shape.
ONE_OF_EACH = ["vit_ti16", "r26_s32", "bit_r50x1", "axial_vit_b16", "axial_resnet50"]


@pytest.mark.parametrize("variant", ONE_OF_EACH if keras.backend.backend() == "jax" else VARIANTS)
def test_each_variant_goes_through_a_keras_file(variant, rng, tmp_path, whole):
    model = randomise(shrunken(variant), scale=0.1)
    assert model.name == variant and model.output_shape == (None, 7)
    model.save(tmp_path / "model.keras")
    assert "Lambda" not in model.to_json()
    again = keras.saving.load_model(tmp_path / "model.keras")
    images = rng.uniform(-1, 1, size=(2, *model.input_shape[1:])).astype("float32")
    scores, theirs = (keras.ops.convert_to_numpy(whole(m)(images)) for m in (model, again))
    np.testing.assert_array_equal(theirs, scores)
    np.testing.assert_allclose(scores.sum(-1), 1, rtol=1e-5)
    assert np.abs(scores[0] - scores[1]).max() > 1e-4
    assert [weight.path for weight in again.weights] == [weight.path for weight in model.weights]


@pytest.mark.parametrize("variant", ["r50_b16", "bit_r50x1", "axial_vit_b16", "axial_resnet50"])
def test_each_family_has_the_features_of_keras_applications(variant):
    features = shrunken(variant, include_top=False, pooling="avg")
    assert len(features.output_shape) == 2
    assert features.count_params() == shrunken(variant).count_params() - 7 * (features.output_shape[1] + 1)
    assert len(shrunken(variant, include_top=False).output_shape) == (3 if "vit" in variant or "b16" in variant else 4)
    tensor = keras.Input((64, 96, 3))
    assert shrunken(variant, input_shape=None, input_tensor=tensor).input_shape == (None, 64, 96, 3)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_signature_begins_as_in_keras_applications(variant):
    theirs = list(inspect.signature(keras.applications.ResNet50).parameters)
    parameters = inspect.signature(FUNCTIONS[variant]).parameters
    assert list(parameters)[: len(ARGUMENTS)] == ARGUMENTS == theirs
    defaults = {name: parameters[name].default for name in ARGUMENTS if name not in ("weights", "name")}
    assert defaults == dict(
        include_top=True,
        input_tensor=None,
        input_shape=None,
        pooling=None,
        classes=None,  # 1000, or the weights file's own
        classifier_activation="softmax",
    )


def small(function=vitkeras.ViTTi16, **arguments):
    return function(**{**dict(weights=None, input_shape=(32, 48, 3), num_layers=1), **arguments})


def test_arguments_reach_the_model():
    model = small(classes=7, name="mine", classifier_activation=None, dropout_rate=0.3, activation="gelu")
    assert model.name == "mine" and model.output_shape == (None, 7)
    assert model.get_layer("head").activation is keras.activations.linear
    block = model.get_layer("encoder_block_00")
    assert block.dropout_rate == 0.3 and block.activation == "gelu" and block.mlp_dim == 768


def test_positional_arguments_keep_their_order():
    model = vitkeras.ViTTi16(False, None, None, (32, 48, 3), "avg", 7, None, "mine", num_layers=1)
    assert model.output_shape == (None, 192) and model.name == "mine"


def test_the_model_is_called_after_the_variant_and_takes_224_pixels():
    model = vitkeras.ViTTi16(weights=None, num_layers=1)
    assert model.name == "vit_ti16" and model.input_shape == (None, 224, 224, 3)


def test_an_input_tensor_gives_the_shape():
    model = small(input_shape=None, input_tensor=keras.Input((48, 32, 3)))
    assert model.input_shape == (None, 48, 32, 3)


def test_dropout_is_the_variants_own_unless_given():
    build = dict(weights=None, input_shape=(32, 32, 3), num_layers=1, hidden_dim=32, num_heads=1, mlp_dim=7)
    assert vitkeras.ViTL16(**build).get_layer("encoder_block_00").dropout_rate == 0.1
    assert vitkeras.ViTL16(**build, dropout_rate=0.0).get_layer("encoder_block_00").dropout_rate == 0


def test_an_unknown_variant_names_the_nearest():
    with pytest.raises(ValueError, match=r"variant must be one of .*, received 'vit_b61'; nearest: \['vit_b16'"):
        build_variant("vit_b61", weights=None)


def test_an_unknown_argument_names_the_nearest():
    with pytest.raises(TypeError, match="vit_ti16 has no argument 'droput_rate'; nearest: 'dropout_rate'."):
        small(droput_rate=0.1)


@pytest.mark.parametrize("argument", ["patch_size", "classifier", "num_layers"])
def test_a_baseline_has_no_argument_of_a_transformer(argument):
    with pytest.raises(TypeError, match=f"bit_r50x1 has no argument '{argument}'; nearest: "):
        vitkeras.BiTR50x1(weights=None, **{argument: 1})


def test_a_family_without_published_weights_says_so():
    with pytest.raises(ValueError, match="bit_r50x1"):
        vitkeras.BiTR50x1(weights="imagenet21k")
