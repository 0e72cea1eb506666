"""The whole path on a laptop: fine-tune a small ViT on digits, export it, run the files, look at the result.

    make demo        (or: python examples/demo.py --out demo)

Writes into the folder: `run/` (the training run with `model.keras`), `digits_fp32.tflite`,
`digits_int8_dynamic.tflite`, `results.json` and `report.html`.
"""

import argparse
import base64
import html
import io
import json
import os
import sys
import time

PRESETS = ("fp32", "int8_dynamic")


def main(argv=None):
    """Runs the demo; returns the exit code."""
    parse = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parse.add_argument("--out", default="demo", metavar="DIR")
    parse.add_argument("--epochs", type=float, default=80, help="passes over the 1,437 training digits")
    arguments = parse.parse_args(argv)
    out, start = arguments.out, time.perf_counter()
    os.makedirs(out, exist_ok=True)
    run = os.path.join(out, "run")

    from vitkeras.recipes import finetune

    print("1/3  fine-tuning a ViT of 4 layers on scikit-learn's digits", flush=True)
    command = ["--config", "digits", "--workdir", run, "--overwrite", "--set", f"train.epochs={arguments.epochs}"]
    if code := finetune.main(command):
        return code

    print("2/3  exporting", flush=True)
    import keras

    from vitkeras import data, export, preprocess_input

    model = keras.saving.load_model(os.path.join(run, "model.keras"))
    splits = data.open_dataset("digits")
    images, labels = data.raw_images(splits.test, model.input_shape[1:3])
    paths = {preset: os.path.join(out, f"digits_{preset}.tflite") for preset in PRESETS}
    reports = {}
    for preset, path in paths.items():
        reports[preset] = export.to_tflite(
            model, path, preset=preset, labels=splits.class_names, verify_images=images, overwrite=True
        )
        print(reports[preset].as_text(), flush=True)

    print("3/3  running every test image", flush=True)
    scores = {"keras": model.predict(preprocess_input(images), verbose=0)}
    scores |= {preset: export.run_tflite(path, images) for preset, path in paths.items()}
    predicted = {name: s.argmax(axis=1) for name, s in scores.items()}
    rows = [
        {
            "model": name,
            "accuracy": float((predicted[name] == labels).mean()),
            "agreement": float((predicted[name] == predicted["keras"]).mean()),
            "bytes": os.path.getsize(paths.get(name, os.path.join(run, "model.keras"))),
            "milliseconds": reports[name].latency_ms if name in paths else None,
        }
        for name in scores
    ]
    text = table(rows)
    print(text)
    results = {"test_images": len(labels), "rows": rows, "seconds": round(time.perf_counter() - start, 1)}
    write(os.path.join(out, "results.json"), json.dumps(results, indent=1) + "\n")
    with open(os.path.join(run, "curve.png"), "rb") as file:
        curve = file.read()
    cards = digit_cards(images, labels, predicted, splits.class_names)
    write(os.path.join(out, "report.html"), page(rows, len(labels), curve, cards))
    print(f"report: {os.path.join(out, 'report.html')}   ({results['seconds']:.0f} s)")
    return 0


def table(rows):
    """The results as text."""
    lines = [f"{'model':14s} {'accuracy':>9s} {'agreement':>10s} {'size':>9s} {'latency':>10s}"]
    for row in rows:
        milliseconds = f"{row['milliseconds']:.2f} ms" if row["milliseconds"] is not None else "-"
        lines.append(
            f"{row['model']:14s} {100 * row['accuracy']:8.2f}% {100 * row['agreement']:9.2f}% "
            f"{row['bytes'] / 1024:6.0f} KB {milliseconds:>10s}"
        )
    return "\n".join(lines)


def digit_cards(images, labels, predicted, names, count=40):
    """HTML of test images: first those that any model got wrong, then others."""
    from PIL import Image

    wrong = [i for i in range(len(labels)) if any(p[i] != labels[i] for p in predicted.values())]
    right = [i for i in range(len(labels)) if i not in set(wrong)]
    cards = []
    for i in (wrong + right)[:count]:
        buffer = io.BytesIO()
        Image.fromarray(images[i]).resize((64, 64), Image.Resampling.NEAREST).save(buffer, "PNG")
        answers = "".join(
            f'<div class="{"good" if p[i] == labels[i] else "bad"}"><span>{html.escape(name)}</span> '
            f"<b>{html.escape(names[p[i]])}</b></div>"
            for name, p in predicted.items()
        )
        truth = html.escape(names[labels[i]])
        picture = f'<img alt="digit {truth}" src="{data_uri(buffer.getvalue())}">'
        cards.append(f"<figure>{picture}<div><span>label</span> <b>{truth}</b></div>{answers}</figure>")
    return "\n".join(cards)


def data_uri(png):
    """A PNG inside the page."""
    return "data:image/png;base64," + base64.b64encode(png).decode()


def page(rows, count, curve, cards):
    """The whole report as one HTML file without outside parts."""
    body = "".join(
        f"<tr><td>{row['model']}</td><td>{100 * row['accuracy']:.2f} %</td><td>{100 * row['agreement']:.2f} %</td>"
        f"<td>{row['bytes'] / 1024:.0f} KB</td>"
        f"<td>{'' if row['milliseconds'] is None else format(row['milliseconds'], '.2f') + ' ms'}</td></tr>"
        for row in rows
    )
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>vitkeras: digits, from training to int8</title>
<style>
:root {{ color-scheme: light dark; --ink: #1c1f24; --paper: #fff; --line: #d6dae0; --soft: #f4f6f8;
  --good: #1a7f37; --bad: #d1242f; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --ink: #e7eaee; --paper: #15181c; --line: #353b43; --soft: #20252b;
    --good: #4ac26b; --bad: #ff7b72; }} }}
body {{ font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 62rem;
  margin: 2rem auto; padding: 0 1rem; }}
table {{ border-collapse: collapse; width: 100%; }} th, td {{ text-align: right; padding: .4rem .7rem;
  border-bottom: 1px solid var(--line); }} th:first-child, td:first-child {{ text-align: left; }}
img.curve {{ width: 100%; background: #fff; border-radius: .5rem; }}
.cards {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(8.4rem, 1fr)); gap: .7rem; }}
figure {{ margin: 0; padding: .6rem; background: var(--soft); border-radius: .5rem; font-size: .8rem; }}
figure img {{ width: 64px; height: 64px; display: block; margin: 0 auto .4rem; image-rendering: pixelated; }}
figure div {{ display: flex; justify-content: space-between; }}
.good b {{ color: var(--good); }} .bad b {{ color: var(--bad); }}
</style>
<h1>Digits, from training to an int8 file</h1>
<p>A Vision Transformer of 4 layers, trained from scratch on scikit-learn's handwritten digits, exported to TFLite and
run over all {count} test images. <em>Agreement</em> is the share of images on which a file and the Keras model give
the same answer; latency is the median of one image on this machine's CPU.</p>
<table><tr><th>model</th><th>accuracy</th><th>agreement</th><th>size</th><th>latency</th></tr>{body}</table>
<h2>Learning curve</h2>
<img class="curve" alt="loss and accuracy against the step" src="{data_uri(curve)}">
<h2>Test images</h2>
<p>Mistakes of any model come first; the answers are green where they are right.</p>
<div class="cards">
{cards}
</div>
</html>
"""


def write(path, text):
    """Writes a text file under a temporary name and moves it into place."""
    with open(path + ".part", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".part", path)


if __name__ == "__main__":
    sys.exit(main())
