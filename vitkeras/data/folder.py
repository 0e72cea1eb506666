"""Image folders: one folder a class."""

import os

import numpy as np

from vitkeras.data.listing import Listing, checked, require_each, some, split_listing, splits_of

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff")
HELD_OUT_NAMES = ("test", "val", "validation")


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
        rule = "be a folder" if os.path.exists(root) else "exist"
        raise ValueError(f"data folder must {rule}, received {path!r}.")
    train_root, test_root = _layout(root)
    parts = [_list_images(train_root)]
    if len(parts[0].class_names) < 2 and test_fraction is not None:
        raise ValueError(f"{parts[0].source} must hold at least 2 classes, received {parts[0].class_names}.")
    require_each(parts[0], 1, "an image")
    if test_root is not None:
        parts.append(_list_images(test_root, parts[0].class_names))
    parts = checked(f"data folder {root!r}", parts, on_bad_image, root)
    if test_root is None:
        parts = split_listing(parts[0], test_fraction, seed)
    return splits_of(f"folder:{path}", parts)


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
        raise ValueError(f"data folder {root!r} must hold classes of training only, received also {some(unknown)}.")
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
    return Listing(f"data folder {root!r}", class_names, np.array(labels, "int32"), np.array(paths), num_ignored)
