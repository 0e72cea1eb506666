"""Running `.tflite` files in LiteRT, as an app would."""

import time

import numpy as np

from vitkeras._optional import require

from .quiet import quiet

MOST_THREADS = 256


def check_threads(num_threads):
    """Raises ValueError unless `num_threads` is an int in 1...256."""
    is_int = isinstance(num_threads, int | np.integer) and not isinstance(num_threads, bool)
    if not is_int or not 1 <= num_threads <= MOST_THREADS:
        raise ValueError(f"num_threads must be an int in 1...{MOST_THREADS}, received {num_threads!r}.")


class TFLiteRunner:
    """A file in LiteRT's interpreter, on the CPU with XNNPACK.

    Args:
        path: str, the `.tflite` file; one input of batch 1.
        num_threads: int in 1...256. Default 2.
        kernels: "xnnpack" (default); "builtin", TFLite's own fast kernels; or "reference", its plain and slow ones.

    Raises:
        ImportError: if LiteRT is missing.
        ValueError: if the file is none, or needs operators that LiteRT's builtins lack.
    """

    def __init__(self, path, num_threads=2, kernels="xnnpack"):
        litert = require("ai_edge_litert.interpreter", "ai-edge-litert", "running a .tflite file", extra="export")
        check_threads(num_threads)
        types = litert.OpResolverType
        kind = {
            "xnnpack": types.AUTO,
            "builtin": types.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
            "reference": types.BUILTIN_REF,
        }[kernels]
        with quiet():
            try:
                self.interpreter = litert.Interpreter(
                    str(path), num_threads=num_threads, experimental_op_resolver_type=kind
                )
                self.interpreter.allocate_tensors()
            except (RuntimeError, ValueError) as error:
                raise ValueError(f"{path!r} does not run in LiteRT: {error}") from error
        self.input = self.interpreter.get_input_details()[0]
        signatures = list(self.interpreter.get_signature_list())
        named = self.interpreter.get_signature_runner(signatures[0]).get_output_details() if signatures else {}
        self.details = named or {detail["name"]: detail for detail in self.interpreter.get_output_details()}
        self.outputs = {name: detail["index"] for name, detail in self.details.items()}

    def __call__(self, images):
        """Runs images (N, H, W, C) one by one; returns an array with N rows, or a dict of them for several outputs."""
        rows = [self.one(image) for image in images]
        if len(self.outputs) == 1:
            return np.stack(rows)
        return {name: np.stack([row[name] for row in rows]) for name in self.outputs}

    def one(self, image):
        """Runs one image (H, W, C); whole-number inputs get theirs rounded, whole-number outputs become floats."""
        self.interpreter.set_tensor(self.input["index"], quantized(image, self.input)[None])
        self.interpreter.invoke()
        details = self.details.items()
        outputs = {name: dequantized(self.interpreter.get_tensor(d["index"]), d)[0].copy() for name, d in details}
        return outputs if len(outputs) > 1 else next(iter(outputs.values()))

    def partitions(self):
        """int, the number of parts that the XNNPACK delegate took over; 1 is the whole graph in one."""
        return sum(details["op_name"] == "DELEGATE" for details in self.interpreter._get_ops_details())

    def outside(self):
        """Names of the operators that the only XNNPACK partition leaves out, in order; needs `partitions() == 1`."""
        *nodes, part = self.interpreter._get_ops_details()
        if part["op_name"] != "DELEGATE" or self.partitions() != 1:
            raise ValueError(f"the file must run in one XNNPACK partition, it has {self.partitions()}.")
        known, wanted, inside = set(part["inputs"]), set(part["outputs"]), set()
        for node in reversed(nodes):  # from the partition's outputs back to its inputs
            if wanted & set(node["outputs"]):
                inside.add(node["index"])
                wanted |= set(node["inputs"]) - known
        return [node["op_name"] for node in nodes if node["index"] not in inside]

    def latency(self, image, seconds=2.0, most=50):
        """Median milliseconds of one image, over up to `most` runs or `seconds`."""
        runs, end = [], time.perf_counter() + seconds
        self.one(image)
        while len(runs) < most and (not runs or time.perf_counter() < end):
            start = time.perf_counter()
            self.one(image)
            runs.append(1e3 * (time.perf_counter() - start))
        return float(np.median(runs))


def quantized(values, detail):
    """Values as a tensor takes them: cast, or on the grid of its scale and zero-point."""
    values, dtype = np.asarray(values), np.dtype(detail["dtype"])
    scale, zero = detail["quantization"]
    if dtype.kind not in "iu" or values.dtype == dtype:
        return values.astype(dtype)
    ends = np.iinfo(dtype)
    return np.clip(np.rint(values / (scale or 1)) + zero, ends.min, ends.max).astype(dtype)


def dequantized(values, detail):
    """A tensor's values as float32; indices, which have no scale, stay whole."""
    scale, zero = detail["quantization"]
    if values.dtype.kind not in "iu" or not scale:
        return values
    return ((values.astype("float32") - zero) * scale).astype("float32")


def is_fully_accelerated(path):
    """Whether LiteRT's CompiledModel hands every operator of the file to the CPU's accelerator."""
    compiled = require("ai_edge_litert.compiled_model", "ai-edge-litert", "checking a .tflite file", extra="export")
    with quiet():
        return bool(compiled.CompiledModel.from_file(str(path)).is_fully_accelerated())


def run_tflite(path, images, num_threads=2):
    """Runs a `.tflite` file on images.

    Args:
        path: str, from `to_tflite`.
        images: array (N, H, W, C) of pixels 0...255, any real dtype.
        num_threads: int >= 1. Default 2.

    Returns:
        float32 array with N rows: logits, probabilities or features; for a file with several outputs a dict of name ->
        array, such as `scores` and `indices`.

    Raises:
        ValueError: if the images have another shape than the file's input, if a uint8 file gets values outside
            0...255, or if the file does not run.

    Example:
        >>> run_tflite("photos.tflite", images).argmax(axis=1)              # doctest: +SKIP
    """
    runner = TFLiteRunner(path, num_threads)
    images = np.asarray(images)
    shape = tuple(runner.input["shape"][1:])
    if images.ndim != 4 or images.shape[1:] != shape or not len(images):
        raise ValueError(f"images must have shape (N, {', '.join(map(str, shape))}), received {images.shape}.")
    if runner.input["dtype"] == np.uint8 and not (images.min() >= 0 and images.max() <= 255):
        raise ValueError(f"images must be pixels in 0...255, received {images.min()}...{images.max()}.")
    return runner(images)
