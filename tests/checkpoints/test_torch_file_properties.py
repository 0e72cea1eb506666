"""Any timm or Hugging Face file, end to end: the same numbers in any order and dtype, or one sentence and no change."""

import json

import keras
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors_writer import safetensors_bytes

import vitkeras
from vitkeras.checkpoints.google import google_slots

FEW = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # the model is compared before and after each example
)
D, M, P, K = 4, 3, 2, 5  # hidden dimension, MLP dimension, patch, classes
EPSILONS = {"timm": 1e-6, "hf": 1e-12}
KINDS = st.sampled_from(["timm", "hf"])
REFUSED_DTYPES = ["int32", "int64", "uint8", "bool"]
NAMES = {"float64": "F64", "float32": "F32", "float16": "F16", "int32": "I32", "int64": "I64"}
NAMES |= {"uint8": "U8", "bool": "BOOL", "bfloat16": "BF16"}


def shapes_of(kind):
    """{name: shape} of a complete file for `model_of(kind)`."""
    square = {"weight": (D, D), "bias": (D,)}
    norm = {"weight": (D,), "bias": (D,)}
    if kind == "timm":
        stem = {"cls_token": (1, 1, D), "pos_embed": (1, 5, D)}
        modules = {"patch_embed.proj": {"weight": (D, 3, P, P), "bias": (D,)}, "norm": norm}
        modules |= {"head": {"weight": (K, D), "bias": (K,)}}
        block = "blocks.0."
        inside = {"norm1": norm, "norm2": norm, "attn.qkv": {"weight": (3 * D, D), "bias": (3 * D,)}}
        inside |= {"attn.proj": square, "mlp.fc1": {"weight": (M, D), "bias": (M,)}}
        inside |= {"mlp.fc2": {"weight": (D, M), "bias": (D,)}}
    else:
        stem = {"vit.embeddings.cls_token": (1, 1, D), "vit.embeddings.position_embeddings": (1, 5, D)}
        modules = {"vit.embeddings.patch_embeddings.projection": {"weight": (D, 3, P, P), "bias": (D,)}}
        modules |= {"vit.layernorm": norm, "classifier": {"weight": (K, D), "bias": (K,)}}
        block = "vit.encoder.layer.0."
        inside = {"layernorm_before": norm, "layernorm_after": norm, "attention.output.dense": square}
        inside |= {f"attention.attention.{part}": square for part in ("query", "key", "value")}
        inside |= {"intermediate.dense": {"weight": (M, D), "bias": (M,)}}
        inside |= {"output.dense": {"weight": (D, M), "bias": (D,)}}
    modules |= {block + name: leaves for name, leaves in inside.items()}
    return stem | {f"{name}.{leaf}": shape for name, leaves in modules.items() for leaf, shape in leaves.items()}


def model_of(kind):
    arguments = dict(classes=K, classifier_activation=None, activation="gelu", layer_norm_epsilon=EPSILONS[kind])
    return vitkeras.VisionTransformer((2 * P, 2 * P, 3), P, 1, D, 2, M, **arguments)


def numpy(x):
    return keras.ops.convert_to_numpy(x)


def weights(model):
    return {weight.path: numpy(weight).tobytes() for weight in model.weights}


@pytest.fixture(scope="module")
def models():
    return {kind: model_of(kind) for kind in EPSILONS}


@pytest.fixture(scope="module")
def contents():
    rng = np.random.default_rng(7)
    return {
        kind: {name: rng.normal(size=shape).astype("float32") for name, shape in shapes_of(kind).items()}
        for kind in EPSILONS
    }


@pytest.fixture(scope="module")
def expected(models, contents, tmp_path_factory):
    """{kind: weights that the whole file gives}."""
    found = {}
    for kind, model in models.items():
        folder = tmp_path_factory.mktemp(kind)
        vitkeras.load_checkpoint(model, write(folder, kind, contents[kind]))
        found[kind] = list(weights(model).values())
    return found


def write(folder, kind, arrays, dtype=None, whole=None):
    """Writes a folder of `kind`; `whole` are the bytes of the weights file instead of `arrays`."""
    config = {"architecture": "vit", "model_args": {"num_heads": 2}}
    if kind == "hf":
        config = {"model_type": "vit", "hidden_act": "gelu", "layer_norm_eps": 1e-12, "num_attention_heads": 2}
        config |= {"num_hidden_layers": 1, "hidden_size": D, "intermediate_size": M, "patch_size": P}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(content_of(arrays, dtype) if whole is None else whole)
    return folder


def content_of(arrays, dtype=None):
    """The file's bytes, every array as `dtype`; float arrays to bfloat16 by their upper half."""
    if dtype is None:
        return safetensors_bytes(arrays)
    if dtype == "bfloat16":
        stored = {name: (array.view("uint32") >> 16).astype("uint16") for name, array in arrays.items()}
    else:
        stored = {name: array.astype(dtype) for name, array in arrays.items()}
    return safetensors_bytes(stored, kinds=dict.fromkeys(stored, NAMES[dtype]))


def refused(model, path, *parts):
    """Both readers raise ValueError with all `parts` in its text; the model keeps every bit."""
    before = weights(model)
    texts = []
    for load in (lambda: vitkeras.load_checkpoint(model, path), lambda: vitkeras.from_checkpoint(path)):
        with pytest.raises(ValueError) as caught:
            load()
        texts.append(str(caught.value))
        assert "model.safetensors'" in texts[-1] and "\n" not in texts[-1]
    assert weights(model) == before
    assert all(part in texts[0] for part in parts), texts[0]


