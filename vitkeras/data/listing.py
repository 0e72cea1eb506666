"""Lists of image files with labels: checked, split and made into sets. For folders and CSV lists."""

import os
import warnings
from dataclasses import dataclass, replace

import numpy as np

from vitkeras.data.image_check import check_images
from vitkeras.data.image_set import DatasetSplits, FileSet
from vitkeras.data.split import stratified_split

_MAX_NAMED = 10


@dataclass(frozen=True)
class Listing:
    """The images of one part of a folder or list.

    Attributes:
        source: str, where it was found, for messages: "data folder '/photos'".
        class_names: tuple of str.
        labels: int array (n,).
        paths: str array (n,).
        num_ignored: int, entries that are no images.
        needs_pillow: bool array (n,), or None before the check.
        skipped: tuple of (path, reason), images that were left out.
    """

    source: str
    class_names: tuple
    labels: np.ndarray
    paths: np.ndarray
    num_ignored: int
    needs_pillow: np.ndarray | None = None
    skipped: tuple = ()

    def select(self, chosen):
        """The same with fewer images; `chosen` is a bool or index array."""
        return replace(
            self, labels=self.labels[chosen], paths=self.paths[chosen], needs_pillow=self.needs_pillow[chosen]
        )

    def counts(self):
        """Images of each class, int array (K,)."""
        return np.bincount(self.labels, minlength=len(self.class_names))


def checked(source, parts, on_bad_image, root):
    """Decodes all images and refuses or leaves out the bad ones, which are named relative to the folder `root`."""
    paths = np.concatenate([part.paths for part in parts])
    needs_pillow, reasons = check_images(paths.tolist())
    bad = [(path, reason) for path, reason in zip(paths.tolist(), reasons) if reason]
    named = [(os.path.relpath(path, root), reason) for path, reason in bad]
    report_bad(source, named, len(paths), on_bad_image, depth=6)
    good = np.array([reason is None for reason in reasons])
    borders = np.cumsum([len(part.paths) for part in parts])[:-1]
    good_parts = []
    for part, flags, kept in zip(parts, np.split(needs_pillow, borders), np.split(good, borders)):
        own = set(part.paths[~kept].tolist())
        left = replace(part, needs_pillow=flags, skipped=tuple(pair for pair in bad if pair[0] in own)).select(kept)
        emptied = [part.class_names[k] for k in np.flatnonzero((part.counts() > 0) & (left.counts() == 0))]
        if emptied:
            raise ValueError(f"{part.source} has no readable image of {some(emptied)}.")
        good_parts.append(left)
    return good_parts


def report_bad(source, bad, total, on_bad_image, depth=5):
    """Refuses or warns of the (name, reason) pairs in `bad`; the warning points `depth` calls up."""
    if not bad:
        return
    named = some([f"{name} ({reason})" for name, reason in bad], separator="; ")
    count = f"{len(bad)} of {total} images of {source}"
    if on_bad_image == "refuse":
        raise ValueError(f"{count} cannot be read; repair or remove them, or skip bad images: {named}.")
    warnings.warn(f"{count} cannot be read and are skipped: {named}.", stacklevel=depth)


def split_listing(listing, test_fraction, seed):
    """[training, held out], stratified; both the whole listing where `test_fraction` is None."""
    if test_fraction is None:
        return [listing, listing]
    require_each(listing, 2, "2 images (one is held out)")
    return [listing.select(chosen) for chosen in stratified_split(listing.labels, test_fraction, seed)]


def require_each(listing, least, what):
    """Refuses a listing with fewer than `least` images of a class; `what` says it in words."""
    few = [name for name, count in zip(listing.class_names, listing.counts()) if count < least]
    if few:
        raise ValueError(f"{listing.source} must hold {what} of every class, received too few of {some(few)}.")


def splits_of(name, parts):
    """`DatasetSplits` of checked listings, training and held out; `name` is the spec."""
    sets = []
    for kind, part in zip(("train", "test"), parts):
        image_set = FileSet(f"{name} ({kind})", part.class_names, part.labels, part.paths, part.needs_pillow)
        image_set.num_ignored, image_set.skipped = part.num_ignored, part.skipped
        sets.append(image_set)
    return DatasetSplits(*sets, parts[0].class_names, name)


def some(names, separator=", "):
    """The first ten names, and how many more there are."""
    more = len(names) - _MAX_NAMED
    return separator.join(names[:_MAX_NAMED]) + (f"{separator}and {more} more" if more > 0 else "")
