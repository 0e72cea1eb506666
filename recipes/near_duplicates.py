"""Images that are in the training set and, nearly the same, in the test set too (paper section 4.1 removes them).

    python -m recipes.near_duplicates --data folder:my_photos --workdir twins
    python -m recipes.near_duplicates --data folder:photos/train --against folder:photos/test --workdir twins
    python -m recipes.near_duplicates --data tfds:cifar10 --model runs/photos --set max_distance=4

A 64-bit hash of the cosine transform finds resized, recompressed, mirrored and mildly cropped copies; with a model, the
cosine of its features finds others. The pairs are printed, the most alike first. `--workdir` gets them all as
`near_duplicates.json`, `.csv` and `.html` (with both pictures), the training images to leave out as `leave_out.txt`,
and of image files a list of the kept ones, to be trained on with `--data csv:WORKDIR/kept.csv`.
"""

import dataclasses
import json
import os
import sys

from . import cli, runner
from .configs import NEAR_DUPLICATES as CONFIGS
from .loading import frozen_model, image_size_of
from .near_duplicates_files import kept_text, leave_out, pairs_text
from .override import as_dict
from .results_folder import results_folder
from .workdir import write_json, write_text

SHORTCUTS = {"data": "data.spec", "against": "against", "model": "checkpoint", "weights": "model.weights"}
FILES = (
    "near_duplicates.json",
    "near_duplicates.csv",
    "near_duplicates.html",
    "leave_out.txt",
    "kept.csv",
    "classes.txt",
)
SHOWN = 20  # pairs that the terminal gets


def find(config, device="auto"):
    """Compares two sets.

    Args:
        config: `NearDuplicatesConfig`.
        device: "auto" (default), "cpu", "gpu", "tpu" or "multiworker", for the features.

    Returns:
        (list of pairs, training `ImageSet`, test `ImageSet`). A pair is a dict of "train" and "test" (path, or number
        of the record), "distance", "mirrored", "cosine" (without a model None), "train_label" and "test_label" (class
        names), "same_label", "train_index" and "test_index".

    Raises:
        ValueError: if a set can't be opened, or more than a million pairs are found.
    """
    from vitkeras import data

    train, test = _sets(config)
    (hashes, labels), (other_hashes, other_labels) = (data.perceptual_hashes(images) for images in (train, test))
    features = _features(config, (train, test), device) if config.has_model else (None, None)
    found = data.near_duplicates(hashes, other_hashes, config.max_distance, *features, config.min_cosine)
    names = [_names(images) for images in (train, test)]
    pairs = []
    for row in range(len(found)):
        i, j = int(found.first[row]), int(found.second[row])
        classes = train.class_names[labels[i]], test.class_names[other_labels[j]]
        pairs.append(
            {
                "train": names[0][i],
                "test": names[1][j],
                "distance": int(found.distance[row]),
                "mirrored": bool(found.mirrored[row]),
                "cosine": None if found.cosine is None else round(float(found.cosine[row]), 4),
                "train_label": classes[0],
                "test_label": classes[1],
                "same_label": classes[0] == classes[1],
                "train_index": i,
                "test_index": j,
            }
        )
    return pairs, train, test


def _sets(config):
    """The two `ImageSet`s."""
    from vitkeras import data

    choice = config.data
    if config.against is None:
        splits = data.open_dataset(choice.spec, choice.on_bad_image, choice.test_fraction, limit=choice.limit)
        return splits.train, splits.test
    first = data.open_dataset(choice.spec, choice.on_bad_image, None, limit=choice.limit)
    return first.train, data.open_dataset(config.against, choice.on_bad_image, None).test


def _features(config, sets, device):
    """Of both sets, (n, D) and (m, D)."""
    from vitkeras import data, evaluation

    choice = config.data
    with runner.make_strategy(device).scope():
        model = frozen_model(config)
    model = evaluation.feature_model(model, None if config.layer == "head" else config.layer)
    size = image_size_of(model, choice)
    features = []
    for images in sets:
        batches = data.eval_batches(images, config.batch_size, size, choice.preprocessing)
        whole = [config.against is not None, choice.test_fraction, choice.limit]
        key = json.dumps([images.name, images.num_examples, size, choice.preprocessing, whole])
        features.append(evaluation.fewshot_features(model, batches, config.cache, key)[0])
    return features


