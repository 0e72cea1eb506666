"""Downloads: whole or not at all, resumed only from the very same file; every failure is one sentence."""

import os
import re
import threading
from pathlib import Path

import keras
import pytest
from download_server import CONTENT, Server

import vitkeras
from vitkeras.checkpoints import cache_lock, transfer
from vitkeras.checkpoints.download import fetch

OTHER = CONTENT[::-1]
CUT = len(CONTENT) // 3


@pytest.fixture
def server(monkeypatch, tmp_path):
    monkeypatch.undo()
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "home"))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    keras.config.disable_interactive_logging()
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()
    keras.config.enable_interactive_logging()


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home" / "models" / "vitkeras"


def files(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def fails(server, kind, message, home):
    with pytest.raises(ConnectionError) as caught:
        fetch(f"{server.address}/{kind}/x.npz", "some/x.npz")
    text, target = str(caught.value), home / "some/x.npz"
    assert text.startswith(f"could not fetch {server.address}/{kind}/x.npz (") and message in text
    assert text.endswith(f"); on a machine without network put the file at {target}.") and "\n" not in text
    assert not target.exists() and not list(home.rglob("*.lock"))


def whole(server, kind, home):
    assert fetch(f"{server.address}/{kind}/x.npz", "some/x.npz") == str(home / "some/x.npz")
    assert (home / "some/x.npz").read_bytes() == server.content
    assert files(home) == ["some/x.npz"]


@pytest.mark.parametrize("kind", ["tagged", "dated", "untagged", "weak", "chunked", "noranges"])
def test_a_file_is_fetched_once(kind, server, home):
    for _ in range(2):
        path = fetch(f"{server.address}/{kind}/a%2Bb/x.npz", "a+b/x.npz")
        assert Path(path).read_bytes() == CONTENT
    assert server.requests == [(f"/{kind}/a%2Bb/x.npz", None)]
    assert files(home) == ["a+b/x.npz"]


@pytest.mark.parametrize("kind", ["tagged", "dated"])
def test_an_interrupted_transfer_is_continued(kind, server, home):
    server.cut = CUT
    fails(server, kind, f"the connection ended after {CUT} of {len(CONTENT)} bytes", home)
    [part] = files(home)
    assert re.fullmatch(r"some/x\.npz\.[0-9a-f]{16}\.part", part) and (home / part).read_bytes() == CONTENT[:CUT]
    server.cut = 2 * CUT
    fails(server, kind, f"the connection ended after {2 * CUT} of {len(CONTENT)} bytes", home)
    server.cut = 0
    whole(server, kind, home)
    assert [r for _, r in server.requests if r] == [f"bytes={CUT}-", f"bytes={2 * CUT}-"]


@pytest.mark.parametrize("kind", ["noranges", "untagged", "weak"])
def test_a_server_that_can_not_continue_starts_again(kind, server, home):
    server.cut = CUT
    fails(server, kind, f"the connection ended after {CUT} of {len(CONTENT)} bytes", home)
    assert len(files(home)) == (kind == "noranges"), "what can't be recognised again is not kept"
    server.cut = 0
    whole(server, kind, home)


@pytest.mark.parametrize("kind", ["tagged", "dated", "noranges"])
def test_a_part_of_another_version_is_never_continued(kind, server, home):
    server.cut = CUT
    fails(server, kind, "the connection ended", home)
    server.cut, server.content, server.changed_at = 0, OTHER, "Wed, 04 Mar 2020 07:11:13 GMT"
    whole(server, kind, home)
    assert not any(r for _, r in server.requests)


def test_a_part_of_a_file_of_another_length_is_never_continued(server, home):
    """The same time of change, as of two files that were copied with theirs."""
    server.cut = CUT
    fails(server, "dated", "the connection ended", home)
    server.cut, server.content = 0, CONTENT[:-5]
    whole(server, "dated", home)


def test_a_part_of_another_address_is_never_continued(server, home):
    server.cut = CUT
    fails(server, "tagged", "the connection ended", home)
    server.cut = 0
    whole(server, "again", home)
    assert not any(r for _, r in server.requests)


def test_a_file_that_changes_between_the_two_requests(server, home, monkeypatch):
    server.cut = CUT
    fails(server, "tagged", "the connection ended", home)
    server.cut, real = 0, transfer._open

    def changing(url, headers=None):
        if headers:
            server.content = OTHER
        return real(url, headers)

    monkeypatch.setattr(transfer, "_open", changing)
    fails(server, "tagged", "the file on the server changed between two requests; try again", home)
    monkeypatch.undo()
    monkeypatch.setenv("KERAS_HOME", str(home.parent.parent))
    whole(server, "tagged", home)


def test_a_server_that_sends_another_part_than_asked(server, home):
    server.cut = CUT
    fails(server, "wrongrange", "the connection ended", home)
    server.cut = 0
    message = f"the server sent 'bytes {CUT + 1}-{len(CONTENT) - 1}/{len(CONTENT)}' instead of 'bytes {CUT}-"
    fails(server, "wrongrange", message, home)


def test_a_part_that_is_whole_or_too_long(server, home):
    server.cut = CUT
    for content in (CONTENT, CONTENT + b"more"):
        fails(server, "tagged", "the connection ended", home)
        [part] = files(home)
        (home / part).write_bytes(content)
        server.cut = 0
        whole(server, "tagged", home)
        (home / "some/x.npz").unlink()
        server.cut = CUT


def test_chunks_that_end_early(server, home):
    server.cut = 1
    fails(server, "chunked", "IncompleteRead", home)
    assert not files(home)


FAILURES = {
    "none": "HTTP Error 404: Not Found",
    "proxy": "HTTP Error 407: Proxy Authentication Required",
    "html": "the server, or one on the way, answered with a web page instead of the file",
    "gzip": "the server, or one on the way, answered with gzip content instead of the file",
    "nolength": "the server must say how long the file is, received Content-Length ''",
}


@pytest.mark.parametrize("kind", FAILURES)
def test_answers_that_are_no_file(kind, server, home):
    fails(server, kind, FAILURES[kind], home)
    assert not files(home)


def test_a_refused_connection(server, home):
    server.shutdown()
    server.server_close()
    fails(server, "tagged", "Connection refused", home)


@pytest.mark.parametrize("url", ["http://no-such-host.invalid/x.npz", "nonsense", "http://[/x"])
def test_addresses_of_nothing(url, server, home, monkeypatch):
    with pytest.raises(ConnectionError, match=re.escape(f"could not fetch {url} (")):
        fetch(url, "some/x.npz")
    assert not files(home)


def test_a_proxy_that_is_not_there(server, home, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with pytest.raises(ConnectionError, match=re.escape(f"put the file at {home / 'some/x.npz'}.")):
        fetch("http://example.invalid/x.npz", "some/x.npz")


def test_a_connection_that_stands_still(server, home, monkeypatch):
    monkeypatch.setattr(transfer, "TIMEOUT_SECONDS", 0.2)
    server.delay = 0.8
    fails(server, "tagged", f"after 0 of {len(CONTENT)} bytes: timed out", home)


def test_an_interrupt_keeps_what_is_there(server, home, monkeypatch):
    def interrupted(name, size):
        def report(done):
            raise KeyboardInterrupt

        return report

    with pytest.raises(KeyboardInterrupt):
        os.makedirs(home / "some")
        transfer.transfer(f"{server.address}/tagged/x.npz", str(home / "some/x.npz"), interrupted)
    [part] = files(home)
    assert 0 < (home / part).stat().st_size < len(CONTENT)
    whole(server, "tagged", home)
    assert server.requests[-1][1] == f"bytes={transfer.BLOCK_BYTES}-"


def test_processes_that_want_the_same_file_wait_for_the_first(server, home):
    server.delay = 0.3
    found = []

    def get():
        found.append(fetch(f"{server.address}/tagged/x.npz", "some/x.npz"))

    threads = [threading.Thread(target=get) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [str(home / "some/x.npz")] * 4 and len(server.requests) == 1
    assert files(home) == ["some/x.npz"] and Path(found[0]).read_bytes() == CONTENT


def test_the_lock_of_a_dead_process_holds_nobody_up(server, home):
    (home / "some").mkdir(parents=True)
    (home / "some/x.npz.lock").touch()
    whole(server, "tagged", home)


def test_without_file_locks_it_works_too(server, home, monkeypatch):
    monkeypatch.setattr(cache_lock, "fcntl", None)
    whole(server, "tagged", home)


def test_progress_is_shown(server, home, capsys):
    keras.config.enable_interactive_logging()
    whole(server, "tagged", home)
    out = capsys.readouterr().out
    assert out.startswith("Downloading x.npz\n") and f"{len(CONTENT)}/{len(CONTENT)}" in out


def test_addresses_of_one_file_name_do_not_share_a_cached_file(server, home):
    """Read back through the loader, which refuses the content and names the path that it read."""
    model = vitkeras.VisionTransformer((32, 32, 3), 16, 1, 6, 3, 5)
    paths = []
    for folder, server.content in (("tagged", b"x" * 5003), ("other", b"y" * 5003), ("tagged", b"z" * 5003)):
        with pytest.raises(ValueError, match="is truncated or not an .npz file") as caught:
            vitkeras.models.weights.load_weights(model, f"{server.address}/{folder}/x.npz?download=1")
        paths.append(re.search(r"'(.*x\.npz)'", str(caught.value)).group(1))
    assert paths[0] == paths[2] != paths[1]
    contents = [Path(path).read_bytes()[:1] for path in paths]
    assert contents == [b"x", b"y", b"x"] and len(server.requests) == 2
