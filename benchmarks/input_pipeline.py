"""Training images a second on one core, beside the same work written out barely.

    python benchmarks/input_pipeline.py [--photos FOLDER --rounds 5 --images 400 --json out.json]

The pictures are 500 x 375 JPEGs of about 104 KB, ImageNet's mean, in a temporary folder: photos of FOLDER (any image
folder) enlarged, or made-up ones, with the quality chosen for that size. The process keeps to one core and counts its
own processor time, all threads together, which a busy machine disturbs less than the clock. Rounds interleave the
rows, and the medians of the per-round ratios are printed:

    bare         read, draw a crop, `decode_and_crop_jpeg` with TensorFlow's default transform, nothing else
    reference    bare, then bilinear resize to 224, mirror and scaling: what a script would write
    train        `train_batches` in batches of 8: the same plus exact decoding (Pillow's pixels) and batching
    rand_augment the policy of AugReg's medium levels alone, on images of 224 pixels; keras_cv: its own RandAugment

The target is 90 % of 767 images/s, a figure of another machine for the work of `reference`, so that train/reference
is what carries over. keras-cv's rows are left out without it.
"""

import argparse
import io
import json
import os
import statistics
import tempfile
import time

TARGET_BYTES = 104_000
WIDTH, HEIGHT = 500, 375


def encode(image):
    """A JPEG of about 104 KB: bytes."""
    low, high, best = 5, 100, None
    while low <= high:
        quality = (low + high) // 2
        file = io.BytesIO()
        image.save(file, "JPEG", quality=quality)
        if best is None or abs(file.tell() - TARGET_BYTES) < abs(len(best) - TARGET_BYTES):
            best = file.getvalue()
        low, high = (quality + 1, high) if file.tell() < TARGET_BYTES else (low, quality - 1)
    return best


def pictures(photos, count):
    """`count` PIL images of 500 x 375 pixels."""
    import numpy as np
    from PIL import Image

    paths = []
    if photos:
        for folder, _, names in sorted(os.walk(photos)):
            paths += [os.path.join(folder, name) for name in sorted(names) if name.lower().endswith((".jpg", ".png"))]
        paths = paths[:: max(1, len(paths) // count)][:count]
    rng = np.random.default_rng(0)
    for number in range(count):
        if paths:
            image = Image.open(paths[number % len(paths)]).convert("RGB")
        else:
            image = Image.fromarray(rng.integers(0, 256, (47, 63, 3), dtype="uint8"))
        noise = rng.normal(0, 6, (HEIGHT, WIDTH, 3))  # an enlargement has no grain of its own
        pixels = np.asarray(image.resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC)) + noise
        yield Image.fromarray(np.clip(pixels, 0, 255).astype("uint8"))


def write_folder(root, photos, count):
    """Writes the JPEGs as two classes; returns their mean size in bytes."""
    sizes = []
    for number, image in enumerate(pictures(photos, count)):
        folder = os.path.join(root, "train", "ab"[number % 2])
        os.makedirs(folder, exist_ok=True)
        encoded = encode(image)
        sizes.append(len(encoded))
        for target in [folder] + ([os.path.join(root, "test", "a")] if number == 0 else []):
            os.makedirs(target, exist_ok=True)
            with open(os.path.join(target, f"{number}.jpg"), "wb") as file:
                file.write(encoded)
    return sum(sizes) / len(sizes)


def rows(root):
    """name -> (data set, images an element)."""
    import tensorflow as tf

    from vitkeras import data
    from vitkeras.data.augment import draw_crop, example_seeds

    images = data.open_dataset(f"folder:{root}").train
    paths = tf.constant(images.paths)

    def bare(index):
        crop_seed, flip_seed = example_seeds(0, index)
        encoded = tf.io.read_file(paths[index % len(images.paths)])
        window = draw_crop(tf.io.extract_jpeg_shape(encoded), crop_seed, (0.05, 1.0), (3 / 4, 4 / 3))
        return tf.io.decode_and_crop_jpeg(encoded, window, channels=3), flip_seed

    def reference(index):
        image, flip_seed = bare(index)
        image = tf.image.stateless_random_flip_left_right(tf.image.resize(image, (224, 224)), flip_seed)
        return (image - 127.5) / 127.5

    numbers = tf.data.Dataset.range(2**40)
    found = {
        "bare": (numbers.map(bare, num_parallel_calls=1), 1),
        "reference": (numbers.map(reference, num_parallel_calls=1), 1),
        "train": (data.train_batches(images, 8, 224), 8),
    }
    try:
        import keras_cv

        from vitkeras.data.randaugment import RandAugment
    except ImportError as error:
        print(f"without RandAugment: {error}")
    else:
        image = tf.image.resize(images.image(next(iter(images.records()))), (224, 224))
        policy = RandAugment(2, 15)
        theirs = keras_cv.layers.RandAugment((0, 255), augmentations_per_image=2, magnitude=0.5)
        found["rand_augment"] = (numbers.map(lambda index: policy(image, tf.stack([index, index]))), 1)
        found["keras_cv"] = (numbers.map(lambda index: theirs(image)), 1)
    return found


def measure(dataset, size, images):
    """Images a second of processor time. The iterator lives here only: its reading ahead would disturb other rows."""
    count = max(1, images // size)
    iterator = iter(dataset)
    next(iterator)
    start = time.process_time()
    for _ in range(count):
        next(iterator)
    return count * size / (time.process_time() - start)


def main():
    """Runs the rounds and prints images a second and ratios."""
    parse = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parse.add_argument("--photos", metavar="FOLDER")
    parse.add_argument("--rounds", type=int, default=5)
    parse.add_argument("--images", type=int, default=400, help="images of a row in a round")
    parse.add_argument("--json", metavar="PATH")
    arguments = parse.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # before TensorFlow counts the cores
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with tempfile.TemporaryDirectory() as root:
        mean_size = write_folder(root, arguments.photos, 64)
        datasets = rows(root)
        speeds = {name: [] for name in datasets}
        for _ in range(arguments.rounds):
            for name, (dataset, size) in datasets.items():
                speeds[name].append(measure(dataset, size, arguments.images))
    result = {"mean_kilobytes": mean_size / 1000}
    result |= {f"{name}_images_per_second": statistics.median(values) for name, values in speeds.items()}
    pairs = [("train", "bare"), ("train", "reference"), ("rand_augment", "keras_cv")]
    for above, below in pairs:
        if above in speeds and below in speeds:
            result[f"{above}/{below}"] = statistics.median(a / b for a, b in zip(speeds[above], speeds[below]))
    for key, value in result.items():
        print(f"{key:34s} {value:9.3f}")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
