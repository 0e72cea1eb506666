"""The description inside a file, read slot by slot as the public schema numbers them, and the card."""

import json
import zipfile

import flatbuffers
import numpy as np
import pytest
from flatbuffers.table import Table

from vitkeras.export import ExportError, card, metadata, read_card, read_labels, run_tflite, tflite, to_tflite
from vitkeras.export.checks import read_graph
from vitkeras.export.runtime import TFLiteRunner

NUMBERS = flatbuffers.number_types
LABELS = [f"flower {i}" for i in range(6)] + ["Gänseblümchen"]
ABOUT = {
    "description": "Seven flowers.",
    "version": "2.1",
    "author": "the garden",
    "license": "CC0",
    "training_data": "photos of one summer",
}


class Node:
    """A table of a flatbuffer."""

    def __init__(self, data, position=None):
        position = flatbuffers.encode.Get(flatbuffers.packer.uoffset, data, 0) if position is None else position
        self.table = Table(bytearray(data), position)

    def _at(self, slot):
        offset = self.table.Offset(4 + 2 * slot)
        return offset and offset + self.table.Pos

    def text(self, slot):
        return self._at(slot) and self.table.String(self._at(slot)).decode()

    def byte(self, slot):
        return self._at(slot) and self.table.Get(NUMBERS.Int8Flags, self._at(slot))

    def uint(self, slot):
        return self.table.Get(NUMBERS.Uint32Flags, self._at(slot))

    def node(self, slot):
        return Node(self.table.Bytes, self.table.Indirect(self._at(slot)))

    def nodes(self, slot):
        if not self._at(slot):
            return []
        offset = self._at(slot) - self.table.Pos
        start = self.table.Vector(offset)
        return [Node(self.table.Bytes, self.table.Indirect(start + 4 * i)) for i in range(self.table.VectorLen(offset))]

    def floats(self, slot):
        return self.table.GetVectorAsNumpy(NUMBERS.Float32Flags, self._at(slot) - self.table.Pos).tolist()


def read_metadata(path):
    model = read_graph(path)
    (entry,) = [entry for entry in model.metadata if entry.name in (b"TFLITE_METADATA", "TFLITE_METADATA")]
    data = bytes(model.buffers[entry.buffer].data)
    assert flatbuffers.util.BufferHasIdentifier(data, 0, b"M001")
    return Node(data)


def test_every_field_can_be_read(make, pixels, tmp_path, monkeypatch):
    path = str(tmp_path / "net.tflite")
    report = to_tflite(make(classifier_activation="softmax"), path, labels=LABELS, about=ABOUT)
    root = read_metadata(path)
    assert [root.text(slot) for slot in (0, 1, 2, 4, 5, 7)] == [
        "vision_transformer",
        "Seven flowers.",
        "2.1",
        "the garden",
        "CC0",
        "1.0.0",
    ]
    (graph,) = root.nodes(3)
    (image,), (output,) = graph.nodes(2), graph.nodes(3)
    assert image.text(0) == "image" and "33 x 55 pixels, 0...255" in image.text(1)
    content = image.node(3)
    assert content.byte(0) == 2 and content.node(1).byte(0) == 1  # an image, RGB
    assert (content.node(1).node(1).uint(0), content.node(1).node(1).uint(1)) == (55, 33)  # width, height
    (unit,) = image.nodes(4)
    assert unit.byte(0) == 1 and (unit.node(1).floats(0), unit.node(1).floats(1)) == ([0.0], [1.0])
    assert (image.node(5).floats(0), image.node(5).floats(1)) == ([255.0], [0.0])
    assert output.text(0) == "probabilities" and output.node(3).byte(0) == 1  # a feature
    (file,) = output.nodes(6)
    assert (file.text(0), file.byte(2)) == ("labels.txt", 2)  # labels of an axis
    assert image.nodes(6) == []

    assert read_labels(path) == LABELS
    assert zipfile.ZipFile(path).namelist() == ["labels.txt", "model_card.json"]
    found = read_card(path)
    assert {key: found[key] for key in ABOUT} == ABOUT
    assert (found["preset"], found["partitions"], found["input_values"]) == ("int8_dynamic", 1, "0...255")
    assert found["cosine"] == report.cosine and found["versions"] == report.versions
    assert report.size_bytes == (tmp_path / "net.tflite").stat().st_size and report.partitions == 1

    monkeypatch.setattr(tflite, "add_metadata", lambda *arguments: None)
    plain = str(tmp_path / "plain.tflite")
    to_tflite(make(classifier_activation="softmax"), plain)
    np.testing.assert_array_equal(run_tflite(path, pixels), run_tflite(plain, pixels))
    assert TFLiteRunner(path).partitions() == TFLiteRunner(plain).partitions() == 1
    assert read_labels(plain) is None and read_card(plain)["version"] == "1"


