"""Costs of the named models without their weights, and the tables made of them."""

import resource

import keras
import pytest

import vitkeras
from vitkeras import analysis
from vitkeras.analysis.published import TABLE_5
from vitkeras.models import VARIANTS
from vitkeras.models.variants import AxialVariant, ResNetVariant, Variant

SMALL = {
    "plain": Variant((3, 5), 3, 12, 3, 17),
    "hybrid": Variant(1, 3, 24, 3, 40, stem_blocks=(1, 3, 2)),
    "root": Variant(2, 2, 24, 3, 40, stem_blocks=()),
    "resnet": ResNetVariant((3, 2, 1), 0.5),
    "axial resnet": ResNetVariant((1, 3), 0.5, attention_heads=4),
    "axial vit": AxialVariant((3, 5), 3, 12, 3, 17),
}


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("classes", [7, None])
def test_shortened_models_cost_what_whole_ones_do(name, classes, monkeypatch):
    monkeypatch.setitem(VARIANTS, name, SMALL[name])
    size = (48, 80)
    with keras.StatelessScope(initialize_variables=False):
        head = {"include_top": False} if classes is None else {"classes": classes}
        whole = analysis.flops(vitkeras.models.build_variant(name, weights=None, input_shape=(*size, 3), **head))
    keras.utils.clear_session()
    assert analysis.variant_cost(name, size, classes) == whole


