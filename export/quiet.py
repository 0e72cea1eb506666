"""The converter, the quantizer and LiteRT tell at length what they did; this holds it back, errors excepted."""

import contextlib
import io
import os
import sys
import tempfile


@contextlib.contextmanager
def quiet():
    """Drops what the block writes to stdout and to file descriptor 2; if the block raises, the latter is shown."""
    sys.stderr.flush()
    saved = os.dup(2)
    with tempfile.TemporaryFile() as buffer, contextlib.redirect_stdout(io.StringIO()):
        os.dup2(buffer.fileno(), 2)
        failed = True
        try:
            yield
            failed = False
        finally:
            sys.stderr.flush()
            os.dup2(saved, 2)
            os.close(saved)
            if failed:
                buffer.seek(0)
                sys.stderr.write(buffer.read().decode(errors="replace"))
                sys.stderr.flush()
