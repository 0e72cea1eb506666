"""Keeps TensorFlow's start-up greeting off the terminal of our commands."""

import contextlib
import os
import re
import sys
import tempfile

# Printed by TensorFlow's libraries on file descriptor 2 at import, before any setting of theirs is read.
_GREETING = re.compile(
    rb"All log messages before absl::InitializeLog|oneDNN custom operations are on"
    rb"|This TensorFlow binary is optimized|To enable the following instructions|cuda drivers on your machine"
)


@contextlib.contextmanager
def quiet_stderr(pattern=_GREETING):
    """Holds back what libraries write to file descriptor 2, and lets through all lines but the known ones.

    Args:
        pattern: compiled bytes regular expression; lines that it finds are dropped.
    """
    sys.stderr.flush()
    saved = os.dup(2)
    with tempfile.TemporaryFile() as buffer:
        os.dup2(buffer.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(saved, 2)
            os.close(saved)
            buffer.seek(0)
            for line in buffer:
                if not pattern.search(line):
                    sys.stderr.write(line.decode(errors="replace"))
            sys.stderr.flush()


def import_tensorflow():
    """Imports TensorFlow without its greeting, for command-line programs."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    with quiet_stderr():
        import tensorflow

    return tensorflow
