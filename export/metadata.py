"""TFLite Metadata: the description inside a file that MediaPipe and the Android task library read.

A flatbuffer of the public schema (metadata_schema.fbs of tensorflow/tflite-support, parser version 1.0.0), written slot
by slot: a slot is a field's place in its table. The files that it names lie in the zip archive behind the model.
"""

from dataclasses import dataclass

import numpy as np

from vitkeras._optional import require

from .checks import read_graph
from .flatbuffer import write_model

BUFFER_NAME = "TFLITE_METADATA"
PARSER_VERSION = "1.0.0"
LABELS_FILE = "labels.txt"

# Values of the schema's enumerations and unions.
FEATURE, IMAGE = 1, 2  # ContentProperties
NORMALIZATION = 1  # ProcessUnitOptions
RGB, GRAYSCALE = 1, 2  # ColorSpaceType
AXIS_LABELS, VALUE_LABELS = 2, 3  # AssociatedFileType


@dataclass(frozen=True)
class TensorNote:
    """One input or output: its name and a sentence; `labels` is None, `AXIS_LABELS` or `VALUE_LABELS`."""

    name: str
    description: str
    labels: int | None = None


class _Tables:
    """A flatbuffer under construction; children are made before their parents."""

    def __init__(self):
        self.builder = require("flatbuffers", "flatbuffers", "writing metadata", extra="export").Builder(1024)

    def table(self, size, **slots):
        """Makes a table of `size` slots from `slot_N=(kind, value)`; kinds are those of the schema."""
        self.builder.StartObject(size)
        for name, (kind, value) in slots.items():
            if value is None:
                continue
            slot = int(name.removeprefix("slot_"))
            if kind == "offset":
                self.builder.PrependUOffsetTRelativeSlot(slot, value, 0)
            elif kind == "byte":
                self.builder.PrependInt8Slot(slot, value, 0)
            else:
                self.builder.PrependUint32Slot(slot, value, 0)
        return self.builder.EndObject()

    def text(self, value):
        return "offset", None if value is None else self.builder.CreateString(value)

    def tables(self, offsets):
        if not offsets:
            return "offset", None
        self.builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            self.builder.PrependUOffsetTRelative(offset)
        return "offset", self.builder.EndVector()

    def floats(self, values):
        return "offset", self.builder.CreateNumpyVector(np.array(values, "float32"))


def metadata_buffer(about, shape, pixel_input, image_note, output_notes):
    """Returns the metadata of an image model as bytes.

    Args:
        about: dict with "name" and "version", and maybe "description", "author" and "license".
        shape: (H, W, C) of the image.
        pixel_input: bool; the values that the input takes are 0...255, or -1...1 made by mean and std 127.5.
        image_note: `TensorNote` of the input.
        output_notes: list of `TensorNote`, in the order of the graph's outputs.
    """
    make = _Tables()
    height, width, channels = shape
    size = make.table(2, slot_0=("uint", width), slot_1=("uint", height))
    colours = {1: GRAYSCALE, 3: RGB}.get(channels, 0)
    image = make.table(2, slot_0=("byte", colours), slot_1=("offset", size))
    content = make.table(3, slot_0=("byte", IMAGE), slot_1=("offset", image))
    mean, deviation = (0.0, 1.0) if pixel_input else (127.5, 127.5)
    normalise = make.table(2, slot_0=make.floats([mean]), slot_1=make.floats([deviation]))
    unit = make.table(2, slot_0=("byte", NORMALIZATION), slot_1=("offset", normalise))
    stats = make.table(
        2, slot_0=make.floats([255.0 if pixel_input else 1.0]), slot_1=make.floats([0.0 if pixel_input else -1.0])
    )
    slots = {"slot_4": make.tables([unit]), "slot_5": ("offset", stats)}
    inputs = make.tables([_tensor(make, image_note, content, **slots)])
    outputs = make.tables([_tensor(make, note, _feature(make)) for note in output_notes])
    graph = make.table(7, slot_2=inputs, slot_3=outputs)
    strings = {key: make.text(about.get(key)) for key in ("name", "description", "version", "author", "license")}
    root = make.table(
        8,
        slot_0=strings["name"],
        slot_1=strings["description"],
        slot_2=strings["version"],
        slot_3=make.tables([graph]),
        slot_4=strings["author"],
        slot_5=strings["license"],
        slot_7=make.text(PARSER_VERSION),
    )
    make.builder.Finish(root, file_identifier=b"M001")
    return bytes(make.builder.Output())


def _feature(make):
    return make.table(3, slot_0=("byte", FEATURE), slot_1=("offset", make.table(0)))


def _tensor(make, note, content, **slots):
    if note.labels is not None:
        file = make.table(
            4,
            slot_0=make.text(LABELS_FILE),
            slot_1=make.text("The classes' names, one a line."),
            slot_2=("byte", note.labels),
        )
        slots["slot_6"] = make.tables([file])
    name, description = make.text(note.name), make.text(note.description)
    return make.table(7, slot_0=name, slot_1=description, slot_3=("offset", content), **slots)


def add_metadata(path, about, pixel_input, has_labels):
    """Writes the metadata of a checked file into it.

    Args:
        path: str, a file with at most one signature, without a zip archive yet.
        about: from `check_about`.
        pixel_input: bool.
        has_labels: bool, whether `labels.txt` is appended afterwards.
    """
    schema = require("ai_edge_litert.schema_py_generated", "ai-edge-litert", "writing metadata", extra="export")
    model = read_graph(path)
    graph = model.subgraphs[0]
    signature = model.signatureDefs[0].outputs if model.signatureDefs else []
    names = {entry.tensorIndex: _text(entry.name) for entry in signature}
    outputs = [names.get(index) or _text(graph.tensors[index].name) for index in graph.outputs]
    shape = tuple(int(n) for n in graph.tensors[graph.inputs[0]].shape[1:])
    pixels = "pixels, 0...255" if pixel_input else "pixels / 127.5 - 1"
    image_note = TensorNote("image", f"An image of {shape[0]} x {shape[1]} {pixels}; the channels' order is RGB.")
    about = {"description": f"Image of {shape[0]} x {shape[1]} to {', '.join(outputs)}.", **about}
    notes = [TensorNote(name, *_output_note(name, has_labels)) for name in outputs]
    data = metadata_buffer(about, shape, pixel_input, image_note, notes)
    buffer = schema.BufferT()
    buffer.data = np.frombuffer(data, "uint8")
    entry = schema.MetadataT()
    entry.name, entry.buffer = BUFFER_NAME, len(model.buffers)
    model.buffers.append(buffer)
    model.metadata = [*(model.metadata or []), entry]
    write_model(model, path)


def _output_note(name, has_labels):
    """(description, kind of labels) of an output of that name."""
    if name == "indices":
        return "The best classes, the first is the best.", VALUE_LABELS if has_labels else None
    if name == "scores":
        return "The probabilities of the best classes.", None
    if name in ("logits", "probabilities"):
        return f"One of the {name} for each class.", AXIS_LABELS if has_labels else None
    return "Numbers that describe the image.", AXIS_LABELS if has_labels else None


def _text(name):
    return name.decode() if isinstance(name, bytes) else name
