"""One process at a time for one file of the cache."""

import contextlib
import os

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None


@contextlib.contextmanager
def cache_lock(target):
    """Holds the lock of the file `target`, waiting for it; the operating system releases it if the process dies.

    On systems without `flock` there is no lock, and two processes that start together must be kept apart by the user.

    Args:
        target: str, path of the file; the lock lies beside it while it is held.
    """
    if fcntl is None:
        yield
        return
    path = target + ".lock"
    while True:
        stream = open(path, "ab")
        try:
            fcntl.flock(stream, fcntl.LOCK_EX)
            if _is_at(path, stream):
                break
        except BaseException:
            stream.close()
            raise
        stream.close()
    try:
        yield
    finally:
        os.remove(path)
        stream.close()


def _is_at(path, stream):
    """Whether the locked file is still the one of that name: its last holder removed it, and then it locks nothing."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(stream.fileno()))
    except FileNotFoundError:
        return False
