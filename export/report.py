"""What an export says of itself."""

import dataclasses
from dataclasses import dataclass

from .report_page import report_page


def _finite(decibels):
    return None if decibels == float("inf") else decibels


LEAST_ZEROS = 0.05  # share of zeros that isn't chance: the report speaks of them


class ExportError(RuntimeError):
    """A check of the exported file failed; nothing was written. The message names check, rule and received value."""


@dataclass(frozen=True)
class ExportReport:
    """The result of an export's checks.

    Attributes:
        path: str, where the file is.
        preset: str.
        output: str, "logits", "probabilities" or "features"; several names are joined by ", ".
        size_bytes, weight_bytes: ints; the file, and the least that its weights need.
        gzip_bytes: int, the file compressed, as an app's package or a download holds it.
        zero_weights: float, share of the matrices' weights that is zero in the Keras model. The kernels are dense:
            zeros make the compressed file smaller, and nothing faster.
        partitions: int, parts that XNNPACK took over.
        fully_accelerated: bool, whether every operator runs in XNNPACK.
        operators: dict of builtin operator name -> count.
        images: int, how many images file and model were compared on; `synthetic` if none were given.
        synthetic: bool.
        max_abs_difference: float, largest difference of any output.
        cosine: float, of all outputs as one vector.
        sqnr_db: float, signal to difference, in decibels; infinite if equal.
        top1_agreement: float, share of images with the same highest output; ties of the model count as agreement.
        latency_ms: float, median of one image on this machine.
        num_threads: int.
        sha256: str, of the file.
        versions: dict of package -> version.
        input_dtype: str, "float32" or "uint8".
        disagreements: tuple of `Disagreement`, at most 12 images on which file and model answer differently; empty for
            features.
        layer_snr: tuple of (layer name, decibels), signal to difference of each product's output on four images;
            empty for float files.
        reference_cosine: float, of the outputs of TFLite's reference kernels and the fast ones, on one image.
        top5_agreement: float, share of the model's five highest outputs that are among the file's; None with fewer
            than six outputs, and for features.
        accuracies: None without the images' labels, or (the model's, the file's), floats.
        equalized: tuple of `Equalized`, where channels were scaled for the sake of int8.
        centred: int, the projections of keys and values that were given a mean of zero.
        kept_float: tuple of str, dense layers that a search left in float.
        advice: str, what to know of the preset on a device; "" if nothing.
    """

    path: str
    preset: str
    output: str
    size_bytes: int
    weight_bytes: int
    gzip_bytes: int
    zero_weights: float
    partitions: int
    fully_accelerated: bool
    operators: dict
    images: int
    synthetic: bool
    max_abs_difference: float
    cosine: float
    sqnr_db: float
    top1_agreement: float
    latency_ms: float
    num_threads: int
    sha256: str
    versions: dict
    input_dtype: str = "float32"
    disagreements: tuple = ()
    layer_snr: tuple = ()
    reference_cosine: float = 1.0
    top5_agreement: float | None = None
    accuracies: tuple | None = None
    equalized: tuple = ()
    centred: int = 0
    kept_float: tuple = ()
    advice: str = ""

    def as_dict(self):
        """Returns plain values, ready for JSON (an infinite ratio becomes None)."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        values["operators"], values["versions"] = dict(self.operators), dict(self.versions)
        values["disagreements"] = [found.as_dict() for found in self.disagreements]
        values["equalized"] = [vars(site).copy() for site in self.equalized]
        values["layer_snr"] = [[name, _finite(snr)] for name, snr in self.layer_snr]
        values["sqnr_db"] = _finite(self.sqnr_db)
        return values

    def notes(self):
        """Returns what only some files have to say, dict of name -> text."""
        lines = {}
        if self.top5_agreement is not None:
            lines["same top-5"] = f"{100 * self.top5_agreement:.1f} %"
        if self.accuracies is not None:
            lines["accuracy"] = "Keras {:.2f} %, file {:.2f} %".format(*(100 * share for share in self.accuracies))
        if self.equalized:
            lines["equalised"] = f"channels before {len(self.equalized)} products"
        if self.centred:
            lines["centred"] = f"{self.centred} projections of keys and values"
        if self.kept_float:
            lines["float layers"] = ", ".join(self.kept_float)
        if self.advice:
            lines["advice"] = self.advice
        if self.zero_weights > LEAST_ZEROS:
            lines["zeros"] = (
                f"{100 * self.zero_weights:.1f} % of the weights; dense kernels: they make the compressed file "
                "smaller, and nothing faster"
            )
        return lines

    def is_classifier(self):
        """Whether the outputs are of classes: of features the highest means nothing."""
        return not self.output.startswith(("features", "embedding"))

    def as_html(self):
        """Returns one self-contained page: checks, file, layers, and the pictures on which file and model disagree."""
        return report_page(self)

    def as_text(self):
        """Returns a table for people."""
        kind = "synthetic images" if self.synthetic else "images"
        kind_of_input = "" if self.input_dtype == "float32" else f" as {self.input_dtype}"
        partition = f"XNNPACK partition{'' if self.partitions == 1 else 's'}"
        top1 = f", same top-1 {100 * self.top1_agreement:.1f} %" if self.is_classifier() else ""
        accelerated = "fully accelerated" if self.fully_accelerated else "NOT fully accelerated"
        lines = {
            "file": f"{self.path} ({self.size_bytes / 1e6:.2f} MB, {self.gzip_bytes / 1e6:.2f} MB compressed)",
            "preset": f"{self.preset}, image 0...255{kind_of_input} -> {self.output}",
            "graph": f"{sum(self.operators.values())} builtin operators, {self.partitions} {partition}, {accelerated}",
            f"against Keras, {self.images} {kind}": (
                f"max |difference| {self.max_abs_difference:.2e}, cosine {self.cosine:.6f}, "
                f"SQNR {self.sqnr_db:.1f} dB{top1}"
            ),
            "latency": f"{self.latency_ms:.2f} ms an image, {self.num_threads} threads",
            "sha256": self.sha256,
        }
        lines |= self.notes()
        width = max(map(len, lines))
        return "\n".join(f"{key:{width}s}  {value}" for key, value in lines.items())

    def __str__(self):
        return self.as_text()
