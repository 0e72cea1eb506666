"""Writing a `.tflite` file from LiteRT's object tree, fast and with weights where devices want them."""

import numpy as np

from vitkeras._optional import require

ALIGNMENT = 16  # bytes, where the schema has each buffer's data begin
IDENTIFIER = b"TFL3"
PURPOSE = "writing a .tflite file"


def write_model(model, path):
    """Writes a model of `checks.read_graph` to a file.

    The schema's own writer takes data that are no array one byte at a time, minutes for a ViT-B, and aligns nothing.

    Args:
        model: `ModelT`; it is left as it is.
        path: str.
    """
    flatbuffers = require("flatbuffers", "flatbuffers", PURPOSE, extra="export")
    buffers = model.buffers
    model.buffers = [_Aligned(buffer) for buffer in buffers]
    try:
        # With room for the data from the start: it grows by doubling, which copies what there is.
        builder = flatbuffers.Builder(2**20 + sum(len(buffer.data) + 64 for buffer in model.buffers))
        builder.Finish(model.Pack(builder), file_identifier=IDENTIFIER)
    finally:
        model.buffers = buffers
    with open(path, "wb") as file:
        file.write(memoryview(builder.Bytes)[builder.Head() :])


class _Aligned:
    """A buffer that packs itself as a block."""

    def __init__(self, buffer):
        data = buffer.data
        if data is None:
            data = b""
        self.data = data if isinstance(data, np.ndarray) else np.frombuffer(bytes(data), "uint8")

    def Pack(self, builder):
        schema = require(
            "ai_edge_litert.schema_py_generated", "ai-edge-litert", "writing a .tflite file", extra="export"
        )
        data = None
        if len(self.data):
            builder.Prep(ALIGNMENT, self.data.nbytes)
            data = builder.CreateNumpyVector(self.data)
        schema.BufferStart(builder)
        if data is not None:
            schema.BufferAddData(builder, data)
        return schema.BufferEnd(builder)
