"""The report of `recipes.inspect` as one HTML page: no script, no other file, nothing from the network.

Legend: L layers, H heads.
"""

import html
import os

import numpy as np

from . import inspect_pictures as pictures
from .inspect_style import STYLE

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
NOTE = (
    "How large a part each patch has in what the classifier reads: the class token, or the mean of all tokens without "
    "one. 1 is an even share. The colours end where 3 % of the patches lie above them, because trained nets may keep "
    "notes in a few patches of no interest, which then outweigh all others."
)
WORDS = {
    "mean": "<b>Attention rollout</b> over all layers, mean of the heads",
    "min": "<b>Rollout of the weakest head</b> of each layer: leaves out patches that single heads use as a store",
}


def page(report):
    """Returns the page of a `Report` as a str."""
    title = f"Inside {report.facts['model']}"
    parts = [
        f"<header><h1>{_text(title)}</h1><p class='note'>{_text(_described(report.facts))}</p></header>",
        *(_photo(look, i, len(report.looks)) for i, look in enumerate(report.looks)),
        _learned(report),
        _cost(report),
        _facts(report.facts),
        f"<footer>Made by <code>{_text(report.command)}</code>, {_text(_versions(report.versions))}.</footer>",
    ]
    return (
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<link rel="icon" href="data:,">\n'
        f"<title>{_text(title)}</title>\n<style>{STYLE}</style>\n<main>\n" + "\n".join(parts) + "\n</main>\n</html>\n"
    )


def _described(facts):
    head = "no head" if facts["classes"] is None else f"{facts['classes']:,} classes"
    height, width = facts["image size"]
    return (
        f"{facts['layers']} layers of {facts['heads']} heads, {facts['grid'][0]} × {facts['grid'][1]} patches of an "
        f"image of {width} × {height} pixels, {facts['parameters']:,} parameters, {head}"
    )


def _photo(look, index, count):
    name = os.path.basename(look.photo.path)
    height, width = look.photo.pixels.shape[:2]
    large, small = pictures.preview(look.photo.pixels), pictures.preview(look.photo.pixels, pictures.SMALL)
    shown = [
        f'<figure><img src="{pictures.picture_uri(large)}" alt="The picture {_text(name)}">'
        f"<figcaption><b>The picture</b>, {width} × {height} pixels</figcaption></figure>"
    ]
    shown += [_over(large, heat, WORDS[kind]) for kind, heat in look.rollouts.items()]
    reads = "<b>The last layer alone</b>, mean of the heads"
    shown.append(_over(large, look.last, reads))
    steps = "".join(
        f'<figure><img src="{_heat_uri(small, heat)[0]}" alt="Rollout of layers 1 to {i}">'
        f"<figcaption>layer {i}</figcaption></figure>"
        for i, heat in enumerate(look.steps, 1)
    )
    turned = (
        "<p class='note'>The file asks to be shown turned; training, evaluation and this page take its pixels as they "
        "are stored.</p>"
        if look.photo.is_turned
        else ""
    )
    return (
        f"<section><h2>{_text(name)}</h2>{turned}{_bars(look.predictions)}<div class='wide'>{''.join(shown)}</div>"
        f"<p class='note'>{NOTE}</p>"
        f"<h3>Rollout after each layer</h3><div class='strip'>{steps}</div>"
        f"<h3>Attention of each head</h3>{_heads(look, index)}</section>"
    )


def _over(picture, heat, words):
    uri, (low, high) = _heat_uri(picture, heat)
    most, (row, column) = heat.max() / heat.mean(), _peak(heat)
    above = f"; the largest is {most:.1f}" if most > high else ""
    alt = f"Heat map over the picture; the largest value lies in patch row {row}, column {column}"
    return (
        f'<figure><img src="{uri}" alt="{alt}"><div class="scale"><span>{low:.2f}</span>'
        f'<i style="background: {_gradient()}"></i><span>{"≥ " if above else ""}{high:.2f}</span></div>'
        f"<figcaption>{words}<small>{above}</small></figcaption></figure>"
    )


def _heat_uri(picture, heat):
    """(data address, (low, high)): a heat map over a picture, as multiples of an even share."""
    from vitkeras.analysis.figures_canvas import heat_over, heat_scale

    relative = heat / heat.mean()
    scale = heat_scale(relative)
    return pictures.picture_uri(heat_over(picture, relative, scale)), scale


def _gradient():
    from vitkeras.analysis.figures_canvas import colour

    stops = np.rint(255 * colour(np.linspace(0, 1, 9))).astype(int)
    return f"linear-gradient(to right, {', '.join('rgb({} {} {})'.format(*stop) for stop in stops)})"


def _bars(predictions):
    if not predictions:
        return ""
    lines = "".join(
        f'<li><b>{_text(name)}</b><span>{100 * p:.1f} %</span><i style="--share: {100 * p:.1f}%"></i></li>'
        for _, name, p in predictions
    )
    return f"<h3>Predicted classes</h3><ul class='bars'>{lines}</ul>"


