"""What an export says of itself."""

import dataclasses
from dataclasses import dataclass

LEAST_ZEROS = 0.05  # share of zeros that isn't chance: the report speaks of them


class ExportError(RuntimeError):
    """A check of the exported file failed; nothing was written. The message names check, rule and received value."""


@dataclass(frozen=True)
class ExportReport:
    """The result of an export's checks.

    Attributes:
        path: str, where the file is.
        preset: str.
        output: str, "logits", "probabilities" or "features".
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

    def as_dict(self):
        """Returns plain values, ready for JSON (an infinite ratio becomes None)."""
        values = dataclasses.asdict(self)
        if self.sqnr_db == float("inf"):
            values["sqnr_db"] = None
        return values

    def as_text(self):
        """Returns a table for people."""
        kind = "synthetic images" if self.synthetic else "images"
        partition = f"XNNPACK partition{'' if self.partitions == 1 else 's'}"
        accelerated = "fully accelerated" if self.fully_accelerated else "NOT fully accelerated"
        lines = {
            "file": f"{self.path} ({self.size_bytes / 1e6:.2f} MB, {self.gzip_bytes / 1e6:.2f} MB compressed)",
            "preset": f"{self.preset}, image 0...255 -> {self.output}",
            "graph": f"{sum(self.operators.values())} builtin operators, {self.partitions} {partition}, {accelerated}",
            f"against Keras, {self.images} {kind}": (
                f"max |difference| {self.max_abs_difference:.2e}, cosine {self.cosine:.6f}, "
                f"SQNR {self.sqnr_db:.1f} dB, same top-1 {100 * self.top1_agreement:.1f} %"
            ),
            "latency": f"{self.latency_ms:.2f} ms an image, {self.num_threads} threads",
            "sha256": self.sha256,
        }
        if self.zero_weights > LEAST_ZEROS:
            lines["zeros"] = (
                f"{100 * self.zero_weights:.1f} % of the weights; dense kernels: they make the compressed file "
                "smaller, and nothing faster"
            )
        width = max(map(len, lines))
        return "\n".join(f"{key:{width}s}  {value}" for key, value in lines.items())

    def __str__(self):
        return self.as_text()
