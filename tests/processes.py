"""Processes that a test starts, forked from one that has imported TensorFlow and Keras and used neither.

A process of its own is what the tests of workers, replicas and signals need; its imports, some seven seconds each, are
not. What is forked is Python's own fork server, a new process without anything of the test's.
"""

import multiprocessing
import os
import pathlib
import socket
import sys
import tempfile
import time

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["tensorflow", "keras", "vitkeras.recipes.finetune", "vitkeras.recipes.fewshot"])


class Started:
    """`function(*arguments)` in a process of its own; what it returns is the exit code.

    Args:
        function: of a module, where the process finds it by name.
        arguments: what pickle takes.
        environment: dict of str, variables besides those of this process.
    """

    def __init__(self, function, *arguments, environment=None):
        self._folder = tempfile.TemporaryDirectory()
        files = [pathlib.Path(self._folder.name, name) for name in ("out", "err")]
        for file in files:
            file.touch()
        self._out, self._err = files
        variables = {**os.environ, **(environment or {})}
        self._process = _SERVER.Process(target=_enter, args=(*files, variables, function, arguments))
        self._process.start()

    def error_lines(self):
        """Yields the lines of its standard error as they come, until it ends."""
        with open(self._err) as file:
            rest, running = "", True
            while running:
                running = self._process.is_alive()
                *lines, rest = (rest + file.read()).split("\n")
                yield from lines
                time.sleep(0.005)

    def signal(self, number):
        os.kill(self._process.pid, number)

    def finish(self, timeout=900):
        """Waits for its end; returns (exit code, standard output, standard error). One that hangs is killed."""
        self._process.join(timeout)
        self._process.kill()
        self._process.join()
        found = self._process.exitcode, self._out.read_text(), self._err.read_text()
        self.kill()
        return found

    def kill(self):
        """Ends it, if it still runs, and takes its output away."""
        self._process.kill()
        self._process.join()
        self._folder.cleanup()


def finish_all(processes, timeout=900):
    """Waits for processes that wait for one another; returns their standard errors. All end when one has failed."""
    errors = []
    try:
        for process in processes:
            code, _, error = process.finish(timeout)
            assert code == 0, error[-3000:]
            errors.append(error)
    finally:
        for process in processes[len(errors) :]:
            process.kill()
    return errors


def free_ports(count):
    """Ports of this machine that nothing listens at."""
    sockets = [socket.create_server(("localhost", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _enter(out, err, variables, function, arguments):
    for path, stream in ((out, sys.stdout), (err, sys.stderr)):
        stream.flush()
        with open(path, "ab") as file:
            os.dup2(file.fileno(), stream.fileno())
    os.environ.clear()
    os.environ.update(variables)
    sys.exit(function(*arguments))
