"""Image folders: one folder a class."""

import os
import warnings
from dataclasses import dataclass, replace

import numpy as np

from vitkeras.data.image_check import check_images
from vitkeras.data.image_set import DatasetSplits, FileSet
from vitkeras.data.split import stratified_split

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff")
HELD_OUT_NAMES = ("test", "val", "validation")
_MAX_NAMED = 10


@dataclass(frozen=True)
class Listing:
    """The images of one part of a folder.

    Attributes:
        root: str, the folder that holds the class folders.
        class_names: tuple of str, sorted.
        labels: int array (n,).
        paths: str array (n,), sorted within each class.
        num_ignored: int, entries that are no images.
        needs_pillow: bool array (n,), or None before the check.
        skipped: tuple of (path, reason), images that were left out.
    """

    root: str
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


def open_folder(path, on_bad_image="refuse", test_fraction=0.2, seed=0):
    """Opens `PATH/train/CLASS/*` with a held-out part beside it, or `PATH/CLASS/*`.

    Args:
        path: str, `~` allowed.
        on_bad_image, test_fraction, seed: as in `open_dataset`.

    Returns:
        `DatasetSplits`.

    Raises:
        ValueError, ImportError: as `open_dataset`.

    Example:
        >>> open_folder("flowers").class_names                               # doctest: +SKIP
        ('daisy', 'rose')
    """
    root = os.path.abspath(os.path.expanduser(path))
    if not os.path.isdir(root):
        raise ValueError(f"data folder must exist, received {path!r}.")
    train_root, test_root = _layout(root)
    parts = [_list_images(train_root)]
    _check_classes(parts[0])
    if test_root is not None:
        parts.append(_list_images(test_root, parts[0].class_names))
    parts = _checked(root, parts, on_bad_image)
    if test_root is None:
        parts = _split(parts[0], test_fraction, seed)
    sets = []
    for name, part in zip(("train", "test"), parts):
        image_set = FileSet(f"folder:{path} ({name})", part.class_names, part.labels, part.paths, part.needs_pillow)
        image_set.num_ignored, image_set.skipped = part.num_ignored, part.skipped
        sets.append(image_set)
    return DatasetSplits(*sets, parts[0].class_names, f"folder:{path}")


def _layout(root):
    """Where training's class folders lie, and the held-out part's or None."""
    train = os.path.join(root, "train")
    others = (os.path.join(root, name) for name in HELD_OUT_NAMES)
    held_out = next((other for other in others if os.path.isdir(other)), None)
    if os.path.isdir(train) and _class_folders(train)[0]:
        return train, held_out
    if os.path.isdir(train) and held_out is not None:
        raise ValueError(f"data folder {train!r} must hold one folder a class, received none.")
    return root, None  # a class may well be called "train"


def _class_folders(root):
    """Sorted names of the visible folders, and the number of other entries."""
    with os.scandir(root) as entries:
        entries = list(entries)
    folders = sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))
    return folders, len(entries) - len(folders)


def _list_images(root, class_names=None):
    """Lists one part; `class_names` are training's, for the held-out part."""
    folders, num_ignored = _class_folders(root)
    if class_names is None:
        class_names = tuple(folders)
    unknown = [name for name in folders if name not in class_names]
    if unknown:
        raise ValueError(f"data folder {root!r} must hold classes of training only, received also {_some(unknown)}.")
    paths, labels = [], []
    for name in folders:
        with os.scandir(os.path.join(root, name)) as entries:
            entries = list(entries)
        # A dangling link with an image's name counts as an image, which the check then refuses by name.
        images = sorted(
            entry.path
            for entry in entries
            if entry.name.lower().endswith(IMAGE_SUFFIXES) and not entry.name.startswith(".") and not entry.is_dir()
        )
        paths += images
        labels += [class_names.index(name)] * len(images)
        num_ignored += len(entries) - len(images)
    if not paths:
        raise ValueError(
            f"data folder {root!r} must hold images as CLASS/*.jpg or train/CLASS/*.jpg "
            f"({' '.join(suffix[1:] for suffix in IMAGE_SUFFIXES)}), received none."
        )
    return Listing(root, class_names, np.array(labels, "int32"), np.array(paths), num_ignored)


def _check_classes(train):
    if len(train.class_names) < 2:
        raise ValueError(f"data folder {train.root!r} must hold at least 2 classes, received {train.class_names}.")
    _check_each(train, 1, "an image")


def _check_each(listing, least, what):
    few = [name for name, count in zip(listing.class_names, listing.counts()) if count < least]
    if few:
        raise ValueError(
            f"data folder {listing.root!r} must hold {what} of every class, received too few of {_some(few)}."
        )


def _checked(root, parts, on_bad_image):
    """Decodes all images and refuses or leaves out the bad ones."""
    paths = np.concatenate([part.paths for part in parts])
    needs_pillow, reasons = check_images(paths.tolist())
    bad = [(path, reason) for path, reason in zip(paths.tolist(), reasons) if reason]
    if bad:
        named = _some([f"{os.path.relpath(path, root)} ({reason})" for path, reason in bad], separator="; ")
        count = f"{len(bad)} of {len(paths)} images of data folder {root!r}"
        if on_bad_image == "refuse":
            raise ValueError(f"{count} cannot be read; repair or remove them, or skip bad images: {named}.")
        warnings.warn(f"{count} cannot be read and are skipped: {named}.", stacklevel=5)
    good = np.array([reason is None for reason in reasons])
    borders = np.cumsum([len(part.paths) for part in parts])[:-1]
    checked = []
    for part, flags, kept in zip(parts, np.split(needs_pillow, borders), np.split(good, borders)):
        own = set(part.paths[~kept].tolist())
        left = replace(part, needs_pillow=flags, skipped=tuple(pair for pair in bad if pair[0] in own)).select(kept)
        emptied = [part.class_names[k] for k in np.flatnonzero((part.counts() > 0) & (left.counts() == 0))]
        if emptied:
            raise ValueError(f"data folder {part.root!r} has no readable image of {_some(emptied)}.")
        checked.append(left)
    return checked


def _split(listing, test_fraction, seed):
    _check_each(listing, 2, "2 images (one is held out)")
    return [listing.select(chosen) for chosen in stratified_split(listing.labels, test_fraction, seed)]


def _some(names, separator=", "):
    """The first ten names, and how many more there are."""
    more = len(names) - _MAX_NAMED
    return separator.join(names[:_MAX_NAMED]) + (f"{separator}and {more} more" if more > 0 else "")
