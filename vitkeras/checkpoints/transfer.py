"""One file over HTTP: resumed only from a part of the very same file, moved into place only when whole."""

import contextlib
import hashlib
import http.client
import os
import re
import urllib.error
import urllib.request

BLOCK_BYTES = 2**18
TIMEOUT_SECONDS = 60  # without a byte
HEADERS = {"User-Agent": "vitkeras", "Accept-Encoding": "identity"}


class TransferError(Exception):
    """Why a file did not arrive."""


def transfer(url, target, progress):
    """Downloads `url` to `target`; the caller sees to it that no other process does the same.

    A part that is left carries in its name what the server said of the file: its address, length, and its strong
    `ETag` or else its time of change. So a part of another version is never continued, and is removed.

    Args:
        url: str.
        target: str, path; nothing lies there before the file is whole.
        progress: function from (name, bytes of the whole file or None) to a function of the bytes that are there.

    Raises:
        TransferError: for every failure of network, proxy and server, and for a file that ends early.
        OSError: if the disk fails.
    """
    with contextlib.ExitStack() as responses:
        response = responses.enter_context(_open(url))
        size, validator = _size(response), _validator(response)
        mark = None
        if None not in (size, validator):
            mark = hashlib.sha256(f"{url} {size} {validator}".encode()).hexdigest()[:16]
        part = f"{target}.{mark or os.getpid()}.part"
        _remove_parts(target, keep=part if mark else None)
        start = os.path.getsize(part) if os.path.isfile(part) else 0
        if start and start < size:
            response.close()
            response = responses.enter_context(_open(url, {"Range": f"bytes={start}-", "If-Range": validator}))
            start = _continues_at(response, start, size, validator)
        elif start != size:
            start = 0
        _receive(response, part, start, size, progress(os.path.basename(target), size), keeps=mark is not None)
    os.replace(part, target)


def _open(url, headers=None):
    try:
        response = urllib.request.urlopen(
            urllib.request.Request(url, headers={**HEADERS, **(headers or {})}), timeout=TIMEOUT_SECONDS
        )
    except (OSError, http.client.HTTPException, ValueError) as error:  # URLError and HTTPError are OSErrors
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        raise TransferError(_reason(error)) from error
    kind, encoding = (response.headers.get(name, "") for name in ("Content-Type", "Content-Encoding"))
    if kind.startswith("text/html") or encoding not in ("", "identity"):
        response.close()
        answer = f"{encoding} content" if encoding else "a web page"
        raise TransferError(f"the server, or one on the way, answered with {answer} instead of the file")
    return response


def _reason(error):
    return str(error) or type(error).__name__


def _size(response):
    """Bytes of the whole file; None for a chunked answer, whose end is marked."""
    if response.chunked:
        return None
    length = response.headers.get("Content-Length", "")
    if not re.fullmatch(r"\d+", length) or int(length) == 0:
        raise TransferError(f"the server must say how long the file is, received Content-Length {length!r}")
    return int(length)


def _validator(response):
    """What tells this version of the file from another, or None: a weak ETag doesn't."""
    tag = response.headers.get("ETag", "")
    if tag.startswith('"'):
        return tag
    return response.headers.get("Last-Modified")


def _continues_at(response, start, size, validator):
    """Where the answer to a request for the rest begins: there, or at 0 if the server sends the whole."""
    if response.status == 206:
        sent, wanted = response.headers.get("Content-Range"), f"bytes {start}-{size - 1}/{size}"
        if sent == wanted and _validator(response) in (validator, None):
            return start
        raise TransferError(f"the server sent {sent!r} instead of {wanted!r}")
    if (_size(response), _validator(response)) != (size, validator):
        raise TransferError("the file on the server changed between two requests; try again")
    return 0


def _receive(response, part, start, size, report, keeps):
    done = start
    try:
        with open(part, "ab" if start else "wb") as file:
            while done != size:
                try:
                    block = response.read(BLOCK_BYTES if size is None else min(BLOCK_BYTES, size - done))
                except (OSError, http.client.HTTPException) as error:
                    raise TransferError(f"after {done} of {size} bytes: {_reason(error)}") from error
                if not block and size is None:
                    break
                if not block:
                    raise TransferError(f"the connection ended after {done} of {size} bytes")
                file.write(block)
                done += len(block)
                report(done)
            file.flush()
            os.fsync(file.fileno())  # whole on the disk before it has its name
    except BaseException:
        if not keeps:
            os.remove(part)
        raise


def _remove_parts(target, keep):
    """Removes what interrupted transfers of other versions left."""
    folder, name = os.path.split(target)
    for entry in os.listdir(folder):
        path = os.path.join(folder, entry)
        if re.fullmatch(re.escape(name) + r"\.[0-9a-f]+\.part", entry) and path != keep:
            os.remove(path)
