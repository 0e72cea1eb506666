import io
import sys

import pytest

from vitkeras.export.progress import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_stages_and_images_are_counted_on_a_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress(True, stages=2) as bar:
        bar.stage("converting")
        assert bar.bar.n == 0
        bar.stage("checking")
        assert bar.bar.n == 1
        assert list(bar.images([4, 5])) == [4, 5]
    written = sys.stderr.getvalue()
    assert "converting" in written and "checking" in written and "running images" in written and "1/2" in written


def test_nothing_is_shown_elsewhere(monkeypatch, capsys):
    for shown in (True, False):
        with progress(shown, stages=2) as bar:
            bar.stage("converting")
            assert list(bar.images([4, 5])) == [4, 5]
    assert capsys.readouterr() == ("", "")


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with pytest.raises(ImportError, match=r'a progress bar needs tqdm: pip install "vitkeras\[export\]"'):
        with progress(True, stages=1):
            pass
    with progress(False, stages=1) as bar:
        bar.stage("converting")
