"""The figures show the numbers of the analysis functions, each in its place."""

import sys

import keras
import numpy as np
import pytest

import vitkeras
from vitkeras import analysis
from vitkeras.analysis.figures_canvas import colour, heat_over, heat_scale, stretched
from vitkeras.analysis.figures_filters import montage

RNG = np.random.default_rng(53)
IMAGES = RNG.uniform(-1, 1, size=(2, 21, 55, 3)).astype("float32")  # grid 7 x 11


def tiny(**overrides):
    return vitkeras.VisionTransformer((21, 55, 3), (3, 5), 2, 24, 3, 17, **{"classes": 7, **overrides})


@pytest.fixture(scope="module")
def model():
    """A tiny model whose attention is not even."""
    made = tiny()
    for weight in made.weights:
        if "query" in weight.path or "key" in weight.path:
            weight.assign(RNG.normal(size=weight.shape))
    return made


def test_heat_is_spread_between_the_middles_of_the_patches():
    np.testing.assert_allclose(stretched(np.full((2, 3), 5.0), (7, 11)), 5)
    spread = stretched([[0.0, 1.0]], (3, 8))  # middles at pixels 1.5 and 5.5
    np.testing.assert_allclose(spread, [[0, 0, 0.125, 0.375, 0.625, 0.875, 1, 1]] * 3)
    heat = np.zeros((3, 5))
    heat[1, 4] = 1
    assert np.unravel_index(stretched(heat, (33, 35)).argmax(), (33, 35)) == (16, 31)
    np.testing.assert_allclose(stretched(heat, (3, 5)), heat)  # one pixel a patch: itself


def test_a_few_patches_do_not_set_the_scale():
    heat = np.linspace(1, 2, 100)
    heat[3] = 50
    low, high = heat_scale(heat)
    assert low == 1 and 1.9 < high <= 2
    assert heat_scale(np.ones(9))[0] < heat_scale(np.ones(9))[1]  # no division by zero
    assert heat_scale([0, 0, 0, 0, 7.0]) == (0, 7)  # here nothing else is left to show


def test_heat_over_a_picture():
    picture = np.full((2, 4, 3), 100, "uint8")
    shown = heat_over(picture, np.array([[0.0, 1.0]]), (0, 1))
    cold, hot = (np.rint(255 * (0.62 * colour([x])[0] + 0.38 * 100 / 255)) for x in (0, 1))
    np.testing.assert_allclose(shown[:, 0], [cold] * 2, atol=1)
    np.testing.assert_allclose(shown[:, 3], [hot] * 2, atol=1)


@pytest.mark.parametrize("fusion", ["mean", pytest.param("min", marks=pytest.mark.slow)])
def test_rollout_over_originals_of_any_size(model, fusion):
    originals = [RNG.integers(0, 256, (63, 131, 3)).astype("uint8"), RNG.integers(0, 256, (40, 30, 3)).astype("uint8")]
    figure = analysis.rollout_figure(model, IMAGES, originals, fusion)
    heats = analysis.rollout_heat_map(model, IMAGES, fusion)
    left, right, *_ = figure.axes
    np.testing.assert_array_equal(left.images[0].get_array(), originals[0])
    for i, original in enumerate(originals):
        relative = heats[i] / heats[i].mean()
        shown = figure.axes[2 * i + 1].images[0]
        np.testing.assert_array_equal(shown.get_array(), heat_over(original, relative))
        bar = figure.axes[4 + i]
        assert bar.get_ylim() == pytest.approx(heat_scale(relative), abs=1e-6)
        assert bar.get_ylabel() == "times an even share"
    assert (left.get_title(), right.get_title()) == ("picture", "attention rollout")


@pytest.mark.slow
def test_without_originals_the_images_are_shown(model):
    figure = analysis.rollout_figure(model, IMAGES[:1])
    np.testing.assert_allclose(figure.axes[0].images[0].get_array() / 127.5 - 1, IMAGES[0], atol=0.005)


def scaled(heat):
    return (heat - heat.min()) / (heat.max() - heat.min())


def tile(picture, i, j, shape):
    top, left = i * (shape[0] + 1), j * (shape[1] + 1)
    return picture[top : top + shape[0], left : left + shape[1]]


