"""SIGTERM outside of the training loop, which saves first, ends a recipe as Ctrl-C does: by an exception."""

import contextlib
import signal
import threading


class Terminated(BaseException):
    """SIGTERM came; not an `Exception`, as `KeyboardInterrupt` is none."""


@contextlib.contextmanager
def unwound_by_sigterm():
    """Context in which the first SIGTERM raises `Terminated`, so that what was begun is undone; a second one kills.

    Nothing is installed outside of the main thread, or where somebody handles SIGTERM already.

    Example:
        >>> with contextlib.suppress(Terminated), unwound_by_sigterm():
        ...     signal.raise_signal(signal.SIGTERM)
        >>> signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        True
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def stop(number, frame):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise Terminated

    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
