"""What the export of a trainable file says of itself."""

import dataclasses
from dataclasses import dataclass


@dataclass(frozen=True)
class TrainableReport:
    """The result of the checks of `to_trainable_tflite`.

    Attributes:
        path: str, where the file is.
        preset: str, of the backbone.
        classes, features, batch_size: ints, the sizes K, D and B of its signatures.
        size_bytes: int.
        operators: dict of signature -> number of builtin operators.
        cosine: float, the file's features against the Keras model's, on synthetic images.
        sqnr_db: float, signal to difference of the same, in decibels; infinite if equal.
        sha256: str, of the file.
    """

    path: str
    preset: str
    classes: int
    features: int
    batch_size: int
    size_bytes: int
    operators: dict
    cosine: float
    sqnr_db: float
    sha256: str

    def as_dict(self):
        """Returns plain values, ready for JSON (an infinite ratio becomes None)."""
        values = dataclasses.asdict(self)
        if self.sqnr_db == float("inf"):
            values["sqnr_db"] = None
        return values

    def as_text(self):
        """Returns a table for people."""
        lines = {
            "file": f"{self.path} ({self.size_bytes / 1e6:.2f} MB)",
            "preset": f"{self.preset}, the head in float32",
            "head": f"{self.features} features -> {self.classes} classes, {self.batch_size} examples a step",
            "signatures": ", ".join(f"{name} ({count} operators)" for name, count in self.operators.items()),
            "features against Keras": f"cosine {self.cosine:.6f}, SQNR {self.sqnr_db:.1f} dB",
            "sha256": self.sha256,
        }
        width = max(map(len, lines))
        return "\n".join(f"{key:{width}s}  {value}" for key, value in lines.items())

    def __str__(self):
        return self.as_text()