@FEW
@given(kind=KINDS, order=st.randoms(use_true_random=False))
def test_the_order_of_the_arrays_is_nothing(kind, order, models, contents, expected, tmp_path):
    names = list(contents[kind])
    order.shuffle(names)
    path = write(tmp_path, kind, {name: contents[kind][name] for name in names})
    model = vitkeras.load_checkpoint(models[kind], path)
    assert list(weights(model).values()) == expected[kind]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("kind", EPSILONS)
def test_any_float_dtype_gives_its_own_numbers(kind, dtype, models, contents, tmp_path):
    path = write(tmp_path, kind, contents[kind], dtype)
    rounded = {n: a.astype("float16" if dtype == "float16" else "float32") for n, a in contents[kind].items()}
    if dtype == "bfloat16":
        rounded = {name: (a.view("uint32") >> 16 << 16).view("float32") for name, a in rounded.items()}
    wide = {name: a.astype("float32") for name, a in rounded.items()}
    built = vitkeras.from_checkpoint(path, classifier_activation=None)
    found = list(weights(vitkeras.load_checkpoint(models[kind], path)).values())
    assert list(weights(built).values()) == found
    whole = write(tmp_path, kind, wide)
    assert list(weights(vitkeras.load_checkpoint(models[kind], whole)).values()) == found
    head = next(wide[name] for name in ("head.weight", "classifier.weight") if name in wide)
    np.testing.assert_array_equal(numpy(models[kind].get_layer("head").kernel), head.T)


@FEW
@given(kind=KINDS, dtype=st.sampled_from(REFUSED_DTYPES), data=st.data())
def test_other_dtypes_are_refused_by_name(kind, dtype, data, models, contents, tmp_path):
    name = data.draw(st.sampled_from(sorted(contents[kind])))
    arrays = {**contents[kind], name: contents[kind][name].astype(dtype)}
    whole = safetensors_bytes(arrays, kinds={name: NAMES[dtype]})
    refused(
        models[kind], write(tmp_path, kind, None, whole=whole), f"{name!r} must be floating point, received {dtype}"
    )


@FEW
@given(kind=KINDS, data=st.data())
def test_one_wrong_axis_is_named(kind, data, models, contents, tmp_path):
    name = data.draw(st.sampled_from(sorted(contents[kind])))
    shape = list(contents[kind][name].shape)
    axis = data.draw(st.integers(0, len(shape) - 1))
    shape[axis] += data.draw(st.sampled_from([-1, 1, 2]))
    path = write(tmp_path, kind, {**contents[kind], name: np.ones(shape, "float32")})
    before = weights(models[kind])
    with pytest.raises(ValueError) as caught:
        vitkeras.load_checkpoint(models[kind], path)
    text = str(caught.value)
    # A head of another width is another number of classes; the settings of Hugging Face contradict some shapes first;
    # another number of positions is another grid.
    told = [repr(name), "classes must be", "its arrays say", "positions"]
    assert any(part in text for part in told) and weights(models[kind]) == before


@FEW
@given(kind=KINDS, data=st.data())
def test_missing_and_unexpected_arrays_are_named(kind, data, models, contents, tmp_path):
    needed = ("head.weight", "classifier.weight", "proj.weight", "projection.weight")  # what tells head and layout
    names = sorted(name for name in contents[kind] if not name.endswith(needed) or "attn" in name)
    names = [name for name in names if not name.endswith(("fc1.weight", "intermediate.dense.weight", "qkv.weight"))]
    gone = data.draw(st.sets(st.sampled_from(names), max_size=3))
    more = data.draw(st.sets(st.sampled_from(["extra", "vit.more.weight", "blocks.0.attn.bias"]), max_size=2))
    arrays = {name: array for name, array in contents[kind].items() if name not in gone}
    arrays |= {name: np.ones(3, "float32") for name in more}
    path = write(tmp_path, kind, arrays)
    if not gone | more:
        vitkeras.load_checkpoint(models[kind], path)
        return
    before = weights(models[kind])
    with pytest.raises(ValueError) as caught:
        vitkeras.load_checkpoint(models[kind], path)
    assert weights(models[kind]) == before
    assert all(f"missing {name!r}" in str(caught.value) for name in gone), str(caught.value)
    assert all(f"unexpected {name!r}" in str(caught.value) for name in more)


@settings(FEW, max_examples=60)
@given(kind=KINDS, data=st.data())
def test_a_file_cut_anywhere_is_refused(kind, data, models, contents, tmp_path):
    whole = content_of(contents[kind])
    header = 8 + int.from_bytes(whole[:8], "little")
    places = st.one_of(st.integers(1, 8), st.integers(9, header), st.integers(header, len(whole) - 1))
    refused(models[kind], write(tmp_path, kind, None, whole=whole[: data.draw(places)]))


@FEW
@given(kind=KINDS, data=st.data(), value=st.sampled_from([np.nan, np.inf, -np.inf]))
def test_values_that_are_not_finite_are_named(kind, data, value, models, contents, tmp_path):
    name = data.draw(st.sampled_from(sorted(contents[kind])))
    spoilt = contents[kind][name].copy()
    spoilt.flat[data.draw(st.integers(0, spoilt.size - 1))] = value
    path = write(tmp_path, kind, {**contents[kind], name: spoilt})
    before = weights(models[kind])
    with pytest.raises(ValueError, match="holds values that are not finite") as caught:
        vitkeras.load_checkpoint(models[kind], path)
    assert repr(name) in str(caught.value) and weights(models[kind]) == before


def test_the_tables_are_complete(models):
    for kind, model in models.items():
        parts = 3 if kind == "timm" else 1  # query, key and value are one array of timm's
        assert len(google_slots(model)) == len(shapes_of(kind)) + 2 * (parts - 1)
