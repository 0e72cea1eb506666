"""A bar over the stages of an export and the images of its check, on a terminal."""

import contextlib
import sys

from vitkeras._optional import require


class Progress:
    """Shows nothing unless `shown`, and then only if stderr is a terminal.

    Args:
        shown: bool.
        stages: int, how many calls of `stage` follow.
    """

    def __init__(self, shown, stages):
        self.shown = shown
        self.begun = False
        self.bar = self._bar(total=stages, unit="stage", leave=False) if shown else None

    def _bar(self, *arguments, **keywords):
        tqdm = require("tqdm", "tqdm", "a progress bar", extra="export").tqdm
        return tqdm(*arguments, **keywords, disable=not sys.stderr.isatty())

    def stage(self, name):
        """Says what begins now, and counts what was before it."""
        if self.bar is not None:
            self.bar.update(int(self.begun))
            self.bar.set_description(name)
            self.begun = True

    def images(self, images):
        """Iterates over `images`, with a bar of their own."""
        return self._bar(images, "running images", unit="image", leave=False) if self.shown else images

    def close(self):
        if self.bar is not None:
            self.bar.close()


@contextlib.contextmanager
def progress(shown, stages):
    """`Progress` that is closed whatever happens."""
    bar = Progress(shown, stages)
    try:
        yield bar
    finally:
        bar.close()
