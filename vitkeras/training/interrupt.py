"""Stopping a run from outside: SIGTERM and SIGINT set a flag that the loop reads between two chunks of steps."""

import signal
import threading

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopSignal:
    """While entered, the first SIGTERM or SIGINT only sets `requested`; a second one acts as it did before.

    Python lets only the main thread handle signals. Entered in another thread, nothing is installed, and only
    `request()` sets the flag.

    Attributes:
        requested: bool.
        reason: str, the signal's name, or None.

    Example:
        >>> with StopSignal() as stop:
        ...     signal.raise_signal(signal.SIGTERM)
        ...     print(stop.requested, stop.reason)
        True SIGTERM
    """

    def __init__(self):
        self.reason = None
        self._before = {}

    @property
    def requested(self):
        return self.reason is not None

    def request(self, reason="request"):
        """Sets the flag; `reason` is a str for the run's last line."""
        self.reason = reason

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._handle) for number in SIGNALS}
        return self

    def __exit__(self, *_):
        self._restore()

    def _handle(self, number, _):
        self.request(signal.Signals(number).name)
        self._restore()  # somebody who asks twice is not kept waiting for the chunk to end

    def _restore(self):
        for number, handler in self._before.items():
            # None: the handler was not installed from Python, so it can't be put back from here either.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._before = {}
