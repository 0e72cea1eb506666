"""Processes that a test starts, forked from one that has imported TensorFlow and Keras and used neither.

A process of its own is what the tests of workers, replicas and signals need; its imports, some seven seconds each, are
not. What is forked is Python's own fork server, a new process without anything of the test's.
"""

import multiprocessing
import os
import pathlib
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
        self.kill()
        with self._folder:
            return self._process.exitcode, self._out.read_text(), self._err.read_text()

    def kill(self):
        self._process.kill()
        self._process.join()


def _enter(out, err, variables, function, arguments):
    for path, stream in ((out, sys.stdout), (err, sys.stderr)):
        stream.flush()
        with open(path, "ab") as file:
            os.dup2(file.fileno(), stream.fileno())
    os.environ.clear()
    os.environ.update(variables)
    sys.exit(function(*arguments))
