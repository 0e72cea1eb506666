"""The notebooks in examples/: valid files, code that compiles, command lines that the recipes' parsers know.

The notebook format is checked by hand, as far as these files use it, rather than with a package for it.
"""

import ast
import importlib
import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
DEVICES = {"colab_tpu": "tpu", "colab_gpu": "gpu"}


def cells(notebook, kind):
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == kind]


def python_of(source):
    """A cell without the lines that go to the shell or to IPython, with those that continue them."""
    kept, continues = [], False
    for line in source.splitlines():
        shell = continues or line.startswith(("!", "%"))
        continues = shell and line.endswith("\\")
        if not shell:
            kept.append(line)
    return "\n".join(kept)


def shell_lines(source):
    """The shell commands of a cell, joined where they are continued."""
    joined = source.replace("\\\n", " ")
    return [line[1:].strip() for line in joined.splitlines() if line.startswith("!")]


def faults_of_command(line):
    """What is wrong with a shell line that is `python -m`, or any: list of str."""
    syntax = subprocess.run(["bash", "-n", "-c", line], capture_output=True, text=True)
    if syntax.returncode:
        return [f"is no shell line: {syntax.stderr}"]
    words = shlex.split(line)
    if words[:2] != ["python", "-m"]:
        return []
    module, arguments = words[2], [word.replace("{RUNS}", "/runs") for word in words[3:]]
    if module == "export":
        parse = importlib.import_module("export.cli")._parser()
        return faults_of_parsing(lambda: parse.parse_args(arguments))
    found = importlib.import_module(module)
    if "--dump-config" in arguments:
        return ["prints its configuration only"]
    codes = []
    faults = faults_of_parsing(lambda: codes.append(found.main([*arguments, "--dump-config"])))
    return faults or ([] if codes == [0] else [f"ends with {codes}"])


def faults_of_parsing(parse):
    try:
        parse()
    except SystemExit as done:
        return [f"is refused by the parser, code {done.code}"]
    return []


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def path(request):
    return request.param


@pytest.fixture
def notebook(path):
    return json.loads(path.read_text(encoding="utf-8"))


def test_both_are_there():
    assert {path.stem for path in NOTEBOOKS} == set(DEVICES)


def test_is_format_4_without_outputs(notebook):
    assert set(notebook) == {"cells", "metadata", "nbformat", "nbformat_minor"}
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert notebook["metadata"]["kernelspec"].keys() >= {"name", "display_name"}
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids) < 25 and all(re.fullmatch("[A-Za-z0-9_-]{1,64}", name) for name in ids)
    for cell in notebook["cells"]:
        own = {"outputs", "execution_count"} if cell["cell_type"] == "code" else set()
        assert cell["cell_type"] in ("code", "markdown") and isinstance(cell["metadata"], dict)
        assert set(cell) == {"cell_type", "id", "metadata", "source"} | own
        assert all(isinstance(line, str) for line in cell["source"])
        assert all(line.endswith("\n") for line in cell["source"][:-1]) and not cell["source"][-1].endswith("\n")
        assert cell.get("outputs", []) == [] and cell.get("execution_count") is None


def test_every_code_cell_compiles(notebook, path):
    for number, source in enumerate(cells(notebook, "code")):
        ast.parse(python_of(source), f"{path.name} cell {number}")


def test_every_command_is_one_that_its_recipe_takes(notebook, capsys):
    lines = [line for source in cells(notebook, "code") for line in shell_lines(source)]
    recipes = [line for line in lines if "-m recipes." in line]
    assert {faults for line in lines for faults in faults_of_command(line)} == set()
    used = {re.search(r"-m recipes\.(\w+)", line).group(1) for line in recipes}
    assert used == {"pretrain", "masked_patch", "finetune", "evaluate", "fewshot"}
    assert any(line.startswith("python -m export") for line in lines)


def test_every_recipe_names_the_device(notebook, path):
    for source in cells(notebook, "code"):
        for line in shell_lines(source):
            if "-m recipes." in line:
                assert f"--device {DEVICES[path.stem]}" in line


def test_the_resumed_command_is_the_first_one(notebook):
    lines = [line for source in cells(notebook, "code") for line in shell_lines(source) if "--config flowers" in line]
    assert len(lines) == 2 and lines[0] == lines[1]


def test_no_cpu_wheel_goes_over_the_tpu_wheel():
    notebook = json.loads((EXAMPLES / "colab_tpu.ipynb").read_text(encoding="utf-8"))
    lines = [line for source in cells(notebook, "code") for line in shell_lines(source)]
    installs = [line for line in lines if line.startswith("pip install")]
    assert '"vitkeras[tpu,recipes] @ file://{CHECKOUT}"' in installs[0]
    for line in installs:
        assert not re.search(r"tf-cpu|\btf\b|tensorflow", line)
    assert lines.index(installs[0]) > next(i for i, line in enumerate(lines) if line.startswith("pip uninstall"))


def test_the_environment_is_what_the_check_wants():
    from vitkeras.training.tpu_environment import tpu_faults

    notebook = json.loads((EXAMPLES / "colab_tpu.ipynb").read_text(encoding="utf-8"))
    (source,) = [source for source in cells(notebook, "code") if "check_tpu_environment" in source]
    (call,) = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "os.environ.update"
    ]
    environment = {word.arg: getattr(word.value, "value", "/somewhere/libtpu.so") for word in call.keywords}
    assert tpu_faults(environment, {"tensorflow-tpu": "2.20.0", "libtpu": "0.0.31"}) == []


def test_what_was_not_run_is_said(notebook, path):
    first = cells(notebook, "markdown")[0]
    assert f"No cell of this notebook was run on a {DEVICES[path.stem].upper()}" in first
    for name in re.findall(r"`(tests/[\w/.]+)`", first):
        assert (EXAMPLES.parent / name).exists(), name


@pytest.mark.parametrize(
    "line",
    [
        "python -m recipes.finetune --config flowers --sets a.b=1",
        "python -m recipes.finetune --config flower --device gpu",
        "python -m recipes.finetune --config flowers --set train.batch=5",
        "python -m recipes.finetune --config flowers --device npu",
        "python -m export --model m.keras --labelling x",
        "python -m recipes.fewshot --config trained --set shots=(1,5)",
    ],
)
def test_the_checker_sees_wrong_lines(line, capsys):
    assert faults_of_command(line)


def test_the_checker_leaves_shell_lines_out():
    source = "%cd x\n!python -m y \\\n    --z\na = 1\n"
    assert python_of(source) == "a = 1" and shell_lines(source) == ["python -m y      --z"]
