"""A server of this machine that misbehaves as the first folder of a path says, for tests of downloads."""

import http.server
import re
import time

import numpy as np

CONTENT = np.random.default_rng(3).integers(0, 256, 300_007, dtype="uint8").tobytes()


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves the file of `server.content` as the first folder of the path says."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        server = self.server
        server.requests.append((self.path, self.headers.get("Range")))
        kind, content = self.path.split("/")[1], server.content
        if kind == "none":
            self.send_error(404, "Not Found")
            return
        if kind == "proxy":
            self.send_error(407, "Proxy Authentication Required")
            return
        start, tag = 0, f'"{hash(content) & 0xFFFF}"'
        match = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        wanted = self.headers.get("If-Range")
        validator = server.changed_at if kind == "dated" else tag
        if match and kind not in ("noranges", "untagged") and wanted == validator:
            start = int(match[1])
        self.send_response(206 if start else 200)
        if start:
            first = start + 1 if kind == "wrongrange" else start
            self.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
        if kind == "dated":
            self.send_header("Last-Modified", server.changed_at)
        elif kind == "weak":
            self.send_header("ETag", "W/" + tag)
        elif kind != "untagged":
            self.send_header("ETag", tag)
        if kind == "html":
            self.send_header("Content-Type", "text/html; charset=utf-8")
        if kind == "gzip":
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Connection", "close")
        self.close_connection = True
        if kind == "chunked":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            end = b"" if server.cut else b"0\r\n\r\n"
            self.wfile.write(b"%x\r\n%b\r\n" % (len(content), content) + end)
            return
        if kind != "nolength":
            self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        time.sleep(server.delay)
        stop = server.cut or len(content)
        try:
            self.wfile.write(content[start : max(stop, start)])
        except (BrokenPipeError, ConnectionResetError):
            server.requests.append("the client went away")

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    """Serves `content`.

    Attributes:
        requests: list of (path, Range header or None).
        cut: int, after how many bytes it hangs up, 0 for never.
        delay: float, seconds between the head of an answer and its content.
        changed_at: str, the time of change that it sends for "dated".
    """

    daemon_threads = False  # every answer ends before its test does

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests, self.content, self.cut, self.delay = [], CONTENT, 0, 0
        self.changed_at = "Tue, 03 Mar 2020 07:11:13 GMT"
        self.address = f"http://127.0.0.1:{self.server_address[1]}"