def test_no_weight_is_left_to_be_filled():
    """On its end, a scope fills all variables that Keras knows to be without values: here 0.5 GB, were they known."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    analysis.variant_cost("bit_r200x3")
    with keras.StatelessScope():
        pass
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kilobytes


def test_sizes_that_no_memory_would_hold():
    cost = analysis.variant_cost("vit_h14", (518, 1036), classes=21843)
    n, dim = 37 * 74 + 1, 1280
    assert cost.macs == (n - 1) * 588 * dim + 32 * (12 * n * dim**2 + 2 * n * n * dim) + dim * 21843
    # Table 1's 632 M at 224 px and 1000 classes.
    assert cost.parameters == 632_045_800 + (n - 257) * dim + (21843 - 1000) * (dim + 1)
    assert analysis.variant_cost("vit_b16", patch_size=32).parameters == 88_224_232


@pytest.mark.parametrize(
    "variant, parameters",
    [
        ("vit_ti16", 5_717_416),
        ("vit_s16", 22_050_664),
        ("vit_l32", 306_535_400),
        ("r_ti16", 6_337_704),
        ("r26_s32", 36_431_912),
        ("r50_l32", 328_994_856),
    ],
)
def test_parameters_of_the_papers_sizes(variant, parameters):
    assert analysis.variant_cost(variant).parameters == parameters


def test_variant_cost_refuses():
    with pytest.raises(ValueError, match=r"variant must be one of .* received 'vit_b61'; nearest: \['vit_b16'"):
        analysis.variant_cost("vit_b61")
    with pytest.raises(ValueError, match="16.*225"):
        analysis.variant_cost("vit_b16", 225)
    with pytest.raises(ValueError, match="image_size must be .*, received 'large'"):
        analysis.variant_cost("vit_b16", "large")
    with pytest.raises(TypeError, match="bit_r50x1 has no argument 'patch_size'"):
        analysis.variant_cost("bit_r50x1", patch_size=8)


def test_table_6():
    """The 18 rows. Published figures are rounded to one exaflop, which is 1 % of the smallest."""
    rows = analysis.pretraining_table()
    assert len(rows) == 18 and {row["variant"] for row in rows} <= set(VARIANTS)
    for row in rows:
        tolerance = 0.01 if row["family"] == "vit" else 0.06
        assert abs(row["calculated"] - row["exaflops"]) <= tolerance * row["exaflops"] + 0.5, row
    by_name = {(row["name"], row["epochs"]): row["calculated"] for row in rows}
    assert by_name["ViT-L/16", 14] == pytest.approx(2 * by_name["ViT-L/16", 7])
    # By hand: forward three times, the patch embedding, whose input is the image, twice.
    n, dim = 50, 768
    block, patch = 12 * n * dim**2 + 2 * n * n * dim, 49 * 3072 * dim
    assert by_name["ViT-B/32", 7] == pytest.approx(2 * (3 * 12 * block + 2 * patch) * 303e6 * 7 / 1e18)


def test_table_5_is_the_papers():
    gaps = [round(row["top1"]["ViT-L/16"] - row["top1"]["ViT-B/16"], 2) for row in TABLE_5.values()]
    assert gaps == [-1.38, 1.18, 2.97]


def test_tokens_against_patch_size():
    rows = {row["patch_size"]: row for row in analysis.patch_table()}
    assert {patch: row["tokens"] for patch, row in rows.items()} == {
        **{4: 3136, 8: 784, 14: 256, 16: 196},
        **{28: 64, 32: 49, 56: 16},
    }
    assert rows[16]["patch_values"] == 768
    assert rows[16]["attention_macs"] == 2 * 196**2 * 768 and rows[16]["linear_macs"] == 12 * 196 * 768**2
    assert round(100 * rows[4]["attention_share"]) == 40 and round(100 * rows[16]["attention_share"]) == 4
    assert rows[16]["attention_bytes"] == 1_843_968  # of 12 heads, 1.8 MB
    assert rows[8]["attention_macs"] == 16 * rows[16]["attention_macs"]
    (pixels,) = analysis.patch_table(patch_sizes=(1,))
    assert pixels["tokens"] == 50_176
    (other,) = analysis.patch_table((33, 55), (11,), 24, 3, 17)
    assert other["tokens"] == 15 and other["linear_macs"] == 15 * (4 * 24**2 + 2 * 24 * 17)


def test_where_attention_costs_as_much():
    assert analysis.attention_crossing(768) == 6 * 768
    (row,) = analysis.patch_table((2 * 24 + 17, 1), (1,), 24, 3, 17)
    assert row["tokens"] == analysis.attention_crossing(24, 17)
    assert row["linear_macs"] == row["attention_macs"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"patch_sizes": (16, 15)}, "image_size must be a multiple of every patch size, received 224 and 15"),
        ({"patch_sizes": (0,)}, "patch_sizes must be a positive int, received 0"),
        ({"hidden_dim": 2.5}, "hidden_dim must be a positive int, received 2.5"),
    ],
)
def test_the_patch_table_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        analysis.patch_table(**arguments)


def test_where_the_parameters_of_b16_lie():
    cost = analysis.variant_cost("vit_b16")
    table = analysis.parameter_table(cost)
    assert table == {
        "patch embedding": 590_592,
        "class token": 768,
        "position embedding": 151_296,
        "attention": 12 * 4 * (768 * 768 + 768),
        "mlp": 12 * (2 * 768 * 3072 + 3072 + 768),
        "norms": 12 * 4 * 768,
        "final norm": 2 * 768,
        "head": 769_000,
    }
    assert sum(table.values()) == cost.parameters == 86_567_656
    blocks = table["attention"] + table["mlp"] + table["norms"]
    assert round(100 * blocks / cost.parameters) == 98
    vision = table["patch embedding"] + table["class token"] + table["position embedding"]
    assert round(100 * vision / cost.parameters, 2) == 0.86
    assert 0.66 < table["mlp"] / blocks < 0.67


def test_parameters_of_other_models():
    for variant in ("r50_b16", "axial_vit_b16", "axial_resnet50"):
        cost = analysis.variant_cost(variant)
        table = analysis.parameter_table(cost)
        assert sum(table.values()) == cost.parameters and "other" not in table
        assert ("convolutions" in table) == (variant != "axial_vit_b16")
    image = keras.Input((5,))
    other = keras.Model(image, keras.layers.Dense(3)(image))
    assert analysis.parameter_table(analysis.flops(other)) == {"other": 18}


def test_exported_sizes_by_hand():
    model = vitkeras.VisionTransformer((21, 55, 2), (3, 5), 1, 12, 3, 17, classes=7)
    cost = analysis.flops(model)
    assert analysis.exported_size(cost, "fp32") == 4 * model.count_params()
    kernels = [(30, 12), *4 * [(12, 12)], (12, 17), (17, 12), (12, 7)]
    int8 = sum(rows * columns + 12 * columns for rows, columns in kernels)
    rest = model.count_params() - sum(rows * columns for rows, columns in kernels)
    assert analysis.exported_size(cost) == int8 + 4 * rest
    with pytest.raises(ValueError, match=r"preset must be one of \('fp32', 'int8_dynamic'\), received 'int4'"):
        analysis.exported_size(cost, "int4")


def test_the_summary(capsys):
    model = vitkeras.VisionTransformer((21, 55, 2), (3, 5), 3, 12, 3, 17, classes=7, name="tiny")
    vitkeras.summary(model)
    lines = capsys.readouterr().out.splitlines()
    cost = analysis.flops(model)
    assert lines[0] == "tiny" and lines[1].split()[:3] == ["layer", "output", "parameters"]
    block = next(row for row in cost.layers if row.name == "encoder_block_01")
    (line,) = [line for line in lines if line.startswith("encoder_block")]
    assert line.split()[:6] == ["encoder_block_00", "...", "02", "78", "x", "12"]
    assert line.split()[6] == f"{3 * block.parameters:,}" and line.split()[-1] == f"{3 * block.activations:,}"
    (total,) = [line for line in lines if line.startswith("all ")]
    assert total.split() == [
        "all", f"{model.count_params():,}", f"{cost.macs / 1e6:,.3f}", "100.0", "%", f"{cost.activations:,}"
    ]  # fmt: skip
    assert len({len(line) for line in lines[1:-1]}) == 1  # columns
    assert "attention" in lines[-1] and f"{4 * cost.activations / 1e6:.1f} MB" in lines[-1]
    kept = []
    vitkeras.summary(model, print_fn=kept.append)
    assert kept == ["\n".join(lines)]
    with pytest.raises(ValueError, match="model must be a keras.Model, received 3"):
        vitkeras.summary(3)
