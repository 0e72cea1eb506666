"""Pairs of images as one HTML page: no script, no other file, light or dark as the reader's system is."""

import base64
import html

SIDE = 150  # pixels of a thumbnail's longer side

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1c2024; --dim: #5f6870; --soft: #f3f5f7; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171a; --ink: #e6e9ec; --dim: #9aa4ad; --soft: #1e2328;
  --bad: #ff8a80; } }
body { margin: 2rem auto; max-width: 72rem; padding: 0 1rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; } p { color: var(--dim); overflow-wrap: anywhere; }
.pairs { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 20rem), 1fr)); gap: .8rem; }
section { padding: .7rem; background: var(--soft); border-radius: .5rem; font-size: .85rem; overflow-wrap: anywhere; }
section div { display: grid; grid-template-columns: 1fr 1fr; gap: .5rem; }
figure { margin: 0; } figure img { width: 100%; height: 9.4rem; object-fit: contain; display: block; }
.differ { color: var(--bad); font-weight: 600; }
"""


def page(pairs, train, test, config):
    """Returns the page of the pairs from `near_duplicates.find` as a str.

    Args:
        pairs: list of dict, the most alike first.
        train, test: `ImageSet`s.
        config: `NearDuplicatesConfig`.
    """
    shown = pairs[: config.pictures]
    pictures = [
        _thumbnails(images, {pair[f"{part}_index"] for pair in shown})
        for part, images in (("train", train), ("test", test))
    ]
    features = f", or cosine of features at least {config.min_cosine}" if config.has_model else ""
    more = f", the first {len(shown)} shown" if len(shown) < len(pairs) else ""
    sections = "\n".join(_section(pair, *pictures) for pair in shown)
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Near-duplicates</title>\n<style>{STYLE}</style>\n<h1>{len(pairs)} near-duplicates</h1>\n"
        f"<p>{_text(train.name)}, {train.num_examples:,} images, against {_text(test.name)}, {test.num_examples:,} "
        f"images: hashes differ in at most {config.max_distance} of 64 bits{features}{more}.</p>\n"
        f'<div class="pairs">\n{sections}\n</div>\n</html>\n'
    )


def _section(pair, train_pictures, test_pictures):
    facts = [f"{pair['distance']} bits"]
    if pair["cosine"] is not None:
        facts.append(f"cosine {pair['cosine']:.4f}")
    if pair["mirrored"]:
        facts.append("mirrored")
    if not pair["same_label"]:
        facts.append('<span class="differ">labels differ</span>')
    figures = [
        f'<figure><img alt="{part} image" src="{pictures[pair[f"{part}_index"]]}">'
        f"<figcaption>{part}: <b>{_text(pair[f'{part}_label'])}</b><br>{_text(pair[part])}</figcaption></figure>"
        for part, pictures in (("train", train_pictures), ("test", test_pictures))
    ]
    return f"<section><b>{', '.join(facts)}</b><div>{''.join(figures)}</div></section>"


def _thumbnails(images, indices):
    """dict of place -> data URI of a small JPEG."""
    from vitkeras._tensorflow import tf

    if not indices:
        return {}
    wanted = tf.constant(sorted(indices), tf.int64)

    def draw(index, record):
        pixels = images.image(record)
        side = tf.reduce_max(tf.shape(pixels)[:2])
        scale = SIDE / tf.cast(side, tf.float32)
        size = tf.maximum(tf.cast(tf.round(tf.cast(tf.shape(pixels)[:2], tf.float32) * scale), tf.int32), 1)
        small = tf.image.resize(pixels, size, method="area")
        return index, tf.io.encode_jpeg(tf.cast(tf.round(small), tf.uint8), quality=85)

    records = images.records().enumerate().filter(lambda index, _: tf.reduce_any(index == wanted))
    drawn = records.map(draw, num_parallel_calls=tf.data.AUTOTUNE).as_numpy_iterator()
    return {int(index): "data:image/jpeg;base64," + base64.b64encode(jpeg).decode() for index, jpeg in drawn}


def _text(value):
    return html.escape(str(value))
