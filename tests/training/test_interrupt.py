import os
import signal
import threading

import pytest

from vitkeras.training import StopSignal


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_sets_the_flag_and_the_handlers_come_back(number):
    before = [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)]
    with StopSignal() as stop:
        assert not stop.requested and stop.reason is None
        os.kill(os.getpid(), number)
        assert stop.requested and stop.reason == number.name
    assert [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)] == before


def test_a_second_ctrl_c_interrupts_at_once():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        with pytest.raises(KeyboardInterrupt), StopSignal() as stop:
            signal.raise_signal(signal.SIGINT)
            assert stop.requested
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_in_another_thread_only_a_request_counts():
    before, seen = signal.getsignal(signal.SIGTERM), []

    def work():
        with StopSignal() as stop:
            seen.append(signal.getsignal(signal.SIGTERM))
            stop.request()
            seen.append(stop.requested)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before, True]
