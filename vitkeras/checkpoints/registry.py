"""Finding and listing the published files of the original implementation."""

import difflib
import os

from vitkeras.checkpoints.published import PUBLISHED


def published_files(variant):
    """Returns the `PublishedFile`s of one variant, such as "vit_b16"."""
    return [entry for entry in PUBLISHED if entry.variant == variant]


def find_published(name, variant, image_size=None):
    """Finds the file that a `weights=` name means for a variant.

    Args:
        name: str, a collection ("augreg") or one file ("imagenet21k+imagenet2012/ViT-B_16-224").
        variant: str, such as "vit_b16".
        image_size: int or None. A collection with several files gives the one of this resolution if
            there is one, else the one of the smallest.

    Returns:
        A `PublishedFile`.

    Raises:
        ValueError: if nothing of that name is published for the variant; the nearest names are given.

    Example:
        >>> find_published("augreg", "vit_b16", 384).image_size
        384
    """
    own = published_files(variant)
    matches = [entry for entry in own if name.removesuffix(".npz") in (entry.collection, entry.name)]
    if matches:
        exact = [entry for entry in matches if entry.image_size == image_size]
        return (exact or sorted(matches, key=lambda entry: entry.image_size))[0]
    known = sorted({entry.collection for entry in own}) + [entry.name for entry in own]
    nearest = difflib.get_close_matches(name, known, n=3, cutoff=0.5) or known[:3]
    advice = f"nearest: {', '.join(map(repr, nearest))}" if nearest else "there is none: use weights=None or a file"
    raise ValueError(f"weights={name!r} is neither a file nor a name published for {variant}; {advice}.")


def find_source(path, classes):
    """Returns the `PublishedFile` that a local file is, told by its base name and the width of its head, or None.

    Args:
        path: str, such as "downloads/ViT-B_16.npz".
        classes: int.

    Example:
        >>> find_source("downloads/ViT-B_16.npz", 21843).collection
        'imagenet21k'
    """
    name = os.path.basename(path)
    found = (entry for entry in PUBLISHED if os.path.basename(entry.path) == name and entry.classes == classes)
    return next(found, None)


def lower_resolution_file(source, image_size):
    """Returns the published file like `source` (a `PublishedFile`) for `image_size` or below, or None."""
    for entry in published_files(source.variant):
        if entry.collection == source.collection and entry.image_size <= image_size:
            return entry
    return None


def list_weights(variant=None):
    """Prints the published files, and returns them.

    Args:
        variant: str or None. Such as "vit_b16" or "ViTB16"; None (default) lists those of every variant.

    Returns:
        List of `PublishedFile`; the attribute `name` is what `weights=` takes.

    Raises:
        ValueError: if nothing is published for the variant; the nearest names are given.

    Example:
        >>> entries = list_weights("vit_h14")
        variant  weights               pixels  classes   MiB  ImageNet top-1
        vit_h14  imagenet21k/ViT-H_14     224    21843  2519               -
    """
    known = sorted({entry.variant for entry in PUBLISHED})
    if isinstance(variant, str):  # "ViTB16", the function's name, is vit_b16
        variant = next((name for name in known if _plain(name) == _plain(variant)), variant)
    entries = list(PUBLISHED) if variant is None else published_files(variant)
    if not entries:
        nearest = difflib.get_close_matches(str(variant), known, n=3, cutoff=0) or known[:3]
        raise ValueError(f"variant must be one with published files, received {variant!r}; nearest: {nearest}.")
    rows = [("variant", "weights", "pixels", "classes", "MiB", "ImageNet top-1")]
    for entry in entries:
        top1 = "-" if entry.imagenet_top1 is None else f"{entry.imagenet_top1:.2f}"
        sizes = (entry.image_size, entry.classes, round(entry.mebibytes))
        rows.append((entry.variant, entry.name, *map(str, sizes), top1))
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        texts = [text.ljust(width) for text, width in zip(row[:2], widths[:2])]
        numbers = [text.rjust(width) for text, width in zip(row[2:], widths[2:])]
        print("  ".join(texts + numbers))
    return entries


def _plain(name):
    """A variant's or its function's name without what the two write differently."""
    return name.lower().replace("_", "").replace("vit", "")
