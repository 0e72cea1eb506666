"""int8 from the one float file, through ai-edge-quantizer."""

from vitkeras._optional import require

from .quiet import quiet


def quantize_dynamic(float_path, path):
    """Quantizes weights of dense and convolution layers to int8 per channel; activations on the fly.

    Args:
        float_path: str, a float32 `.tflite` file.
        path: str, the file to write; its weights lie inside the flatbuffer.

    Raises:
        ImportError: if ai-edge-quantizer is missing; the extra is named.
    """
    purpose = "int8 export"
    quantizer = require("ai_edge_quantizer.quantizer", "ai-edge-quantizer", purpose, extra="export")
    recipe = require("ai_edge_quantizer.recipe", "ai-edge-quantizer", purpose, extra="export")
    with quiet():
        engine = quantizer.Quantizer(float_path)
        engine.load_quantization_recipe(recipe.dynamic_wi8_afp32())
        quantized = engine.quantize(None, enable_progress_report=False).quantized_model
    with open(path, "wb") as file:
        file.write(bytes(quantized))
    pull_weights_in(path)


def pull_weights_in(path):
    """Rewrites a file whose weights lie behind the flatbuffer: some runtimes find no data there."""
    tools = require("ai_edge_litert.tools.flatbuffer_utils", "ai-edge-litert", "int8 export", extra="export")
    tools.write_model(tools.read_model(path), path)