def _heads(look, index):
    """A part to open for each layer; a browser keeps one of them open at a time."""
    height, width = look.photo.pixels.shape[:2]
    shape = f"aspect-ratio: {width} / {height}"
    parts = []
    for i, (maps, distances) in enumerate(zip(look.heads, look.distances), 1):
        figures = "".join(_head(i, j, heat, far, shape) for j, (heat, far) in enumerate(zip(maps, distances), 1))
        opened = " open" if i == len(look.heads) else ""
        parts.append(
            f'<details name="heads-{index}"{opened}><summary>Layer {i} '
            f"<small>looks {distances.min():.0f} to {distances.max():.0f} px far</small></summary>"
            f'<div class="heads">{figures}</div></details>'
        )
    return "<div>" + "".join(parts) + "</div>"


def _head(layer, head, heat, far, shape):
    row, column = _peak(heat)
    alt = f"Layer {layer}, head {head}: looks most at patch row {row}, column {column}"
    return (
        f'<figure><img src="{pictures.map_uri(heat)}" alt="{alt}" style="{shape}">'
        f"<figcaption>head {head} <small>{far:.0f} px</small></figcaption></figure>"
    )


def _peak(heat):
    """(row, column) of the largest value, from 1."""
    row, column = np.unravel_index(int(heat.argmax()), heat.shape)
    return int(row) + 1, int(column) + 1


def _learned(report):
    from vitkeras.analysis.figures_distance import draw_distances
    from vitkeras.analysis.figures_filters import draw_filters
    from vitkeras.analysis.figures_positions import draw_positions

    panels = [
        _panel(lambda axes: draw_filters(axes, report.filters), 4.4, 3.2, "Principal components of the first kernel")
    ]
    for title, similarity in report.similarities.items():
        panels.append(_panel(lambda axes, x=similarity, t=title: draw_positions(axes, x, t), 4.6, 3.8, title))
    if not report.similarities:
        panels.append("<p class='note'>The model has no learned position embedding: there is nothing to compare.</p>")
    distances = report.distances
    panels.append(
        _panel(lambda axes: draw_distances(axes, distances), 4.4, 3.6, "Attention distance of each head by layer")
    )
    rows = [[f"layer {i}", *(f"{far:.1f}" for far in row), f"{row.mean():.1f}"] for i, row in enumerate(distances, 1)]
    head = ["", *(f"head {j}" for j in range(1, distances.shape[1] + 1)), "mean"]
    of = "this picture" if len(report.looks) == 1 else f"these {len(report.looks)} pictures"
    return (
        f"<section><h2>What it has learned</h2><div class='panels'>{''.join(panels)}</div>"
        "<p class='note'>The three panels of the paper's Figure 7, for this model. The distances are those on "
        f"{of}; the paper averages 128.</p>"
        f"<details><summary>Attention distances in pixels</summary>{_table(head, rows)}</details></section>"
    )


def _panel(draw, width, height, alt):
    uris = pictures.figure_uris(draw, width, height)
    return (
        f'<picture><source srcset="{uris["dark"]}" media="(prefers-color-scheme: dark)">'
        f'<img src="{uris["light"]}" alt="{_text(alt)}"></picture>'
    )


def _cost(report):
    from vitkeras.analysis.summary_table import HEADINGS, cost_rows, cost_sums

    if report.cost is None:
        return f"<section><h2>What it costs</h2><p class='note'>{_text(report.cost_fault)}</p></section>"
    table = _table(HEADINGS, cost_rows(report.cost), texts=2)
    note = _text(cost_sums(report.cost))
    return f"<section><h2>What it costs</h2>{table}<p class='note'>One image, by calculation: {note}.</p></section>"


def _facts(facts):
    rows = [[name, _shown(value)] for name, value in facts.items()]
    return f"<section><h2>The model</h2>{_table(None, rows, kind='facts')}</section>"


def _shown(value):
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, list):
        return " × ".join(f"{x:g}" for x in value)
    return f"{value:,}" if isinstance(value, int) else value


def _table(head, rows, texts=1, kind="numbers"):
    """A table of a class `kind`; its first `texts` columns are flush left."""
    cells = []
    for tag, row in [("th", head)] * (head is not None) + [("td", row) for row in rows]:
        marks = [' class="text"'] * texts + [""] * (len(row) - texts)
        cells.append(f"<tr>{''.join(f'<{tag}{mark}>{_text(x)}</{tag}>' for mark, x in zip(marks, row))}</tr>")
    # A table that is wider than a phone scrolls by itself, by the keyboard, too.
    return f'<div class="scroll" tabindex="0"><table class="{kind}">{"".join(cells)}</table></div>'


def _versions(versions):
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _text(value):
    return html.escape(str(value))
