"""Imports run one way (docs/decisions/0001). Every import is read, late ones inside functions included."""

import ast
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]

# room -> rooms of this library that it may import besides itself
ARROWS = {
    "layers": set(),
    "checkpoints": {"layers"},
    "models": {"checkpoints", "layers"},
    "preprocessing": {"checkpoints"},
    "analysis": {"models", "layers", "preprocessing"},
    "data": {"models", "checkpoints", "layers", "preprocessing"},
    "training": {"models", "checkpoints", "layers", "preprocessing"},
    "evaluation": {"models", "layers"},
    "export": {"models", "checkpoints", "layers", "preprocessing", "data"},
    "recipes": {
        "models",
        "checkpoints",
        "layers",
        "preprocessing",
        "data",
        "training",
        "evaluation",
        "export",
        "analysis",
    },
}
SHARED = {
    "_backend",
    "_data_sources",
    "_optional",
    "_tensorflow",
    "_tfmot",
    "_version",
}  # private helpers, for every room
BACKEND_FREE = (
    "layers",
    "checkpoints",
    "models",
    "preprocessing",
    "analysis",
    "evaluation",
)  # no TensorFlow, no other backend
FORBIDDEN = {"tensorflow", "jax", "torch", "tf_keras"}


def library_files():
    """(room, path) of every Python file of the library."""
    for folder, prefix in (("vitkeras", None), ("export", "export"), ("recipes", "recipes")):
        for path in sorted((REPOSITORY / folder).rglob("*.py")):
            parts = path.relative_to(REPOSITORY / folder).with_suffix("").parts
            yield prefix or parts[0], path


def imported_modules(source, room):
    """Absolute names of all modules that the source imports; relative imports name the own room."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level:
            yield f"vitkeras.{room}"
        elif isinstance(node, ast.ImportFrom) and node.module == "vitkeras":
            yield from (f"vitkeras.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


def faults(source, room):
    """What the imports of a file in `room` break."""
    if room in SHARED or room == "__init__":
        return
    for module in imported_modules(source, room):
        first, *rest = module.split(".")
        if first in ("export", "recipes", "tests", "benchmarks", "examples"):
            yield f"imports {module} by its checkout name"
        if first == "vitkeras" and rest:
            target = rest[0]
            public = not target.islower() or target in ("load_checkpoint", "preprocess_input", "decode_predictions")
            if not (target == room or target in ARROWS[room] | SHARED or public or target == "__version__"):
                yield f"imports {module} against the arrows"
        if first in FORBIDDEN and (room in BACKEND_FREE or first != "tensorflow"):
            yield f"imports {module}"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr == "keras" and getattr(node.value, "id", "") == "tf":
            yield f"line {node.lineno} uses tf.keras"
        if isinstance(node, ast.Attribute) and node.attr == "Lambda":
            yield f"line {node.lineno} uses a Lambda layer, which no .keras file loads safely"


@pytest.mark.parametrize(
    "room, path", [pytest.param(*pair, id=str(pair[1].relative_to(REPOSITORY))) for pair in library_files()]
)
def test_arrows(room, path):
    assert list(faults(path.read_text(), room)) == []


def test_every_room_is_in_the_table():
    assert {room for room, _ in library_files()} - SHARED - {"__init__"} == set(ARROWS)


def test_the_table_has_no_circle():
    seen = []

    def visit(room):
        assert room not in seen, f"circle: {seen}"
        seen.append(room)
        for target in ARROWS[room]:
            visit(target)
        seen.pop()

    for room in ARROWS:
        visit(room)


@pytest.mark.parametrize(
    "room, source, message",
    [
        ("layers", "from vitkeras.models import vit", "imports vitkeras.models against the arrows"),
        ("layers", "def f():\n    import tensorflow as tf", "imports tensorflow"),
        ("models", "from vitkeras import training", "imports vitkeras.training against the arrows"),
        ("data", "import vitkeras.export.tflite", "imports vitkeras.export.tflite against the arrows"),
        ("training", "from recipes import finetune", "imports recipes by its checkout name"),
        ("export", "from vitkeras.recipes import cli", "imports vitkeras.recipes against the arrows"),
        ("training", "import tensorflow as tf\ntf.keras.layers.Dense(1)", "line 2 uses tf.keras"),
        ("models", "import keras\nkeras.layers.Lambda(abs)", "line 2 uses a Lambda layer"),
        ("models", "import torch.nn", "imports torch.nn"),
    ],
)
def test_the_reader_sees_wrong_arrows(room, source, message):
    assert any(fault.startswith(message) for fault in faults(source, room))


def test_the_reader_lets_right_ones_pass():
    source = (
        "import keras, numpy\nfrom vitkeras import layers\nfrom vitkeras._optional import require\nfrom . import vit"
    )
    assert list(faults(source, "models")) == []


@pytest.mark.parametrize("path", sorted((REPOSITORY / "benchmarks").glob("*.py")), ids=lambda path: path.name)
def test_a_benchmark_runs_as_a_file(path):
    """`python benchmarks/NAME.py` finds its neighbours by their own names only."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert not [name for name in names if name and name.split(".")[0] == "benchmarks"]
