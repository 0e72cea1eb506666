"""Runs recipes side by side, each in its folder, and goes on where an earlier call was interrupted."""

import json
import os
import signal
import subprocess
import sys
import time

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TIMES = "processor_seconds.json"
PAUSE = 0.5  # seconds between two looks at the processes


class Failed(RuntimeError):
    """A run ended without its result; the message has its last line."""


class Interrupted(RuntimeError):
    """A signal stopped the queue; the runs have saved."""


def command(run, folder):
    """The recipe's command line after the interpreter, as anyone could type it: a list of str."""
    sets = [part for text in run.sets for part in ("--set", text)]
    return ["-m", f"recipes.{run.recipe}", "--config", run.config, *sets, "--workdir", folder]


def is_finished(run, workdir):
    """Whether a run's result is there, of the very configuration that is asked for now.

    One of another configuration isn't: its recipe then says what differs, or does it anew.
    """
    folder = os.path.join(workdir, run.name)
    written = "config.json" if run.result == "metrics.json" else run.result
    try:
        before = read_json(os.path.join(folder, written))["config"]
    except FileNotFoundError:
        return False
    return os.path.exists(os.path.join(folder, run.result)) and before == resolved(run)


def resolved(run):
    """The run's configuration as nested plain values, after a trip through JSON."""
    import importlib

    from recipes.config import as_dict, override

    configs = importlib.import_module(f"recipes.{run.recipe}").CONFIGS
    return json.loads(json.dumps(as_dict(override(configs[run.config](), run.sets))))


def work(runs, workdir, processes, report=print):
    """Executes all runs that aren't finished.

    Args:
        runs: list of `Run`, in the order in which they should start.
        workdir: str, the folder above theirs; gets `processor_seconds.json`, run -> seconds of processor time.
        processes: int, how many at a time. With more than one, each computes with one thread.
        report: function of a line of text.

    Raises:
        Failed: if a run fails; those that are going save and stop.
        Interrupted: after SIGTERM or SIGINT; the same.
    """
    done = {run.name for run in runs if is_finished(run, workdir)}
    waiting, going = [run for run in runs if run.name not in done], {}
    report(f"{len(runs)} runs, {len(done)} finished before")
    stopped_by = []
    handlers = {s: signal.signal(s, lambda number, frame: stopped_by.append(number)) for s in _signals()}
    try:
        while waiting or going:
            if stopped_by:
                raise Interrupted(f"stopped by {signal.Signals(stopped_by[0]).name}; the same command goes on")
            ready = [run for run in waiting if done.issuperset(run.needs)]
            while ready and len(going) < processes:
                run = ready.pop(0)
                waiting.remove(run)
                going[run.name] = run, _start(run, workdir, processes)
                report(f"started {run.name}")
            for name in [name for name, (_, process) in going.items() if process.poll_ended()]:
                run, process = going.pop(name)
                _end(run, process, workdir)
                done.add(name)
                report(f"finished {name}, {process.seconds:.0f} s of processor time")
            time.sleep(PAUSE)
    finally:
        for _, process in going.values():
            process.send(signal.SIGTERM)  # upon which a recipe saves
        for run, process in going.values():
            process.wait()
            _add_seconds(run, process, workdir)
        for number, handler in handlers.items():
            signal.signal(number, handler)


class _Process:
    """A child whose processor time is counted, in a group of its own: Ctrl-C reaches it through the queue alone.

    It stays in the session, whose share of a busy machine Linux may have been told to keep small.
    """

    def __init__(self, arguments, environment, log):
        with open(log, "ab") as file:
            child = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=REPOSITORY,
                env=environment,
                stdout=file,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                process_group=0,
            )
        self.pid, self.code, self.seconds, self.log = child.pid, None, 0.0, log
        self._child = child  # whose own waiting is not used: it doesn't tell the processor time

    def poll_ended(self, flags=os.WNOHANG):
        if self.code is None:
            pid, status, used = os.wait4(self.pid, flags)
            if pid:
                self.code = self._child.returncode = os.waitstatus_to_exitcode(status)
                self.seconds = used.ru_utime + used.ru_stime
        return self.code is not None

    def wait(self):
        self.poll_ended(flags=0)

    def send(self, number):
        if not self.poll_ended():
            os.kill(self.pid, number)


def _start(run, workdir, processes):
    folder = os.path.join(workdir, run.name)
    os.makedirs(folder, exist_ok=True)
    environment = dict(os.environ)
    environment.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    environment.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if processes > 1:
        environment |= {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1", "OMP_NUM_THREADS": "1"}
    return _Process(command(run, folder), environment, os.path.join(folder, "output.txt"))


def _end(run, process, workdir):
    _add_seconds(run, process, workdir)
    if process.code or not is_finished(run, workdir):
        raise Failed(f"{run.name} ended with code {process.code}: {_last_line(process.log)}")


def _add_seconds(run, process, workdir):
    path = os.path.join(workdir, TIMES)
    times = read_json(path) if os.path.exists(path) else {}
    times[run.name] = times.get(run.name, 0.0) + process.seconds
    write_text(path, json.dumps(times, indent=1) + "\n")


def _last_line(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = file.read().strip().splitlines()
    return lines[-1] if lines else "it printed nothing"


def _signals():
    return signal.SIGTERM, signal.SIGINT


def read_json(path):
    """Reads a JSON file."""
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def write_text(path, text):
    """Writes text under a temporary name and moves it into place."""
    with open(path + ".part", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".part", path)
