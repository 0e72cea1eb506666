"""The report of `recipes.inspect` in Chromium: whole without a network, light and dark, on a phone and by keyboard."""

import json
import os
import subprocess

import numpy as np
import pytest

import vitkeras
from vitkeras.recipes import inspect

pytestmark = [pytest.mark.slow, pytest.mark.web]

FOLDER = os.path.dirname(os.path.abspath(__file__))
WEB = os.path.join(os.path.dirname(os.path.dirname(FOLDER)), "examples", "web")
DRIVER = os.path.join(FOLDER, "explorer_driver.mjs")
LOOKS = """(() => {
  const style = (element, name) => getComputedStyle(element)[name];
  const images = [...document.querySelectorAll("img")];
  const shown = images.filter((image) => image.checkVisibility());
  return {
    broken: images.filter((image) => image.complete && !image.naturalWidth).length,
    empty: shown.filter((image) => image.getBoundingClientRect().height < 20).length,
    images: images.length,
    ink: style(document.body, "color"),
    paper: style(document.body, "backgroundColor"),
    panel: document.querySelector("picture img").currentSrc,
    open: [...document.querySelectorAll("details[name=heads-0]")].map((part) => part.open),
    focus: document.activeElement.textContent.trim().slice(0, 7),
    wider: document.documentElement.scrollWidth > document.documentElement.clientWidth,
    low: [...document.querySelectorAll("summary")].filter((x) => x.getBoundingClientRect().height < 43).length,
    ratio: ((box) => box.width / box.height)(document.querySelector("details[open] img").getBoundingClientRect()),
  };
})()"""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Path of a report of one wide photo."""
    from PIL import Image

    folder = tmp_path_factory.mktemp("report")
    model = vitkeras.VisionTransformer((24, 40, 3), 8, 3, 24, 3, 17, classes=6, classifier_activation=None)
    model.save(folder / "model.keras")
    pixels = np.random.default_rng(3).integers(0, 256, (90, 240, 3)).astype("uint8")
    Image.fromarray(pixels).save(folder / "wide.png")
    out = folder / "report.html"
    arguments = ["--model", str(folder / "model.keras"), "--image", str(folder / "wide.png"), "--out", str(out)]
    assert inspect.main(arguments) == 0
    return out


def test_light_dark_phone_and_keyboard(visit_file, report):
    url = report.as_uri()
    look = {"do": "evaluate", "expression": LOOKS}
    _, light, _, dark, _, phone, _, pressed = visit_file(
        report,
        [
            {"do": "open", "url": url},
            look,
            {"do": "open", "url": url, "scheme": "dark"},
            look,
            {"do": "open", "url": url, "width": 360, "height": 740, "scheme": "dark"},
            look,
            {"do": "press", "keys": ["Tab", "Enter"]},
            look,
        ],
    )
    assert light["images"] == 4 + 3 + 3 * 3 + 3
    for shown in (light, dark, phone, pressed):
        assert (shown["broken"], shown["empty"], shown["wider"], shown["low"]) == (0, 0, False, 0)
        assert shown["ratio"] == pytest.approx(240 / 90, abs=0.05)
    assert light["paper"] == "rgb(246, 247, 249)" and dark["paper"] == "rgb(18, 21, 26)"
    assert light["ink"] != dark["ink"] and light["panel"] != dark["panel"]
    assert light["open"] == [False, False, True]
    # The first stop of the keyboard is the first layer; opening it closes the last one.
    assert pressed["focus"] == "Layer 1" and pressed["open"] == [True, False, False]


@pytest.fixture
def visit_file(chromium):
    """`visit_file(path, steps)`: what each step returns; the page may ask for nothing but itself."""

    def run(path, steps):
        done = subprocess.run(
            ["node", DRIVER, WEB, chromium], input=json.dumps(steps), capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr[-3000:]
        told = json.loads(done.stdout)
        assert told["faults"] == []
        assert {url for url in told["requests"] if not url.startswith("data:")} <= {path.as_uri()}
        return told["results"]

    return run
