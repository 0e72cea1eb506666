"""The tables of docs/results.md, between its markers."""

import re
import statistics

from .collect import differences, summary
from .plan import PRETRAINING

REFERENCES = {
    "masked_patch": "from scratch",
    "equal_compute": "from scratch",
    "hybrid": "ViT",
    "positions": "none",
    "flowers": None,
}


def write_tables(text, results):
    """Puts the tables of all experiments that have results into a document.

    Args:
        text: str, Markdown with a pair of lines `<!-- results: NAME -->` and `<!-- end -->` for each experiment.
        results: dict of experiment -> row -> dict, from `collect`.

    Returns:
        str, the document with what stood between these markers replaced.

    Raises:
        ValueError: if an experiment has no markers, or two pairs.
    """
    for experiment, rows in results.items():
        start = f"<!-- results: {experiment} -->"
        pattern = re.compile(re.escape(start) + r"\n.*?<!-- end -->", re.DOTALL)
        if len(pattern.findall(text)) != 1:
            found = len(pattern.findall(text))
            raise ValueError(f"the document must hold {start} ... <!-- end --> once, received {found} of them.")
        body = table(experiment, rows)
        text = pattern.sub(lambda match, start=start, body=body: f"{start}\n\n{body}\n\n<!-- end -->", text)
    return text


def table(experiment, rows):
    """One experiment's rows as a Markdown table, and a sentence on what else was measured."""
    if experiment == "fewshot":
        return _fewshot(rows)
    reference = REFERENCES[experiment]
    heads = ["", "training images shown", "test accuracy %"]
    heads += ["test loss", "each seed %"] if len(next(iter(rows.values()))["runs"]) > 1 else ["test loss"]
    if reference:
        heads.append(f"points above *{reference}*")
    if experiment == "hybrid":
        heads[1:1] = ["million multiply-adds an image"]
    heads.append("processor minutes a run")
    lines = []
    for name, row in rows.items():
        if name == PRETRAINING:
            continue
        runs = row["runs"]
        cells = [name, f"{runs[0]['images']:,}", _spread(runs)]
        cells.append(_spread(runs, "loss", 1, 3))
        if len(runs) > 1:
            cells.append(", ".join(f"{100 * run['accuracy']:.1f}" for run in runs))
        if reference:
            cells.append("" if name == reference else _above(runs, rows[reference]["runs"]))
        if experiment == "hybrid":
            cells[1:1] = [f"{row['multiply_adds'] / 1e6:.3f}"]
        cells.append(_minutes(runs))
        lines.append(cells)
    text = _markdown(heads, lines)
    if PRETRAINING in rows:
        runs = rows[PRETRAINING]["runs"]
        text += (
            f"\n\nThe pre-training before it: {runs[0]['images']:,} images shown without labels, right predictions on "
            f"the test pictures {_spread(runs)} %, {_minutes(runs)} processor minutes a run."
        )
    return text


def _fewshot(rows):
    lines = [
        [name, _spread(row["runs"]), ", ".join(f"{100 * run['accuracy']:.1f}" for run in row["runs"])]
        for name, row in rows.items()
    ]
    return _markdown(["examples of each class", "test accuracy %", "each draw %"], lines)


def _spread(runs, key="accuracy", scale=100, digits=1):
    mean, deviation = summary(runs, key, scale)
    return f"{mean:.{digits}f}" if deviation is None else f"{mean:.{digits}f} ± {deviation:.{digits}f}"


def _above(runs, reference):
    points = differences(runs, reference)
    return f"{statistics.fmean(points):+.1f} ({', '.join(f'{value:+.1f}' for value in points)})"


def _minutes(runs):
    known = [run["seconds"] for run in runs if run["seconds"] is not None]
    return f"{statistics.fmean(known) / 60:.1f}" if known else "not known"


def _markdown(heads, rows):
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
