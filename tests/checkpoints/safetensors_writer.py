"""Writing .safetensors files by hand, for tests of the reader."""

import json

import numpy as np


def safetensors_bytes(arrays, kinds=None):
    """The bytes of a .safetensors file; `kinds` names the dtype of arrays that NumPy has no dtype for."""
    header, data = {}, b""
    names = {"float64": "F64", "float32": "F32", "float16": "F16", "int32": "I32"}
    for name, array in arrays.items():
        content = np.ascontiguousarray(array).tobytes()
        kind = (kinds or {}).get(name) or names[array.dtype.name]
        offsets = [len(data), len(data) + len(content)]
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": offsets}
        data += content
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    return len(text).to_bytes(8, "little") + text + data