@pytest.mark.parametrize(
    "classifier, query",
    [
        pytest.param("token", None, marks=pytest.mark.slow),
        ("gap", (6, 0)),
        pytest.param("token", (2, 9), marks=pytest.mark.slow),
        pytest.param("gap", None, marks=pytest.mark.slow),
    ],
)
def test_every_layer_and_head(classifier, query):
    model = tiny(classifier=classifier)
    prefix = int(classifier == "token")
    picture = analysis.attention_figure(model, IMAGES[0], query).axes[0].images[0].get_array()
    maps = analysis.attention_maps(model, IMAGES[:1])
    assert picture.shape == (2 * 8 - 1, 3 * 12 - 1)
    for i, weights in enumerate(maps):
        for j, head in enumerate(weights[0]):
            row = head[prefix + query[0] * 11 + query[1]] if query else head[0] if prefix else head.mean(axis=0)
            np.testing.assert_allclose(tile(picture, i, j, (7, 11)), scaled(row[prefix:].reshape(7, 11)), atol=1e-5)
    assert np.ma.getmaskarray(picture)[7].all() and np.ma.getmaskarray(picture)[:, 11].all()


def test_filters_in_colour_and_grey(model):
    figure = analysis.filters_figure(model)
    filters = analysis.embedding_filters(model)  # all that 24 filters have, when their mean is taken off
    shown = figure.axes[0].images[0].get_array()
    assert shown.shape == (4 * 4 - 1, 7 * 6 - 1, 4)
    for k in (0, 8, 22):
        expected = filters[k] / np.abs(filters[k]).max() / 2 + 0.5
        found = tile(shown, k // 7, k % 7, (3, 5))
        np.testing.assert_allclose(found[..., :3], expected, atol=1e-5)
        assert (found[..., 3] == 1).all()
    assert not shown[3].any() and figure.axes[0].get_title().startswith("RGB embedding filters\n(first 23 ")
    two = montage(RNG.normal(size=(3, 5, 5, 2)))
    assert two.shape == (5, 17, 4) and (two[..., 0] == two[..., 2]).all()


@pytest.mark.parametrize("kind", ["learned_1d", "learned_2d"])
def test_a_tile_a_patch(kind):
    model = tiny(position_embedding=kind)
    axes = analysis.position_figure(model).axes[0]
    similarity = analysis.position_similarity(model)
    picture = axes.images[0].get_array()
    for i, j in ((0, 0), (2, 9), (6, 10)):
        np.testing.assert_allclose(tile(picture, i, j, (7, 11)), similarity[i, j], atol=1e-6)
    assert axes.images[0].get_clim() == (-1, 1)
    assert [t.get_text() for t in axes.get_xticklabels()] == ["1", "3", "5", "7", "9", "11"]
    assert axes.get_xticks()[-1] == 10 * 12 + 5 and len(axes.get_yticks()) == 7


def test_relative_positions_are_a_matrix_of_offsets():
    model = tiny(position_embedding="relative")
    axes = analysis.position_figure(model, layer=1).axes[0]
    np.testing.assert_array_equal(axes.images[0].get_array(), analysis.position_similarity(model, 1))
    assert tuple(axes.images[0].get_extent()) == (-76.5, 76.5, 76.5, -76.5)


def test_a_point_for_each_head(model):
    axes = analysis.distance_figure(model, IMAGES).axes[0]
    distances = analysis.attention_distance(model, IMAGES)
    *heads, mean = axes.lines
    for j, line in enumerate(heads):
        assert list(line.get_xdata()) == [1, 2]
        np.testing.assert_allclose(line.get_ydata(), distances[:, j])
    assert len(heads) == 3 and axes.get_ylim()[1] > distances.max()
    np.testing.assert_allclose(mean.get_ydata(), distances.mean(axis=1))


@pytest.mark.slow
def test_figure_7_of_a_nested_model(model, tmp_path):
    nested = keras.Sequential([keras.Input((21, 55, 3)), vitkeras.with_new_head(model, 3)])
    figure = analysis.figure_7(nested, IMAGES)
    left, middle, right, _ = figure.axes
    similarity = analysis.position_similarity(model)
    np.testing.assert_allclose(tile(middle.images[0].get_array(), 3, 8, (7, 11)), similarity[3, 8], atol=1e-6)
    np.testing.assert_allclose(right.lines[1].get_ydata(), analysis.attention_distance(model, IMAGES)[:, 1], atol=1e-4)
    assert left.images[0].get_array().shape[-1] == 4
    figure.savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes()[1:4] == b"PNG"


@pytest.mark.slow
def test_figure_7_of_a_hybrid_without_positions():
    hybrid = vitkeras.VisionTransformer(
        (64, 96, 3), 2, 1, 24, 3, 40, stem_blocks=(), stem_width_factor=0.5, classifier="gap", position_embedding="none"
    )
    left, middle, right = analysis.figure_7(hybrid, RNG.normal(size=(1, 64, 96, 3)), count=5).axes
    assert middle.texts[0].get_text() == "no learned position embedding:\nnothing to compare"
    assert left.images[0].get_array().shape == (7, 5 * 8 - 1, 4) and len(right.lines) == 4


@pytest.mark.slow
def test_figure_10_has_a_panel_a_model():
    models = {kind: tiny(position_embedding=kind) for kind in ("learned_1d", "learned_2d", "relative", "none")}
    figure = analysis.figure_10(models)
    panels = {axes.get_title(): axes for axes in figure.axes if axes.get_title()}
    assert list(panels) == list(models)
    assert panels["relative"].images[0].get_array().shape == (153, 153)
    assert panels["none"].texts[0].get_text().startswith("no learned position embedding") and not panels["none"].images
    assert panels["learned_2d"].images[0].get_array().shape == (7 * 8 - 1, 11 * 12 - 1)


def test_refusals(model):
    resnet = vitkeras.models.ResNet((64, 96, 3), (1,), 0.5, classes=7)
    axial = vitkeras.models.AxialViT((21, 55, 3), (3, 5), 1, 12, 3, 17, classes=7)
    with pytest.raises(ValueError, match="model must hold a MultiHeadSelfAttention layer, 'resnet' holds none"):
        analysis.rollout_figure(resnet, np.zeros((1, 64, 96, 3)))
    with pytest.raises(ValueError, match="axial attention has no rollout"):
        analysis.attention_figure(axial, IMAGES[0])
    with pytest.raises(ValueError, match="'vision_transformer[_0-9]*' has none"):
        analysis.position_figure(tiny(position_embedding="none"))
    with pytest.raises(ValueError, match=r"images must be an array .* received shape \(21, 55, 3\)"):
        analysis.rollout_figure(model, IMAGES[0])
    with pytest.raises(ValueError, match="pictures must be one for each of the 2 images, received 1"):
        analysis.rollout_figure(model, IMAGES, [np.zeros((4, 4, 3), "uint8")])
    with pytest.raises(ValueError, match=r"pictures must be uint8 arrays .* received float64 \(4, 4, 3\)"):
        analysis.rollout_figure(model, IMAGES[:1], [np.zeros((4, 4, 3))])
    with pytest.raises(ValueError, match="image must be a single image, received 2"):
        analysis.attention_figure(model, IMAGES)
    with pytest.raises(ValueError, match=r"query must be None or \(row, column\) in a grid of \(7, 11\).* \(7, 0\)"):
        analysis.attention_figure(model, IMAGES[0], (7, 0))
    with pytest.raises(ValueError, match=r"head_fusion must be one of \('mean', 'max', 'min'\), received 'sum'"):
        analysis.rollout_figure(model, IMAGES, head_fusion="sum")
    with pytest.raises(ValueError, match=r"models must be a dict of title -> keras.Model, received \[\]"):
        analysis.figure_10([])


def test_without_matplotlib_the_extra_is_named(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r'a figure needs matplotlib: pip install "vitkeras\[recipes\]"'):
        analysis.filters_figure(model)


def test_no_global_state_is_left(model):
    """No pyplot figure that would have to be closed, nor another backend."""
    analysis.filters_figure(model)
    pyplot = sys.modules.get("matplotlib.pyplot")
    assert pyplot is None or not pyplot.get_fignums()
