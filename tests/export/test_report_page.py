"""The HTML report: whole, escaped, without outside parts."""

import base64
import dataclasses
import html.parser
import io
import json

import numpy as np
import pytest
from PIL import Image

from vitkeras.export import ExportReport, cli
from vitkeras.export.disagreements import Answer, Disagreement, find_disagreements

PIXELS = np.random.default_rng(3).integers(0, 256, (11, 17, 3)).astype("uint8")


def report(**changes):
    values = {
        "path": "a<b>.tflite",
        "preset": "int8_dynamic",
        "output": "logits",
        "size_bytes": 2_000_000,
        "weight_bytes": 1_900_000,
        "gzip_bytes": 1_800_000,
        "zero_weights": 0.0,
        "partitions": 1,
        "fully_accelerated": True,
        "operators": {"ADD": 3, "GELU": 2},
        "images": 240,
        "synthetic": False,
        "max_abs_difference": 0.02,
        "cosine": 0.9991,
        "sqnr_db": 34.2,
        "top1_agreement": 0.9875,
        "latency_ms": 23.4,
        "num_threads": 2,
        "sha256": "0" * 64,
        "versions": {"keras": "3.15"},
        "disagreements": (Disagreement(7, PIXELS, Answer(0, "rose & co", 3.25), Answer(1, None, 3.5)),),
        "layer_snr": (("block <0>", 40.0), ("block 1", 10.0), ("exact", float("inf")), ("lost", -3.0)),
        **changes,
    }
    return ExportReport(**values)


class Reader(html.parser.HTMLParser):
    """Collects the text, the addresses and the tags; fails on a tag that is closed wrongly."""

    def __init__(self, page):
        super().__init__()
        self.text, self.addresses, self.open, self.seen = "", [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        self.addresses += [value for name, value in attributes if name in ("src", "href")]
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data if self.open[-1:] != ["style"] else ""


def test_the_page_is_whole_and_alone():
    page = report().as_html()
    read = Reader(page)
    assert read.open == [] and "script" not in read.seen and "link" not in read.seen
    assert "@import" not in page and "url(" not in page and "prefers-color-scheme: dark" in page
    for part in ("a<b>.tflite", "rose & co (3.25)", "class 1 (3.5)", "block <0>", "34.2 dB", "98.8 %", "240 images"):
        assert part in read.text
    (address,) = read.addresses
    picture = Image.open(io.BytesIO(base64.b64decode(address.removeprefix("data:image/png;base64,"))))
    np.testing.assert_array_equal(np.asarray(picture), PIXELS)
    assert [f"width: {width}%" in page for width in ("100.0", "25.0", "0.0")] == [True] * 3


def test_parts_without_content_are_left_out():
    text = Reader(report(disagreements=(), layer_snr=(), synthetic=True).as_html()).text
    assert "disagree" not in text and "Layers" not in text and "240 synthetic images" in text
    assert text.count("passed") == 4 == Reader(report().as_html()).text.count("passed") - 1  # agreement is required
    assert "failed" not in text and "failed" in Reader(report(partitions=2).as_html()).text


def test_other_channels_make_pictures():
    for channels in (1, 4):
        found = Disagreement(0, np.zeros((5, 7, channels), "uint8"), Answer(0, None, 1.0), Answer(1, None, 1.0))
        assert "data:image/png" in report(disagreements=(found,)).as_html()


def test_json_has_answers_and_layers_but_no_pictures():
    values = json.loads(json.dumps(report().as_dict()))
    assert set(values) == {field.name for field in dataclasses.fields(ExportReport)}
    assert values["disagreements"] == [
        {
            "position": 7,
            "model": {"index": 0, "label": "rose & co", "score": 3.25},
            "file": {"index": 1, "label": None, "score": 3.5},
        }
    ]
    assert values["layer_snr"][2] == ["exact", None]


def test_disagreements_are_found_and_ties_are_none():
    reference = np.array([[1.0, 2.0, 0.0], [3.0, 3.0, 0.0], [0.0, 1.0, 5.0]], "float32")
    received = np.array([[2.5, 2.0, 0.0], [2.9, 3.1, 0.0], [0.0, 1.0, 5.0]], "float32")
    images = np.stack([PIXELS / 127.5 - 1] * 3)
    (found,) = find_disagreements(images, reference, received, ["a", "b", "c"], pixel_input=False)
    assert (found.position, found.model, found.file) == (0, Answer(1, "b", 2.0), Answer(0, "a", 2.5))
    np.testing.assert_array_equal(found.pixels, PIXELS)
    many = np.tile(reference[:1], (20, 1)), np.tile(received[:1], (20, 1))
    assert [d.position for d in find_disagreements(np.zeros((20, 2, 2, 3)), *many)] == list(range(12))


@pytest.mark.parametrize("option", ["--html", "--about", "--output", "--preset", "--k", "--limit", "--threads"])
def test_a_saved_model_has_no_such_option(make, tmp_path, capsys, option):
    make().save(tmp_path / "m.keras")
    arguments = ["--model", str(tmp_path / "m.keras"), "--out", str(tmp_path / "folder"), option]
    value = {"--html": str(tmp_path / "r.html"), "--about": "author=me", "--output": "logits", "--preset": "fp32"}.get(
        option, "3"
    )
    assert cli.main([*arguments, value]) == 2
    assert f"error: {option} is for a .tflite output, received --out '" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["m.keras"]


def test_the_command_writes_page_card_and_outputs(make, tmp_path, capsys):
    from vitkeras.export import read_card

    make().save(tmp_path / "m.keras")
    arguments = ["--model", tmp_path / "m.keras", "--out", tmp_path / "m.tflite", "--html", tmp_path / "r.html"]
    arguments += ["--about", "author=the garden", "--about", "license=CC0", "--output", "softmax"]
    arguments += ["--input-dtype", "uint8", "--preset", "fp32"]
    assert cli.main([str(argument) for argument in arguments]) == 0
    assert "image 0...255 as uint8 -> probabilities" in capsys.readouterr().out
    assert "1 XNNPACK" not in (tmp_path / "r.html").read_text() and Reader((tmp_path / "r.html").read_text()).open == []
    card = read_card(tmp_path / "m.tflite")
    assert (card["author"], card["license"], card["input_dtype"]) == ("the garden", "CC0", "uint8")
    assert cli.main([*map(str, arguments[:4]), "--overwrite", "--about", "author"]) == 2
    assert "--about must be FIELD=TEXT, received 'author'" in capsys.readouterr().err
