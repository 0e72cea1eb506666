"""Which operation of a model scales its input: found, so that nobody scales pixels twice."""

import keras
import numpy as np

LARGE = 10  # a divisor or an offset of the input: images in -1...1 need none as large
OPERATIONS = ("Add", "Divide", "Multiply", "Subtract", "TrueDivide")  # of keras.ops and of Python's operators


def scaling_operation(model):
    """The name of the first operation that scales the model's input as if it were 0...255; None if there is none.

    These are `Rescaling` and `Normalization` layers, also within other models, and sums and products of an input and
    a number.
    """
    for operation in _operations(model):
        if isinstance(operation, keras.layers.Rescaling):
            found = _most(operation.scale) < 1 / LARGE or _most(operation.offset) > LARGE
        elif isinstance(operation, keras.layers.Normalization):
            mean, variance = (getattr(operation, name, None) for name in ("mean", "variance"))  # none before `adapt`
            found = variance is not None and not operation.invert and max(_most(mean), _most(variance) ** 0.5) > LARGE
        else:
            found = type(operation).__name__ in OPERATIONS and _scales_an_input(operation)
        if found:
            return operation.name
    return None


def _operations(model):
    for operation in getattr(model, "operations", model.layers):
        yield operation
        if isinstance(operation, keras.Model):
            yield from _operations(operation)


def _scales_an_input(operation):
    for node in operation._inbound_nodes:
        numbers = [x for x in keras.tree.flatten(node.arguments.args) if not isinstance(x, keras.KerasTensor)]
        inputs = [x for x in node.input_tensors if isinstance(x._keras_history.operation, keras.layers.InputLayer)]
        if not inputs or len(numbers) != 1:
            continue
        size = _most(numbers[0])
        if size > LARGE or type(operation).__name__ == "Multiply" and size < 1 / LARGE:
            return True
    return False


def _most(numbers):
    return float(np.max(np.abs(np.asarray(numbers, "float64"))))
