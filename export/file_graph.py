"""The one graph of a `.tflite` file: who makes and who reads a tensor, its weights, and small changes to it."""

import numpy as np

from vitkeras._optional import require

from .checks import read_graph
from .flatbuffer import write_model

MOVES = ("RESHAPE", "TRANSPOSE")  # they move numbers and change none
SCALES = (*MOVES, "MUL")  # the same channels in the same order: the factors of `even_rows` come second
_PURPOSE = "changing a .tflite file"


class Graph:
    """Operators and tensors of a file's one graph.

    Args:
        path: str, a `.tflite` file.

    Attributes:
        operators, tensors: lists of LiteRT's objects.
        kinds: list of str, each operator's name, such as "ADD".
        inputs, outputs: lists of int, the graph's tensors.
        producer: dict of tensor -> operator, as indices; without an entry for the graph's inputs and stored tensors.
        consumers: dict of tensor -> list of operators.
    """

    def __init__(self, path):
        tools = require("ai_edge_litert.tools.flatbuffer_utils", "ai-edge-litert", _PURPOSE, extra="export")
        self.model = read_graph(path)
        graph = self.model.subgraphs[0]
        self.tensors, self.operators = graph.tensors, graph.operators
        self.inputs, self.outputs = list(graph.inputs), list(graph.outputs)
        self.kinds = [tools.opcode_to_name(self.model, operator.opcodeIndex) for operator in self.operators]
        self._inserted = []
        self.producer = {t: i for i, operator in enumerate(self.operators) for t in operator.outputs}
        self.consumers = {}
        for i, operator in enumerate(self.operators):
            for t in operator.inputs:
                self.consumers.setdefault(t, []).append(i)

    def name(self, tensor):
        """str, a tensor's name."""
        return self.tensors[tensor].name.decode()

    def is_constant(self, tensor):
        """Whether a tensor is stored in the file."""
        data = self.model.buffers[self.tensors[tensor].buffer].data
        return data is not None and len(data) > 0

    def is_float(self, tensor):
        """Whether a tensor holds float32."""
        return self.tensors[tensor].type == 0

    def back(self, tensor, through=MOVES):
        """Walks from a tensor to where its numbers come from.

        Returns:
            (index of the operator or None for the graph's input, list of the operators passed).
        """
        passed = []
        while (i := self.producer.get(tensor)) is not None and self.kinds[i] in through:
            passed.append(i)
            tensor = next(t for t in self.operators[i].inputs if not self.is_constant(t))
        return i, passed

    def forward(self, tensor, through=MOVES):
        """Kinds of the operators that a tensor reaches, a set; "" for the graph's output."""
        kinds = {""} if tensor in self.outputs else set()
        for i in self.consumers.get(tensor, ()):
            kind = self.kinds[i]
            kinds |= self.forward(self.operators[i].outputs[0], through) if kind in through else {kind}
        return kinds

    def weights(self, i):
        """float32 array, the matrix or kernel of operator `i`."""
        return self._constant(self.operators[i].inputs[1])

    def set_weights(self, i, values):
        """Replaces them by others of the same shape."""
        self._store(self.operators[i].inputs[1], values)

    def bias(self, i):
        """float32 array, the bias of operator `i`, or None."""
        inputs = self.operators[i].inputs
        return self._constant(inputs[2]) if len(inputs) > 2 and inputs[2] >= 0 else None

    def set_bias(self, i, values):
        """Gives operator `i` a bias of its own: the converter stores equal ones once, and leaves zeros out."""
        name = f"{self.name(self.operators[i].outputs[0])}/bias_{len(self.tensors)}"
        self.operators[i].inputs = [*self.operators[i].inputs[:2], self._add_constant(name, values)]

    def insert_multiplication(self, tensor, factors):
        """Lets all that read a tensor read its product with constants along the last axis.

        Args:
            tensor: int, an activation that an operator makes.
            factors: array (D,).
        """
        schema = require("ai_edge_litert.schema_py_generated", "ai-edge-litert", _PURPOSE, extra="export")
        old, name = self.tensors[tensor], self.name(tensor)
        constant, product = self._add_constant(f"{name}/factors", factors), schema.TensorT()
        product.name, product.shape, product.type = f"{name}/equalized".encode(), list(old.shape), old.type
        product.buffer = 0
        self.tensors.append(product)
        for i in self.consumers[tensor]:
            inputs = list(self.operators[i].inputs)
            self.operators[i].inputs = [len(self.tensors) - 1 if t == tensor else t for t in inputs]
        operator = schema.OperatorT()
        operator.opcodeIndex = self._code(schema.BuiltinOperator.MUL)
        operator.inputs, operator.outputs = [tensor, constant], [len(self.tensors) - 1]
        operator.builtinOptionsType, operator.builtinOptions = schema.BuiltinOptions.MulOptions, schema.MulOptionsT()
        self._inserted.append((self.producer[tensor], operator))

    def write(self, path):
        """Writes the changed graph to a file."""
        operators = self.model.subgraphs[0].operators
        for after, operator in sorted(self._inserted, key=lambda entry: -entry[0]):
            operators.insert(after + 1, operator)
        write_model(self.model, path)

    def _add_constant(self, name, values):
        """Index of a new stored tensor of floats."""
        schema = require("ai_edge_litert.schema_py_generated", "ai-edge-litert", _PURPOSE, extra="export")
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.type = name.encode(), list(np.shape(values)), 0
        tensor.buffer = len(self.model.buffers)
        self.model.buffers.append(schema.BufferT())
        self.tensors.append(tensor)
        self._store(len(self.tensors) - 1, values)
        return len(self.tensors) - 1

    def _constant(self, tensor):
        shape = [int(n) for n in self.tensors[tensor].shape]
        data = np.asarray(self.model.buffers[self.tensors[tensor].buffer].data, "uint8")
        return np.frombuffer(data.tobytes(), "float32").reshape(shape)

    def _store(self, tensor, values):
        data = np.frombuffer(np.ascontiguousarray(values, "float32").tobytes(), "uint8")
        self.model.buffers[self.tensors[tensor].buffer].data = data

    def _code(self, builtin):
        """Index of a builtin operator among those that the file names; it is added if it is new."""
        codes = self.model.operatorCodes
        for i, code in enumerate(codes):
            if max(code.builtinCode, code.deprecatedBuiltinCode) == builtin:
                return i
        new = type(codes[0])()
        new.builtinCode, new.deprecatedBuiltinCode, new.version = builtin, builtin, 1
        codes.append(new)
        return len(codes) - 1
