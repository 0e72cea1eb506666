"""What `weights=` means, and what it decides: classes, GELU, epsilon, whether the head is loaded."""

import hashlib
import os
import warnings
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from vitkeras.checkpoints.download import fetch
from vitkeras.checkpoints.facts import head_classes, representation_size
from vitkeras.checkpoints.load import load_checkpoint, load_view
from vitkeras.checkpoints.open import SUFFIXES, as_path, is_checkpoint, open_checkpoint
from vitkeras.checkpoints.positions import read_grid
from vitkeras.checkpoints.registry import find_published
from vitkeras.checkpoints.sizes import check_same_sizes
from vitkeras.checkpoints.view import SourceFacts
from vitkeras.models.parts import check_sizes

DEFAULT_CLASSES = 1000
MAX_NAME = 200  # characters of a file's name, which the cache adds to
# The original's, whose layout doesn't say them.
DEFAULT_CONSTANTS = {"activation": "gelu_tanh", "layer_norm_epsilon": 1e-6}


@dataclass(frozen=True)
class Plan:
    """What a model's arguments are once its weights file had its say.

    Attributes:
        path: str, the local file or folder, or None without weights.
        classes: int, width of the model's head.
        loads_head: bool, whether head and `pre_logits` come from the file; else the head starts at zero.
        activation, layer_norm_epsilon: the model's.
        representation_size: int or None, width of the file's `pre_logits`.
        grid: (h, w) of the file's positions, or None.
        image_size: (height, width) that the file's settings say, or None.
    """

    path: str | None
    classes: int
    loads_head: bool
    activation: str
    layer_norm_epsilon: float
    representation_size: int | None = None
    grid: tuple | None = None
    image_size: tuple | None = None

    def load(self, model):
        """Loads the file, if there is one, into `model`, and returns it."""
        if self.path is not None:
            notes = []
            with open_checkpoint(self.path) as view:
                load_view(model, view, notes, self.loads_head)
            for note in notes:
                warnings.warn(note, stacklevel=3)
        return model


def plan_weights(weights, include_top=True, classes=None, activation=None, layer_norm_epsilon=None, sizes=None):
    """Opens what `weights` means and settles the arguments that depend on it.

    The file's own number of classes, GELU and epsilon hold where the caller gives None. Another number of classes
    keeps the backbone and makes a head of zeros; another GELU or epsilon than the file says is refused when it is
    loaded.

    Args:
        weights: None, path, address or `PublishedFile`.
        include_top: bool.
        classes, activation, layer_norm_epsilon: the caller's, or None.
        sizes: `Sizes` of the model, or None (default) where the file is compared after building only.

    Returns:
        `Plan`.

    Raises:
        FileNotFoundError, ConnectionError: if the file is neither there nor reachable.
        ValueError: if it is no checkpoint or one of another size, or it has no head and `classes` isn't given.
    """
    if classes is not None and include_top is True:
        check_sizes(classes=classes)
        classes = int(classes)
    path = local_path(weights)
    if path is None:
        return Plan(
            None,
            DEFAULT_CLASSES if classes is None else classes,
            include_top,
            **settle_constants(SourceFacts(), activation, layer_norm_epsilon),
        )
    with _open(path, weights) as view:
        if sizes is not None:
            check_same_sizes(view, sizes)
        own, facts, grid = head_classes(view), view.facts, read_grid(view)
        if include_top and own is None and classes is None and "head/kernel" not in view.entries:
            raise ValueError(
                f"checkpoint {view.path!r} has no head; use include_top=False, or give classes for a new one."
            )
        return Plan(
            path,
            next(x for x in (classes, own, DEFAULT_CLASSES) if x is not None),
            include_top and (own == classes or classes is None),
            representation_size=representation_size(view),
            grid=grid,
            image_size=facts.image_size,
            **settle_constants(facts, activation, layer_norm_epsilon),
        )


def _open(path, weights):
    """Opens the file; a downloaded one that is damaged is said to be a copy."""
    try:
        return open_checkpoint(path)
    except ValueError as error:
        source = getattr(weights, "url", weights)
        if isinstance(source, str) and _is_address(source):
            raise ValueError(f"{error} It is a copy of {source}: remove the copy to have it fetched again.") from error
        raise


def settle_constants(facts, activation=None, layer_norm_epsilon=None):
    """Returns {"activation": ..., "layer_norm_epsilon": ...}: the caller's, else the source's, else the original's."""
    given = {"activation": activation, "layer_norm_epsilon": layer_norm_epsilon}
    return {
        key: next(value for value in (given[key], getattr(facts, key), default) if value is not None)
        for key, default in DEFAULT_CONSTANTS.items()
    }


def find_weights(weights, variant, image_size):
    """Returns the `PublishedFile` that `weights` names, or None if it is a path or an address.

    Args:
        weights: str or path-like.
        variant: str, such as "vit_b16".
        image_size: int or None, the resolution asked for.

    Raises:
        ValueError: for an unknown name; the nearest are given.
        FileNotFoundError: for a path of no file.
    """
    if not isinstance(weights, (str, os.PathLike)) and not hasattr(weights, "url"):
        raise ValueError(
            f"weights must be None, a published name, a file, a folder or an address, received {weights!r}."
        )
    if not isinstance(weights, str) or _is_address(weights) or is_checkpoint(os.path.expanduser(weights)):
        return None
    if "://" in weights:
        return local_path(weights)  # refused there
    try:
        return find_published(weights, variant, image_size)
    except ValueError:
        if weights.startswith((os.sep, "./", "../", "~")):
            raise FileNotFoundError(f"weights={weights!r} is a path, and there is no such file.") from None
        raise


def local_path(weights):
    """Returns the local file or folder that a path, an address or a `PublishedFile` means; None for None."""
    if weights is None:
        return None
    if hasattr(weights, "url"):
        return fetch(weights.url, weights.path)
    if isinstance(weights, str) and _is_address(weights):
        return fetch(weights, _cached_name(weights))
    if isinstance(weights, str) and "://" in weights:
        raise ValueError(
            f"weights={weights!r}: addresses begin with http:// or https://; copy the file of another kind of address "
            "to the disk and give its path."
        )
    return as_path(weights, "weights")


def load_weights(model, weights, include_top=True, **kwargs):
    """Loads a path, an address or a `PublishedFile` into `model`, the head too if `include_top`.

    `kwargs` are `load_checkpoint`'s own, such as `input_mean`.
    """
    return load_checkpoint(model, local_path(weights), load_head=include_top, **kwargs)


def _is_address(weights):
    return weights.startswith(("http://", "https://"))


def _cached_name(url):
    """One folder an address, so that files of one name from two servers are not taken for each other."""
    name = os.path.basename(unquote(urlsplit(url).path))
    if not name.endswith(SUFFIXES) or len(name) > MAX_NAME or "\0" in name:
        raise ValueError(f"weights={url!r}: an address must end in the name of a file, with one of {SUFFIXES}.")
    return f"addresses/{hashlib.sha256(url.encode()).hexdigest()[:16]}/{name}"
