"""Makes the pictures of README's section "Look inside": rollout and attention of a drawn flower, and Figure 7.

    VITKERAS_TEST_DATA=FOLDER python examples/pictures.py

`FOLDER/weights/vit_s14_real_fp16.npz` is a self-supervised ViT-S/14 (erf GELU, ImageNet's mean and standard deviation)
and `FOLDER/data/flowers12` has photos, a folder a species, for the attention distances; `--weights` and `--photos`
take others. No photo gets into a picture.
"""

import argparse
import io
import os
import sys

import numpy as np

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
WIDEST = 150_000  # bytes of a picture in the repository
DPI = {"rollout": 80, "attention": 70, "figure7": 80}


def drawn_flower(size=(420, 560), petals=11):
    """A yellow flower on soft green, drawn by formula: uint8 array (height, width, 3)."""
    height, width = size
    y, x = np.mgrid[:height, :width] / height
    rng = np.random.default_rng(7)
    ground = np.zeros((height, width))
    for _ in range(24):  # leaves out of focus
        row, column, wide = rng.uniform(0, 1), rng.uniform(0, width / height), rng.uniform(0.05, 0.2)
        ground += rng.uniform(-0.5, 0.5) * np.exp(-((y - row) ** 2 + (x - column) ** 2) / wide**2)
    picture = np.stack([0.22 + 0.12 * ground, 0.42 + 0.2 * ground, 0.16 + 0.08 * ground], axis=-1)
    angle, radius = np.arctan2(y - 0.5, x - 0.62 * width / height), np.hypot(y - 0.5, x - 0.62 * width / height)
    for ring, (length, turn) in enumerate(((0.37, 0.0), (0.34, np.pi / petals))):
        wave = np.abs(np.cos(petals * (angle + turn) / 2))
        inside = radius < length * (0.55 + 0.45 * wave**0.6)
        shade = 0.72 + 0.14 * ring + 0.25 * radius - 0.12 * (1 - wave) + 0.03 * np.cos(60 * angle)
        picture[inside] = (shade[..., None] * np.array([1.05, 0.78, 0.1]))[inside]
    disc = radius < 0.13
    seeds = 0.24 + 0.09 * np.cos(260 * radius) * np.cos(34 * angle)
    picture[disc] = (seeds[..., None] * np.array([1.2, 0.72, 0.35]))[disc]
    picture += rng.normal(0, 0.012, picture.shape)
    return np.clip(np.rint(255 * picture), 0, 255).astype("uint8")


def photos(folder, size, count):
    """Array (count, height, width, 3) of -1...1: photos of the test part, spread evenly over the species."""
    import vitkeras
    from vitkeras import data

    return vitkeras.preprocess_input(data.raw_images(data.open_dataset(f"folder:{folder}").test, size, count)[0])


def figures(model, images):
    """dict of name -> matplotlib figure."""
    import keras

    import vitkeras
    from vitkeras import analysis

    picture = drawn_flower()
    resized = keras.ops.image.resize(picture.astype("float32"), model.input_shape[1:3])
    seen = np.asarray(vitkeras.preprocess_input(resized))[None]
    return {
        "rollout": analysis.rollout_figure(model, seen, [picture]),
        "attention": analysis.attention_figure(model, seen[0]),
        "figure7": analysis.figure_7(model, images),
    }


def main(argv=None):
    """Writes the pictures; returns the exit code."""
    shared = os.environ.get("VITKERAS_TEST_DATA", os.path.join("..", "shared"))
    parse = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    weights = os.path.join(shared, "weights", "vit_s14_real_fp16.npz")
    parse.add_argument("--weights", default=weights, metavar="FILE", help="default: %(default)s")
    parse.add_argument(
        "--photos", default=os.path.join(shared, "data", "flowers12"), metavar="FOLDER", help="default: %(default)s"
    )
    parse.add_argument("--count", type=int, default=24, metavar="N", help="photos for the distances (default: 24)")
    parse.add_argument("--out", default=os.path.join("docs", "pictures"), metavar="FOLDER", help="default: %(default)s")
    arguments = parse.parse_args(argv)
    try:
        for name, is_there in (("weights", os.path.isfile), ("photos", os.path.isdir), ("out", os.path.isdir)):
            if not is_there(path := getattr(arguments, name)):
                raise ValueError(f"--{name} must exist, received {path!r}; VITKERAS_TEST_DATA names the data's folder.")
        _write(arguments)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def few_colours(buffer):
    """A PNG in memory as bytes of one with 256 colours, less than half as large."""
    from PIL import Image

    smaller = io.BytesIO()
    Image.open(buffer).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(smaller, "PNG", optimize=True)
    return smaller.getvalue()


def _write(arguments):
    import vitkeras

    model = vitkeras.from_checkpoint(arguments.weights, activation="gelu", input_mean=MEAN, input_std=STD)
    images = photos(arguments.photos, model.input_shape[1:3], arguments.count)
    for name, figure in figures(model, images).items():
        path = os.path.join(arguments.out, f"{name}.png")
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=DPI[name])
        small = buffer.getbuffer().nbytes < WIDEST
        with open(f"{path}.part", "wb") as file:
            file.write(buffer.getvalue() if small else few_colours(buffer))
        os.replace(f"{path}.part", path)
        size = os.path.getsize(path)
        print(f"{path}: {size / 1000:.0f} kB{'' if size < WIDEST else ', too large for the repository'}")
    print(f"{len(images)} photos for the distances")


if __name__ == "__main__":
    sys.exit(main())
