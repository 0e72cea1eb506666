"""The published files of the original implementation: plain ViTs.

Sources: the tables of github.com/google-research/vision_transformer (paper weights and AugReg,
arXiv 2106.10270). No hashes are published for these files.
"""

import difflib
import os
from dataclasses import dataclass
from urllib.parse import quote

BASE_URL = "https://storage.googleapis.com/vit_models/"


@dataclass(frozen=True)
class PublishedFile:
    """One file on the original's server.

    Attributes:
        collection: the short name that `weights=` takes, such as "imagenet21k+imagenet2012".
        variant: the model it belongs to, such as "vit_b16".
        path: path below `BASE_URL`.
        image_size: int, the resolution in pixels that it was trained or tuned at.
        classes: int, width of its head.
        has_pre_logits: bool, whether a tanh layer `pre_logits` precedes its head.
    """

    collection: str
    variant: str
    path: str
    image_size: int
    classes: int
    has_pre_logits: bool = False

    @property
    def name(self):
        """The exact name that `weights=` takes for this one file."""
        return self.path.removesuffix(".npz")

    @property
    def url(self):
        """The address, with `+` sent as `%2B` as the server wants it."""
        return BASE_URL + quote(self.path)


def _imagenet21k():
    for size in ("B_16", "B_32", "B_8", "L_16", "L_32", "H_14"):
        path = f"imagenet21k/ViT-{size}.npz"
        yield PublishedFile("imagenet21k", _variant(size), path, 224, 21843, has_pre_logits=True)


def _imagenet2012():
    collection = "imagenet21k+imagenet2012"
    for size in ("B_16-224", "L_16-224", "B_16", "B_32", "B_8", "L_16", "L_32"):
        image_size = 224 if size.endswith("-224") else 384
        yield PublishedFile(collection, _variant(size), f"{collection}/ViT-{size}.npz", image_size, 1000)


# ImageNet-21k AugReg pre-training, then ImageNet-1k: model, augmentation, weight decay, dropout,
# stochastic depth, fine-tuning rate, resolution.
_AUGREG = (
    ("Ti_16", "none", 0.03, 0.0, 0.0, 0.03, 224),
    ("Ti_16", "none", 0.03, 0.0, 0.0, 0.03, 384),
    ("S_32", "light1", 0.03, 0.0, 0.0, 0.03, 224),
    ("S_32", "none", 0.1, 0.0, 0.0, 0.01, 384),
    ("S_16", "light1", 0.03, 0.0, 0.0, 0.03, 224),
    ("S_16", "light1", 0.03, 0.0, 0.0, 0.03, 384),
    ("B_32", "medium1", 0.03, 0.0, 0.0, 0.03, 224),
    ("B_32", "light1", 0.1, 0.0, 0.0, 0.01, 384),
    ("B_16", "medium1", 0.1, 0.0, 0.0, 0.01, 224),
    ("B_16", "medium1", 0.1, 0.0, 0.0, 0.03, 384),
    ("B_8", "medium2", 0.1, 0.0, 0.0, 0.03, 224),
    ("L_16", "medium1", 0.1, 0.1, 0.1, 0.01, 224),
    ("L_16", "strong1", 0.1, 0.0, 0.0, 0.01, 384),
)


def _augreg():
    for size, augmentation, decay, dropout, depth, rate, image_size in _AUGREG:
        path = (
            f"augreg/{size}-i21k-300ep-lr_0.001-aug_{augmentation}-wd_{decay}-do_{dropout}-sd_{depth}"
            f"--imagenet2012-steps_20k-lr_{rate}-res_{image_size}.npz"
        )
        yield PublishedFile("augreg", _variant(size), path, image_size, 1000)


def _variant(size):
    letters, patch = size.split("-")[0].lower().split("_")
    return f"vit_{letters}{patch}"


PUBLISHED = (*_imagenet2012(), *_imagenet21k(), *_augreg())


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
    raise ValueError(
        f"weights={name!r} is neither a file nor a name published for {variant}; "
        f"nearest: {', '.join(map(repr, nearest))}."
    )


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
