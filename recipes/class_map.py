"""Which of a model's outputs answer for which of the data's classes.

Legend: C classes of the data, K outputs of the model.
"""

import os
import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .text_file import read_json_of

FOLDERS = "folder_to_objectnet_label.json"  # beside ObjectNet's map: its folders' names for the map's keys
_WORDNET_ID = re.compile(r"n\d{8}")


@dataclass(frozen=True)
class ClassMap:
    """The outputs of each class.

    Attributes:
        targets: tuple of C tuples of int: the outputs that are right for a class; an empty one leaves the class out.
        outputs: int, K.
        unused: tuple of str, entries of a label map that name no class of the data.
    """

    targets: tuple
    outputs: int
    unused: tuple = ()

    @cached_property
    def covered(self):
        """int array, the classes with outputs."""
        return np.array([k for k, own in enumerate(self.targets) if own], "int64")

    @cached_property
    def columns(self):
        """int array (most outputs of a class, C): where a class has fewer, its first one again; -1 for none."""
        most = max(map(len, self.targets))
        rows = [(*own, *own[:1] * (most - len(own))) if own else (-1,) * most for own in self.targets]
        return np.array(rows, "int64").T

    @cached_property
    def owners(self):
        """int array (K,): the first class that an output answers for, or -1."""
        owners = np.full(self.outputs, -1)
        for k in reversed(self.covered):
            owners[list(self.targets[k])] = k
        return owners

    @cached_property
    def is_single(self):
        """Whether each class has one output, and no two the same: else probabilities of classes are not defined."""
        used = [output for own in self.targets for output in own]
        return len(used) == len(set(used)) == len(self.covered)

    @cached_property
    def is_whole(self):
        """Whether every output answers for some class."""
        return bool((self.owners >= 0).all())


def class_map(data_names, model_names, outputs, labels_json=None):
    """Makes the `ClassMap`.

    Args:
        data_names: sequence of C str.
        model_names: sequence of K str, or () where they are unknown.
        outputs: int, K.
        labels_json: path of a JSON file that maps the data's names to outputs, or None to match them by name or, where
            the model's are unknown, by order. Its values are numbers of outputs, names (several with "; " between
            them, as in ObjectNet's file) or lists of either. The data's names may differ from the keys in case,
            spaces and signs: "Alarm clock" is `alarm_clock`; ObjectNet's list of its folders' names, where it lies
            beside the map, comes first. Classes without an entry are left out.

    Raises:
        ValueError: if names or numbers don't fit.
    """
    if labels_json is None:
        if not model_names and len(data_names) != outputs == 1000 and _are_wordnet_ids(data_names):
            model_names = [id for id, _ in _imagenet()]
        return ClassMap(tuple((int(k),) for k in label_map(data_names, model_names, outputs)), outputs)
    entries, find = _read(labels_json), _Finder(model_names, outputs)
    plain = {_plain(key): value for key, value in entries.items()}
    if len(plain) < len(entries):
        raise ValueError(f"label map {labels_json} must name each class once, received some again in other spelling.")
    folders = os.path.join(os.path.dirname(labels_json), FOLDERS)
    known_as = _read(folders) if os.path.exists(folders) else {}
    keys = [_plain(known_as.get(name, name)) for name in data_names]
    values = [plain.get(key) for key in keys]
    if all(value is None for value in values):
        raise ValueError(
            f"label map {labels_json} must name some of the data's classes, such as {data_names[0]!r}; "
            f"it names {', '.join(map(repr, list(entries)[:3]))}."
        )
    unused = tuple(key for key in entries if _plain(key) not in keys)
    return ClassMap(tuple(find.all(value) for value in values), outputs, unused)


def label_map(data_names, model_names, outputs):
    """int array, the model's output for each of the data's labels: by class name where the model's are known.

    Example:
        >>> label_map(("elm", "ash"), ("ash", "beech", "elm"), 3)
        array([2, 0])
    """
    if model_names:
        model_names = list(model_names)
        unknown = [name for name in data_names if name not in model_names]
        if unknown:
            some = ", ".join(unknown[:5])
            raise ValueError(f"the data's classes must be among the model's {len(model_names)}, received also {some}.")
        twice = [name for name in data_names if model_names.count(name) > 1]
        if twice:
            raise ValueError(f"the model's classes must have names of their own, received {twice[0]!r} for several.")
        return np.array([model_names.index(name) for name in data_names])
    if len(data_names) != outputs:
        raise ValueError(f"the data must have the model's {outputs} classes, received {len(data_names)}.")
    return np.arange(outputs)


def imagenet_outputs(data_names, model_names, mapping):
    """int array (1000,): the output of each class in ImageNet's order, which is that of the WordNet ids.

    Raises:
        ValueError: if neither model nor data have ImageNet's 1,000 classes.
    """
    if len(model_names) == 1000 and _are_wordnet_ids(model_names):
        return np.argsort(model_names)
    if len(data_names) == 1000 and mapping.is_single and mapping.is_whole:
        order = np.argsort(data_names) if _are_wordnet_ids(data_names) else np.arange(1000)
        return mapping.columns[0][order]
    if mapping.outputs == 1000:
        return np.arange(1000)
    raise ValueError(f"real_labels are for models of ImageNet's 1000 classes, received one of {mapping.outputs}.")


class _Finder:
    """Finds outputs by number or name; ImageNet's names are fetched when a model of 1,000 outputs has none."""

    def __init__(self, names, outputs):
        self.outputs, self._names, self._places = outputs, names, None

    def all(self, value):
        """tuple of outputs of one entry of the map."""
        parts = value if isinstance(value, list) else [] if value is None else [value]
        parts = [piece for part in parts for piece in (part.split("; ") if isinstance(part, str) else [part])]
        return tuple(dict.fromkeys(self.one(part) for part in parts))

    def one(self, part):
        if isinstance(part, str):
            return self._named(part.strip())
        if isinstance(part, int) and not isinstance(part, bool) and 0 <= part < self.outputs:
            return part
        raise ValueError(f"label map must hold names or numbers in 0...{self.outputs - 1}, received {part!r}.")

    def _named(self, name):
        if self._places is None:
            self._places = self._index()
        places = self._places.get(name) or self._places.get(_first_word(name)) or ()
        if len(places) != 1:
            what = "several" if places else "none"
            raise ValueError(f"label map must name classes of the model, received {name!r}, the name of {what}.")
        return next(iter(places))

    def _index(self):
        if self._names:
            groups = [(name,) for name in self._names]
        elif self.outputs == 1000:
            groups = _imagenet()
        else:
            raise ValueError("label map must hold numbers where the model's names are unknown (--labels gives them).")
        places = {}
        for number, group in enumerate(groups):
            for name in group:
                for alias in {name, _first_word(name)}:
                    places.setdefault(alias, set()).add(number)
        return places


def _read(path):
    entries = read_json_of(path, "label map")
    if not isinstance(entries, dict) or not entries:
        raise ValueError(f"label map {path} must be a JSON object of class names, received {type(entries).__name__}.")
    return entries


def _imagenet():
    """[(WordNet id, name)] of the 1,000 classes."""
    import vitkeras

    return [best[0][:2] for best in vitkeras.decode_predictions(np.eye(1000), top=1)]


def _are_wordnet_ids(names):
    return all(_WORDNET_ID.fullmatch(name) for name in names)


def _plain(name):
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def _first_word(name):
    """The first of the synonyms, as ImageNet's short names have it: "mountain bike, off-roader" and "mountain_bike"."""
    return name.partition(",")[0].replace("_", " ").strip().lower()