def buffer(**changes):
    arguments = {
        "about": {"name": "a", "version": "1"},
        "shape": (11, 22, 1),
        "pixel_input": False,
        "image_note": metadata.TensorNote("image", "An image."),
        "output_notes": [
            metadata.TensorNote("scores", "s"),
            metadata.TensorNote("indices", "i", metadata.VALUE_LABELS),
        ],
        **changes,
    }
    return Node(metadata.metadata_buffer(**arguments))


def test_other_inputs_and_several_outputs():
    root = buffer()
    assert [root.text(slot) for slot in (1, 4, 5)] == [0, 0, 0]  # not said, so not there
    (graph,) = root.nodes(3)
    (image,) = graph.nodes(2)
    assert image.node(3).node(1).byte(0) == 2  # greyscale
    (unit,) = image.nodes(4)
    assert (unit.node(1).floats(0), unit.node(1).floats(1)) == ([127.5], [127.5])
    assert (image.node(5).floats(0), image.node(5).floats(1)) == ([1.0], [-1.0])
    scores, indices = graph.nodes(3)
    assert (scores.text(0), scores.nodes(6)) == ("scores", [])
    assert indices.nodes(6)[0].byte(2) == 3  # labels of a value


@pytest.mark.slow
def test_top_k_outputs_are_described_in_their_order(make, tmp_path):
    path = str(tmp_path / "top.tflite")
    to_tflite(make(), path, preset="fp32", output="top_k", labels=LABELS, input_dtype="uint8")
    (graph,) = read_metadata(path).nodes(3)
    details = TFLiteRunner(path).interpreter.get_output_details()
    kinds = {"scores": np.float32, "indices": np.int32}
    assert [kinds[node.text(0)] for node in graph.nodes(3)] == [detail["dtype"] for detail in details]
    assert read_card(path)["input_dtype"] == "uint8"


@pytest.mark.slow
def test_a_card_that_changes_the_answer_is_refused(make, tmp_path, monkeypatch):
    def break_it(path, name, text):
        to_tflite_again(make(seed=4), path)

    def to_tflite_again(model, path):
        tflite.convert(tflite.export_model(model, True), path)

    monkeypatch.setattr(card.archive, "append", break_it)
    with pytest.raises(ExportError, match="'card' failed: expected the same answer with the card as without"):
        to_tflite(make(), str(tmp_path / "net.tflite"), preset="fp32")
    assert not list(tmp_path.iterdir())


def test_files_without(tmp_path):
    path = tmp_path / "text"
    path.write_text("hello")
    assert read_labels(path) is None and read_card(path) is None
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("other.txt", "x")
    assert read_labels(path) is None and read_card(path) is None
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("model_card.json", json.dumps({"preset": "fp32"}))
    assert read_card(path) == {"preset": "fp32"}
    with pytest.raises(FileNotFoundError):
        read_labels(tmp_path / "nothing")


@pytest.mark.parametrize(
    "about, message",
    [
        ({"owner": "me"}, "about takes the fields name, description, version, .*received 'owner'"),
        ({"license": " "}, "about must hold text for 'license', received ' '"),
        ({"version": 2}, "about must hold text for 'version', received 2"),
    ],
)
def test_bad_about(make, tmp_path, about, message):
    with pytest.raises(ValueError, match=message):
        to_tflite(make(), str(tmp_path / "net.tflite"), about=about)
    assert not list(tmp_path.iterdir())
