"""`make demo`, with two epochs: both files, the table and the page."""

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Page(HTMLParser):
    """Counts the elements and keeps what pictures point to."""

    def __init__(self):
        super().__init__()
        self.counts, self.pictures, self.open = {}, [], []

    def handle_starttag(self, tag, attributes):
        self.counts[tag] = self.counts.get(tag, 0) + 1
        if tag == "img":
            self.pictures.append(dict(attributes))
        elif tag not in ("meta", "html"):  # elements without an end tag here
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag != "html":
            assert self.open.pop() == tag


@pytest.mark.slow
def test_the_demo_goes_from_training_to_the_report(tmp_path):
    out = tmp_path / "demo"
    command = [sys.executable, os.path.join(REPOSITORY, "examples", "demo.py"), "--out", str(out), "--epochs", "2"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]

    results = json.loads((out / "results.json").read_text())
    rows = {row["model"]: row for row in results["rows"]}
    assert results["test_images"] == 360 and list(rows) == ["keras", "fp32", "int8_dynamic"]
    accuracy = json.loads((out / "run" / "metrics.json").read_text())["accuracy"]
    assert rows["keras"]["accuracy"] == pytest.approx(accuracy)
    assert rows["fp32"]["accuracy"] == rows["keras"]["accuracy"] and rows["fp32"]["agreement"] == 1.0
    assert rows["int8_dynamic"]["agreement"] >= 0.95
    for name in ("fp32", "int8_dynamic"):
        assert rows[name]["bytes"] == os.path.getsize(out / f"digits_{name}.tflite")
        assert rows[name]["milliseconds"] > 0

    for row in rows.values():  # the table on the terminal
        assert re.search(rf"^{row['model']} +{100 * row['accuracy']:.2f}%", done.stdout, re.MULTILINE)

    page = Page()
    page.feed((out / "report.html").read_text(encoding="utf-8"))
    assert page.open == []
    assert page.counts["figure"] == 40 and len(page.pictures) == 41 and page.counts["tr"] == 4
    for picture in page.pictures:
        assert picture["src"].startswith("data:image/png;base64,") and picture["alt"]
    assert not re.search(r"(src|href)=\"http", (out / "report.html").read_text(encoding="utf-8"))
    assert not list(out.glob("*.part"))


def test_bad_arguments_are_one_sentence(tmp_path):
    command = [sys.executable, os.path.join(REPOSITORY, "examples", "demo.py"), "--out", str(tmp_path), "--epochs", "0"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert (
        "error: train.epochs must be above 0 and finite, received 0.0." in done.stderr
        and "Traceback" not in done.stderr
    )
