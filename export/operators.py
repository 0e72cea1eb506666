"""What the products of a float file are for, read off its graph: the roles that quantization presets speak of.

The file of any model is read, not only of this library's: a product whose place isn't recognised is a "dense" or a
"stem", and everything else works as before.
"""

from dataclasses import dataclass

from .file_graph import MOVES, SCALES, Graph

PRODUCTS = ("FULLY_CONNECTED", "CONV_2D", "BATCH_MATMUL")
ROLES = ("patch", "stem", "query", "key", "value", "scores", "mix", "out", "fc1", "fc2", "head", "dense")
_PRODUCT_NAMES = ("MatMul", "convolution")  # last parts of the names that Keras' layers give to their products


@dataclass(frozen=True)
class Operator:
    """A matrix product or convolution of the graph.

    Attributes:
        index: int, its place among the graph's operators.
        kind: str, of `PRODUCTS`.
        role: str, of `ROLES`: patch embedding or another convolution, the attention's projections, its two products of
            activations ("scores" before the softmax, "mix" after it), the MLP's layers, the classifier, others.
        inputs: tuple of str, names of the activations that enter: one, or two for a product of activations.
        output: str, name of the tensor that leaves.
        weight_shape: tuple of int, or () for a product of activations.
        moves: tuple of (str, str), output and kind of each reshape and transposition between the product before and
            this one.
        chains: tuple of tuples of str, for each operand that was moved the tensors that hold its numbers, from the
            operand back to where they were computed.
        before_gelu: bool, whether GELUs and nothing else read the output.
    """

    index: int
    kind: str
    role: str
    inputs: tuple
    output: str
    weight_shape: tuple
    moves: tuple = ()
    chains: tuple = ()
    before_gelu: bool = False

    @property
    def label(self):
        """str, short and readable: the layer's path in the Keras model where the converter kept it."""
        parts = [part.split("/") for part in self.output.split(";") if part]
        path = next((part for part in parts if part[-1] in _PRODUCT_NAMES), parts[0])
        path = [part.removesuffix("_1") for part in path[:-1] if not part.startswith("functional")]
        if not path:
            return self.role
        return "/".join(path) if self.weight_shape else f"{'/'.join(path)}/{self.role}"


def read_operators(path):
    """Reads the products of a float `.tflite` file.

    Args:
        path: str.

    Returns:
        list of `Operator`, in the order of the graph.
    """
    graph = Graph(path)
    roles, chains = _attention(graph)
    found = []
    for i, kind in enumerate(graph.kinds):
        if kind not in PRODUCTS:
            continue
        operator = graph.operators[i]
        weights, output = None if kind == "BATCH_MATMUL" else operator.inputs[1], operator.outputs[0]
        found.append(
            Operator(
                index=i,
                kind=kind,
                role=roles.get(i) or _role(graph, i),
                inputs=tuple(graph.name(t) for t in operator.inputs[: 2 if weights is None else 1]),
                output=graph.name(output),
                weight_shape=() if weights is None else tuple(int(n) for n in graph.tensors[weights].shape),
                moves=tuple(
                    (graph.name(graph.operators[m].outputs[0]), graph.kinds[m])
                    for m in sorted({m for _, passed in chains.get(i, ()) for m in passed})
                ),
                chains=tuple(
                    (graph.name(tensor), *(_moved(graph, m) for m in passed)) for tensor, passed in chains.get(i, ())
                ),
                before_gelu=graph.forward(output, through=()) == {"GELU"},
            )
        )
    return found


def _moved(graph, i):
    """Name of the activation that a move takes."""
    return graph.name(next(t for t in graph.operators[i].inputs if not graph.is_constant(t)))


def _attention(graph):
    """Roles around the products of activations; by operator, its moved operands: (tensor, moves back to its source)."""
    roles, chains = {}, {}
    for i, kind in enumerate(graph.kinds):
        if kind != "BATCH_MATMUL":
            continue
        left, right = graph.operators[i].inputs[:2]
        scores = "SOFTMAX" in graph.forward(graph.operators[i].outputs[0], (*MOVES, "ADD", "MUL"))
        roles[i] = "scores" if scores else "mix"
        sources = ((left, "query"), (right, "key")) if scores else ((right, "value"),)
        for tensor, role in sources:
            source, passed = graph.back(tensor)
            if source is not None and graph.kinds[source] == "FULLY_CONNECTED":
                roles[source] = role
                chains.setdefault(i, []).append((tensor, passed))
    for i, kind in enumerate(graph.kinds):
        if kind == "FULLY_CONNECTED":
            tensor = graph.operators[i].inputs[0]
            source, passed = graph.back(tensor, SCALES)
            if source is not None and roles.get(source) == "mix":
                roles[i] = "out"
                if all(graph.kinds[m] in MOVES for m in passed):
                    chains[i] = [(tensor, passed)]
    return roles, chains


def _role(graph, i):
    """The role of a product outside the attention."""
    operator, kind = graph.operators[i], graph.kinds[i]
    output = operator.outputs[0]
    if kind == "CONV_2D":
        height, width = graph.tensors[operator.inputs[1]].shape[1:3]
        options = operator.builtinOptions
        return "patch" if (options.strideH, options.strideW) == (height, width) and height * width > 1 else "stem"
    if "GELU" in graph.forward(output):
        return "fc1"
    source, _ = graph.back(operator.inputs[0])
    if source is not None and graph.kinds[source] == "GELU":
        return "fc2"
    ends = graph.forward(output, (*MOVES, "SOFTMAX", "LOGISTIC"))
    return "head" if ends and ends <= {"", "TOPK_V2"} else "dense"
