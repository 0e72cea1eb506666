"""examples/explorer: its numbers are the library's, and in Chromium its sliders show them."""

import importlib.util
import json
import os
import re
import subprocess

import pytest

from vitkeras import analysis

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WEB = os.path.join(REPOSITORY, "examples", "web")
FOLDER = os.path.join(REPOSITORY, "examples", "explorer")
DRIVER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "explorer_driver.mjs")


@pytest.fixture(scope="module")
def build():
    """examples/explorer/build.py as a module."""
    spec = importlib.util.spec_from_file_location("explorer_build", os.path.join(FOLDER, "build.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "image, patch, side",
    [(224, 14, 224), (384, 14, 378), (512, 14, 518), (384, 28, 392), (512, 28, 504), (384, 56, 392), (512, 56, 504)],
)
def test_images_get_the_nearest_side_that_patches_fill(build, image, patch, side):
    assert build.nearest_side(image, patch) == side


def test_the_numbers_are_the_librarys(build):
    values = build.numbers({"Tiny": "vit_ti16"}, (224, 512), (14, 56))
    cost = analysis.variant_cost("vit_ti16", 518, patch_size=14)
    shown = values["costs"][0][1][0]
    assert shown["tokens"] == 37 * 37 and shown["parameters"] == cost.parameters
    assert sum(shown["flops"].values()) == cost.flops and shown["activations"] == 4 * cost.activations
    assert (shown["fp32"], shown["int8"]) == tuple(analysis.exported_size(cost, p) for p in ("fp32", "int8_dynamic"))
    assert values["crossings"] == [6 * 192] and len(values["runs"]) == 18
    html = build.page(values)
    (data,) = re.findall(r'<script id="values" type="application/json">(.*?)</script>', html, re.DOTALL)
    assert json.loads(data) == json.loads(json.dumps(values))
    # Nothing is loaded from anywhere, and the browser is told so.
    assert re.findall(r"(?:src|href)=\"([^\"]*)\"", html) == ["data:,"] and "default-src 'none'" in html
    assert "url(" not in html and "@import" not in html and "/* s" not in html


def test_a_folder_that_is_not_there(build, tmp_path, capsys):
    assert build.main(["--out", str(tmp_path / "missing" / "explorer.html")]) == 2
    assert "--out must be a file in a folder that exists, received" in capsys.readouterr().err
    assert build.main(["--out", str(tmp_path)]) == 2
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def page(build, tmp_path_factory):
    """Path of the built page."""
    path = tmp_path_factory.mktemp("explorer") / "explorer.html"
    assert build.main(["--out", str(path)]) == 0
    assert [file.name for file in path.parent.iterdir()] == ["explorer.html"]
    return path


@pytest.fixture
def visit(chromium, page):
    """`visit(steps)`: what the page shows after each step; it may ask for nothing but itself."""

    def run(steps):
        done = subprocess.run(
            ["node", DRIVER, WEB, chromium], input=json.dumps(steps), capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr[-3000:]
        told = json.loads(done.stdout)
        assert told["faults"] == [] and set(told["requests"]) <= {page.as_uri(), "data:,"}
        return told["results"]

    return run


def size(count):
    return f"{count / 1e6:,.1f} MB" if count < 1e9 else f"{count / 1e9:,.2f} GB"


def assert_shows(shown, model, patch, side):
    """The figures of a model are those that the library calculates."""
    cost = analysis.variant_cost(model, side, patch_size=patch)
    rows = side // patch
    assert shown["tokens"].split("\n") == [f"{rows * rows:,}", f"{rows} × {rows} patches"]
    assert shown["parameters"] == f"{cost.parameters:,}"
    assert shown["flops"] == f"{cost.flops / 1e9:,.2f} GFLOP"
    assert shown["share"].split("\n")[0] == f"{100 * cost.by_kind['attention'] / cost.macs:.1f} %"
    assert shown["int8"] == size(analysis.exported_size(cost))
    assert shown["fp32"] == size(analysis.exported_size(cost, "fp32"))
    assert shown["activations"].split("\n") == [size(4 * cost.activations), "of one image"]
    names = {"patch": "patch embedding", "linear": "linear layers", "attention": "attention products"}
    for kind, name in names.items():
        macs = cost.by_kind[kind]
        assert shown[f"part-{kind}"] == f"{name} {2 * macs / 1e9:,.2f} GFLOP, {100 * macs / cost.macs:.1f} %"
    shares = [cost.by_kind[kind] / cost.macs for kind in names]
    assert [bar / sum(shown["bars"]) for bar in shown["bars"]] == pytest.approx(shares, abs=0.01)


@pytest.mark.slow
@pytest.mark.web
def test_sliders_show_what_is_calculated(visit, page):
    opened, patch4, image512, huge, patch14, patch56, tiny = visit(
        [
            {"do": "open", "url": page.as_uri()},
            {"do": "set", "slider": "patch", "value": 0},
            {"do": "set", "slider": "image", "value": 2},
            {"do": "set", "slider": "model", "value": 4},
            {"do": "set", "slider": "patch", "value": 2},
            {"do": "set", "slider": "patch", "value": 6},
            {"do": "set", "slider": "model", "value": 0},
        ]
    )
    assert_shows(opened, "vit_b16", 16, 224)
    assert opened["spoken"] == {
        "model": "ViT-B",
        "patch": "16 pixels",
        "image": "224 pixels",
        "set": "ImageNet, 1.3 million images",
        "budget": "794 exaFLOPs",
    }
    crossing = "Attention costs as much as a block’s linear layers at {} tokens."
    assert opened["size-note"] == crossing.format("4,608")
    assert_shows(patch4, "vit_b16", 4, 224)
    assert_shows(image512, "vit_b16", 4, 512)
    assert_shows(huge, "vit_h14", 4, 512)
    assert_shows(patch14, "vit_h14", 14, 518)
    resized = "512 is no multiple of 14: images are resized to 518 pixels. "
    assert patch14["size-note"] == resized + crossing.format("7,680")
    assert_shows(patch56, "vit_h14", 56, 504)
    assert_shows(tiny, "vit_ti16", 56, 504)


@pytest.mark.slow
@pytest.mark.web
def test_the_gap_of_the_pre_training_sets(visit, page):
    sets = visit(
        [{"do": "open", "url": page.as_uri()}, *({"do": "set", "slider": "set", "value": value} for value in (1, 2))]
    )
    assert [shown["gap"].split("\n")[0] for shown in sets] == ["−1.38 points", "+1.18 points", "+2.97 points"]
    assert [shown["gap"].split()[-1] for shown in sets] == ["worse", "better", "better"]
    assert [shown["set-value"] for shown in sets] == [
        "ImageNet, 1.3 million images",
        "ImageNet-21k, 14 million images",
        "JFT-300M, 303 million images",
    ]
    assert sets[0]["accuracies"][-1] == ["ViT-H/14", "not trained"]
    assert sets[2]["accuracies"][2] == ["ViT-L/16", "87.12 %"]


@pytest.mark.slow
@pytest.mark.web
def test_the_budget(visit, page):
    values = {55: 1.75, 783: 2.9, 40: 1.65, 200: 2.3, 4262: 3.65}
    opened, small, large, none, two, all_ = visit(
        [
            {"do": "open", "url": page.as_uri()},
            *({"do": "set", "slider": "budget", "value": value} for value in values.values()),
        ]
    )
    assert opened == {**large, "accuracies": opened["accuracies"]}
    assert small["best-vit"].split("\n") == ["ViT-B/32, 7 epochs", "80.73 % for 55 exaFLOPs"]
    assert small["match"].split("\n") == ["R152x1, 7 epochs", "81.88 % for 141 exaFLOPs, 2.6 times"]
    assert small["best-hybrid"] == "none this cheap" and small["best-resnet"].startswith("R50x1, 7 epochs")
    assert (small["over"], small["best"]) == (16, 2)
    assert large["best-vit"].split("\n") == ["ViT-L/16, 7 epochs", "86.30 % for 783 exaFLOPs"]
    assert large["match"].split("\n") == ["R200x3, 14 epochs", "87.22 % for 3,306 exaFLOPs, 4.2 times"]
    assert large["best-hybrid"].startswith("R50x1+ViT-L/32") and large["best-resnet"].startswith("R152x2, 7 epochs")
    assert none["match"] == "no ViT to match" and none["over"] == 18
    assert two["best-vit"].startswith("ViT-L/32") and two["match"].startswith("R152x2, 7 epochs")
    assert all_["match"].split("\n") == ["none", "no ResNet of the table reaches 88.08 %"]
    assert all_["best-hybrid"].startswith("R50x1+ViT-L/16, 14 epochs") and all_["over"] == 0


@pytest.mark.slow
@pytest.mark.web
def test_by_keyboard_and_on_a_phone(visit, page):
    opened, *pressed, rows = visit(
        [
            {"do": "open", "url": page.as_uri(), "width": 360, "height": 740, "scheme": "dark"},
            {"do": "press", "keys": ["Tab", "ArrowRight"]},
            {"do": "press", "keys": ["Tab", "ArrowRight", "ArrowRight"]},
            {"do": "press", "keys": ["Tab", "End"]},
            {"do": "press", "keys": ["Tab", "ArrowRight"]},
            {"do": "press", "keys": ["Tab", "ArrowRight"]},
            {"do": "press", "keys": ["Tab", "Enter"]},
            {"do": "runs"},
        ]
    )
    assert [shown["focus"] for shown in pressed[:5]] == ["model", "patch", "image", "set", "budget"]
    assert_shows(pressed[0], "vit_l16", 16, 224)
    assert_shows(pressed[1], "vit_l16", 32, 224)
    assert_shows(pressed[2], "vit_l16", 32, 512)
    assert pressed[3]["gap"].startswith("+1.18") and pressed[4]["budget-value"] == "813 exaFLOPs"
    assert not any(shown["wider"] for shown in (opened, *pressed)) and opened["small"] == []
    table = analysis.pretraining_table()
    assert len(rows) == len(table)
    for text, run in zip(rows, table):
        assert text.startswith(run["name"]) and f"{run['exaflops']:,}{run['calculated']:,.1f}" in text