def _names(images):
    """What an image is called: its path, or the number of its record."""
    return getattr(images, "paths", None) or range(images.num_examples)


def _smoke(config, folder):
    """The same search of made-up images, with a random toy model."""
    import vitkeras

    path = os.path.join(folder, "toy.keras")
    vitkeras.VisionTransformer((32, 48, 3), 16, 1, 24, 3, 48, classes=5).save(path)
    data = dataclasses.replace(config.data, spec="mock:32x48x5", limit=None)
    return dataclasses.replace(config, data=data, against="mock:32x48x5", checkpoint=path, cache=None)


def _main(argv):
    parse = cli.parser("Find images that two sets share.", CONFIGS, default="look_alikes", trains=False)
    parse.add_argument("--against", metavar="SPEC", help="a second set, instead of the first one's test part (against)")
    parse.add_argument("--model", metavar="PATH", help="model.keras, workdir, checkpoint or weights file (checkpoint)")
    parse.add_argument("--weights", metavar="W", help="weights of the configuration's own model (model.weights)")
    cli.report(parse, CONFIGS, SHORTCUTS, _smoke, _show, argv)


def _show(config, arguments):
    if config.model != type(config.model)() and not config.has_model:
        raise ValueError(f"--weights (or --model) is needed for --config {arguments.config}, received neither.")
    if not arguments.workdir:
        _say(*find(config, arguments.device))
        return
    with results_folder(arguments.workdir, FILES):
        pairs, train, test = find(config, arguments.device)
        left_out = _say(pairs, train, test)
        _write(arguments.workdir, config, pairs, left_out, train, test)


def _say(pairs, train, test):
    """Prints the first pairs and the sums; returns the places of the training images to leave out."""
    from vitkeras.analysis.summary_table import align

    if pairs:
        rows = [("bits", "cosine", "mirrored", "training image", "test image", "labels")]
        for pair in pairs[:SHOWN]:
            cosine = "-" if pair["cosine"] is None else f"{pair['cosine']:.4f}"
            labels = pair["train_label"] if pair["same_label"] else f"{pair['train_label']} / {pair['test_label']}"
            mirrored = "yes" if pair["mirrored"] else ""
            rows.append((str(pair["distance"]), cosine, mirrored, str(pair["train"]), str(pair["test"]), labels))
        print("\n".join(align(rows, left=len(rows[0]))))
        if len(pairs) > SHOWN:
            print(f"and {len(pairs) - SHOWN} more")
    left_out = leave_out(pairs)
    tests = len({pair["test_index"] for pair in pairs})
    others = sum(not pair["same_label"] for pair in pairs)
    print(
        f"{len(pairs)} pairs: {len(left_out)} of {train.num_examples} training images and {tests} of "
        f"{test.num_examples} test images, {others} pairs with different labels"
    )
    return left_out


def _write(folder, config, pairs, left_out, train, test):
    """The report's files; those for training last."""
    from .near_duplicates_page import page

    names = _names(train)
    described = {
        "config": as_dict(config),
        "train_images": train.num_examples,
        "test_images": test.num_examples,
        "pairs": pairs,
        "leave_out": [names[i] for i in left_out],
    }
    texts = {
        "near_duplicates.csv": pairs_text(pairs),
        "near_duplicates.html": page(pairs, train, test, config),
        "leave_out.txt": "".join(f"{names[i]}\n" for i in left_out),
    }
    if hasattr(train, "paths"):
        texts["kept.csv"] = kept_text(train, test, left_out)
        texts["classes.txt"] = "".join(f"{name}\n" for name in train.class_names)
    write_json(os.path.join(folder, "near_duplicates.json"), described)
    for name, text in texts.items():
        write_text(os.path.join(folder, name), text)
    print(f"near_duplicates.json, {', '.join(texts)} are in {folder}")


def main(argv=None):
    """Entry point of `vitkeras-near-duplicates`; returns the exit code."""
    return cli.run(_main, argv, "lower batch_size, as by --set batch_size=8")


if __name__ == "__main__":
    sys.exit(main())
