"""A model's products and convolutions, read off its TensorFlow graph: what `flops` must give."""

import math

CALLS = ("PartitionedCall", "StatefulPartitionedCall", "If", "StatelessIf", "While", "StatelessWhile")


def multiply_adds(model):
    """Counts the multiply-adds of the dense layers, convolutions and attention products for one image.

    `written` counts the numbers that they write, under the same rules.

    Args:
        model: a `keras.Model` for images of one size, TensorFlow backend.

    Returns:
        int, of one forward pass. Additions, normalisations and activations are not counted.

    Raises:
        ValueError: if a shape isn't static, or the graph has parts that run an unknown number of times.

    Example:
        >>> import vitkeras
        >>> multiply_adds(vitkeras.VisionTransformer((21, 25, 3), (7, 5), 1, 24, 3, 48, classes=7))
        123984
    """
    return sum(COUNTS[operation.type](operation) for operation in _products(model))


def written(model):
    """Counts the numbers that the dense layers, convolutions and attention products write for one image."""
    return sum(operation.outputs[0].shape.num_elements() for operation in _products(model))


def _products(model):
    import tensorflow as tf

    call = tf.function(lambda image: model(image, training=False), autograph=False)
    graph = call.get_concrete_function(tf.TensorSpec((1, *model.input_shape[1:]), tf.float32)).graph
    for operation in graph.get_operations():
        if operation.type in CALLS:
            raise ValueError(f"the model's graph must be flat to be counted, received the call {operation.name!r}.")
        if operation.type in COUNTS:
            if not all(tensor.shape.is_fully_defined() for tensor in (*operation.inputs, *operation.outputs)):
                raise ValueError(f"shapes must be static to be counted, received others in {operation.name!r}.")
            if operation.type != "Einsum" or len(operation.inputs) == 2:
                yield operation


def _product(operation):
    """(..., m, k) x (..., k, n): each element of the result is a sum of k products."""
    transposed = operation.type == "MatMul" and operation.get_attr("transpose_a")
    transposed = transposed or operation.type != "MatMul" and operation.get_attr("adj_x")
    return operation.outputs[0].shape.num_elements() * operation.inputs[0].shape[-2 if transposed else -1]


def _convolution(operation):
    """(B, h, w, n) by a kernel (p, q, c, n)."""
    height, width, channels, _ = operation.inputs[1].shape
    return operation.outputs[0].shape.num_elements() * height * width * channels


def _einsum(operation):
    """Every combination of the letters of two tensors is one multiply-add."""
    letters = operation.get_attr("equation").decode().partition("->")[0].split(",")
    sizes = {}
    for own, tensor in zip(letters, operation.inputs):
        sizes |= dict(zip(own, tensor.shape))
    return math.prod(sizes.values())


COUNTS = {
    "MatMul": _product,
    "BatchMatMulV2": _product,
    "BatchMatMulV3": _product,
    "Conv2D": _convolution,
    "Einsum": _einsum,
}
