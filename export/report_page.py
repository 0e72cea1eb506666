"""An export's report as one HTML page: no script, no other file, light or dark as the reader's system is."""

import base64
import html
import io

from vitkeras._optional import require

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1c2024; --dim: #5f6870; --line: #d9dee3; --soft: #f3f5f7;
  --bar: #3d7dca; --good: #19703a; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171a; --ink: #e6e9ec; --dim: #9aa4ad; --line: #333a41;
  --soft: #1e2328; --bar: #6aa5e8; --good: #6fcf8f; --bad: #ff8a80; } }
body { margin: 2rem auto; max-width: 60rem; padding: 0 1rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; overflow-wrap: anywhere; } h2 { font-size: 1.15rem; margin-top: 2rem; }
p { color: var(--dim); } code { font-size: .85em; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; } td.number { text-align: right; font-variant-numeric: tabular-nums; }
th + th { text-align: right; }
td.pass { color: var(--good); } td.fail { color: var(--bad); }
td.bar { width: 50%; } td.bar div { background: var(--bar); height: .8rem; margin-top: .35rem; border-radius: .2rem; }
.pictures { display: grid; grid-template-columns: repeat(auto-fill, minmax(11rem, 1fr)); gap: .8rem; }
figure { margin: 0; padding: .7rem; background: var(--soft); border-radius: .5rem; font-size: .9rem; }
figure img { width: 100%; display: block; margin-bottom: .5rem; border-radius: .25rem; }
figure b { color: var(--dim); font-weight: 600; }
"""


VERDICTS = {  # None: reported, not required
    True: '<td class="pass">passed</td>',
    False: '<td class="fail">failed</td>',
    None: "<td></td>",
}


def report_page(report):
    """Returns the page of an `ExportReport` as a str."""
    parts = [
        f"<h1>{_text(report.path)}</h1>",
        f"<p>{_text(report.preset)}: image 0...255 as {_text(report.input_dtype)} to {_text(report.output)}</p>",
        "<h2>Checks</h2>",
        _table(["check", "found", ""], _checks(report)),
        "<h2>File</h2>",
        _table(None, _facts(report)),
        _layers(report.layer_snr),
        _pictures(report),
        "<h2>Operators</h2>",
        _table(["operator", "count"], [[_cell(name), _number(n)] for name, n in sorted(report.operators.items())]),
        "<h2>Versions</h2>",
        _table(["package", "version"], [[_cell(name), _number(v)] for name, v in report.versions.items()]),
    ]
    title = _text(f"Export of {report.path}")
    return (
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n" + "\n".join(part for part in parts if part) + "\n</html>\n"
    )


def _checks(report):
    kind = "synthetic images" if report.synthetic else "images"
    required = None if report.synthetic else True  # on made-up images the highest output means nothing
    outside = "" if report.fully_accelerated else ", some operators outside"
    rows = [
        ("XNNPACK partitions", f"{report.partitions}{outside}", report.partitions == 1),
        ("builtin operators", str(sum(report.operators.values())), True),
        ("size holds the weights", f"{report.size_bytes:,} of at least {report.weight_bytes:,} bytes", True),
        ("cosine to the Keras model", f"{report.cosine:.6f}", True),
        ("largest difference", f"{report.max_abs_difference:.2e}", None),
        ("signal to difference", f"{report.sqnr_db:.1f} dB", None),
    ]
    if report.is_classifier():
        rows.append((f"same top-1 on {report.images} {kind}", f"{100 * report.top1_agreement:.1f} %", required))
    return [[_cell(name), _number(found), VERDICTS[good]] for name, found, good in rows]


def _facts(report):
    threads = f"{report.num_threads} thread{'' if report.num_threads == 1 else 's'}"
    facts = {
        "preset": report.preset,
        "size": f"{report.size_bytes / 1e6:.2f} MB, {report.gzip_bytes / 1e6:.2f} MB compressed",
        "latency": f"{report.latency_ms:.2f} ms an image, {threads}, on the machine of the export",
        "SHA-256": report.sha256,
    }
    rows = [[_cell(name), f"<td><code>{_text(fact)}</code></td>"] for name, fact in facts.items()]
    return rows + [[_cell(name), _cell(note)] for name, note in report.notes().items()]


def _layers(layer_snr):
    if not layer_snr:
        return ""
    most = max([snr for _, snr in layer_snr if snr != float("inf")] + [1.0])
    rows = []
    for name, snr in layer_snr:
        width = 100 * min(max(snr / most, 0), 1)  # a layer without any difference is a full bar
        bar = f'<td class="bar"><div style="width: {width:.1f}%"></div></td>'
        rows.append([_cell(name), _number(f"{snr:.1f} dB"), bar])
    note = "<p>Signal to difference of each layer's output; a short bar is a layer that the preset hurts.</p>"
    return "<h2>Layers</h2>" + note + _table(["layer", "signal to difference", ""], rows)


def _pictures(report):
    if not report.disagreements:
        return ""
    figures = []
    for found in report.disagreements:
        model, file = _answer(found.model), _answer(found.file)
        figures.append(
            f'<figure><img alt="image {found.position}" src="{_data_uri(found.pixels)}">'
            f"<b>image</b> {found.position}<br><b>model</b> {model}<br><b>file</b> {file}</figure>"
        )
    return "<h2>Where file and model disagree</h2>\n" + f'<div class="pictures">{"".join(figures)}</div>'


def _answer(answer):
    name = f"class {answer.index}" if answer.label is None else answer.label
    return f"{_text(name)} ({answer.score:.3g})"


def _data_uri(pixels):
    image = require("PIL.Image", "Pillow", "an HTML report", extra="export")
    buffer = io.BytesIO()
    if pixels.shape[-1] not in (1, 3):
        pixels = pixels[..., :1]
    image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels).save(buffer, "PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def _table(head, rows):
    head = "" if head is None else "<tr>" + "".join(f"<th>{_text(name)}</th>" for name in head) + "</tr>"
    return f"<table>{head}" + "".join(f"<tr>{''.join(row)}</tr>" for row in rows) + "</table>"


def _cell(value):
    return f"<td>{_text(value)}</td>"


def _number(value):
    return f'<td class="number">{_text(value)}</td>'


def _text(value):
    return html.escape(str(value))
