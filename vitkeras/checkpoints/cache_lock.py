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
            # The process before this one removed the file that it had locked: then this lock is nobody's.
            if os.path.exists(path) and os.path.samestat(os.stat(path), os.fstat(stream.fileno())):
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
