"""The table of variants: exact sizes, one function a row, the signature of `keras.applications`."""

import inspect
import re

import keras
import pytest

import vitkeras
import vitkeras.models
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
}
# 1000 classes, 224 px, no pre_logits: counted in the original implementation.
PARAMETERS = {
    "vit_ti16": 5_717_416,
    "vit_s16": 22_050_664,
    "vit_s32": 22_878_952,  # not published with the others: S/16 + (32² - 16²)·3·384 - (196 - 49)·384
    "vit_b8": 86_576_872,
    "vit_b16": 86_567_656,
    "vit_b32": 88_224_232,
    "vit_l16": 304_326_632,
    "vit_l32": 306_535_400,
    "vit_h14": 632_045_800,
}
SIZES = {  # paper Table 1, and AugReg: layers, hidden size, MLP size, heads
    "ti": (12, 192, 768, 3),
    "s": (12, 384, 1536, 6),
    "b": (12, 768, 3072, 12),
    "l": (24, 1024, 4096, 16),
    "h": (32, 1280, 5120, 16),
}
ARGUMENTS = "include_top weights input_tensor input_shape pooling classes classifier_activation name".split()


def count_parameters(function, **arguments):
    """Builds without allocating a single weight: inside the scope variables stay unfilled, and are then forgotten."""
    with keras.StatelessScope(initialize_variables=False):
        count = function(weights=None, **arguments).count_params()
    keras.utils.clear_session()
    return count


def formula(layers, dim, mlp, patch, height, width, classes, representation=0):
    block = 4 * (dim * dim + dim) + 2 * dim * mlp + mlp + dim + 4 * dim
    tokens = height // patch * (width // patch) + 1
    head = representation * (dim + 1) + (representation or dim) * classes + classes
    return patch * patch * 3 * dim + dim + dim + tokens * dim + layers * block + 2 * dim + head


def row(variant):
    letters, patch = re.fullmatch(r"vit_([a-z]+)(\d+)", variant).groups()
    return letters, int(patch)


def test_every_row_has_a_public_function_and_every_function_a_row():
    assert FUNCTIONS.keys() == VARIANTS.keys() == PARAMETERS.keys()
    public = {name for name in vitkeras.models.__all__ if re.fullmatch(r"ViT[A-Z][a-z]?\d+", name)}
    assert public == {function.__name__ for function in FUNCTIONS.values()}
    assert public <= set(vitkeras.__all__)
    for variant, function in FUNCTIONS.items():
        assert function.__name__.lower().replace("vit", "vit_") == variant
        assert inspect.signature(function).parameters["name"].default == variant


@pytest.mark.parametrize("variant", VARIANTS)
def test_sizes_are_those_of_the_paper(variant):
    letters, patch = row(variant)
    entry = VARIANTS[variant]
    assert (entry.num_layers, entry.hidden_dim, entry.mlp_dim, entry.num_heads) == SIZES[letters]
    assert entry.patch_size == patch
    assert entry.dropout_rate == (0.1 if variant in ("vit_l16", "vit_h14") else 0)


@pytest.mark.parametrize("variant", VARIANTS)
def test_parameter_counts_are_exact(variant):
    letters, patch = row(variant)
    count = count_parameters(FUNCTIONS[variant])
    assert count == PARAMETERS[variant]
    assert count == formula(*SIZES[letters][:3], patch, 224, 224, 1000)


@pytest.mark.parametrize(
    "variant, millions, exact",
    [("vit_b16", 86.86, 86_859_496), ("vit_b32", 88.30, 88_297_192), ("vit_l16", 304.72, 304_715_752)],
)
def test_parameter_counts_at_384_pixels(variant, millions, exact):
    letters, patch = row(variant)
    count = count_parameters(FUNCTIONS[variant], input_shape=(384, 384, 3))
    assert count == exact == formula(*SIZES[letters][:3], patch, 384, 384, 1000)
    assert round(count / 1e6, 2) == millions


def test_parameter_count_with_pre_logits_and_a_rectangular_image():
    count = count_parameters(
        vitkeras.ViTB16, classes=21843, representation_size=768, input_shape=(160, 224, 3), classifier_activation=None
    )
    assert count == formula(*SIZES["b"][:3], 16, 160, 224, 21843, 768)


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
        classes=1000,
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
