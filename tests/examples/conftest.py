"""The page of examples/web in a browser: its server, and steps for a driver that looks at it."""

import functools
import http.server
import json
import os
import shutil
import subprocess
import threading

import pytest

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WEB = os.path.join(REPOSITORY, "examples", "web")
DRIVER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "page_driver.mjs")


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture(scope="session")
def chromium():
    """Path of Chromium. The test fails without it, Node.js or the packages: nobody asks for a web test in vain."""
    programs = {name: shutil.which(name) for name in ("node", "chromium")}
    missing = [name for name, path in programs.items() if path is None]
    if not os.path.isdir(os.path.join(WEB, "node_modules", "playwright-core")):
        missing.append("examples/web/node_modules")
    if missing:
        pytest.fail(f"missing: {', '.join(missing)}; `make test-web` installs them")
    return programs["chromium"]


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """(folder, address) of a served copy of the example; the packages are linked."""
    folder = tmp_path_factory.mktemp("site")
    for name in os.listdir(WEB):
        if name.endswith((".html", ".css", ".js")):
            shutil.copy(os.path.join(WEB, name), folder)
    os.symlink(os.path.join(WEB, "node_modules"), folder / "node_modules")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def visit(chromium, site):
    """`visit(steps)`: what the page shows after each step; nothing may come from elsewhere or fail unseen."""

    def run(steps):
        done = subprocess.run(
            ["node", DRIVER, WEB, chromium], input=json.dumps(steps), capture_output=True, text=True, timeout=150
        )
        assert done.returncode == 0, done.stderr[-3000:]
        told = json.loads(done.stdout)
        assert told["faults"] == []
        assert [url for url in told["requests"] if not url.startswith((site[1], "data:", "blob:"))] == []
        return told["results"]

    return run
