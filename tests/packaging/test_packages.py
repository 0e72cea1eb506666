import configparser
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import vitkeras

REPOSITORY = Path(__file__).resolve().parents[2]
RENAMED = {"export": "vitkeras.export", "recipes": "vitkeras.recipes"}


@pytest.fixture
def setup_cfg():
    parser = configparser.ConfigParser()
    parser.read(REPOSITORY / "setup.cfg")
    return parser


def folders_on_disk():
    """Package names of all folders with an `__init__.py`, as installed."""
    for top in ("vitkeras", "export", "recipes"):
        for path in sorted((REPOSITORY / top).rglob("__init__.py")):
            parts = path.parent.relative_to(REPOSITORY).parts
            yield ".".join((RENAMED.get(parts[0], parts[0]), *parts[1:]))


def test_packages_are_the_folders_on_disk(setup_cfg):
    listed = setup_cfg["options"]["packages"].split()
    assert listed == sorted(listed)
    assert listed == sorted(folders_on_disk())


def test_every_folder_with_code_is_a_package():
    for top in ("vitkeras", "export", "recipes"):
        for path in (REPOSITORY / top).rglob("*.py"):
            assert (path.parent / "__init__.py").exists(), path


def test_console_scripts_exist(setup_cfg):
    scripts = setup_cfg["options.entry_points"]["console_scripts"].split("\n")
    targets = [line.partition("=")[2].strip() for line in scripts if line]
    assert len(targets) == 11
    for target in targets:
        module, _, function = target.partition(":")
        assert callable(getattr(importlib.import_module(module), function))


def test_each_recipe_has_a_script(setup_cfg):
    scripts = setup_cfg["options.entry_points"]["console_scripts"]
    recipes = [p.stem for p in (REPOSITORY / "recipes").glob("*.py") if "def main(" in p.read_text()]
    names = "cost evaluate fewshot finetune inspect masked_patch near_duplicates pretrain qat vtab"
    expected = names.split()
    assert sorted(recipes) == expected
    for recipe in recipes:
        assert f"vitkeras-{recipe.replace('_', '-')} = vitkeras.recipes.{recipe}:main" in scripts


def test_dependencies_are_documented(setup_cfg):
    text = (REPOSITORY / "docs" / "dependencies.md").read_text()
    lines = setup_cfg["options"]["install_requires"].split("\n")
    for extra in setup_cfg["options.extras_require"].values():
        lines += extra.split("\n")
    names = {re.match(r"[A-Za-z0-9-]+", line).group() for line in lines if line.strip() and not line.startswith("#")}
    assert len(names) > 12
    for name in names:
        assert name in text, f"docs/dependencies.md does not mention {name}"
    for line in filter(str.strip, lines):
        assert re.search("[<>]=?", line), f"{line!r} has no bound"
    assert not any("tensorflow" in line for line in setup_cfg["options"]["install_requires"].split("\n"))


def test_the_version_is_said_once(setup_cfg):
    assert setup_cfg["metadata"]["version"] == "attr: vitkeras._version.__version__"
    assert vitkeras.__version__ in (REPOSITORY / "CHANGELOG.md").read_text()


def python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_import_is_light():
    heavy = ["tensorflow_datasets", "matplotlib", "PIL", "sklearn", "ai_edge_litert", "ai_edge_quantizer", "tqdm"]
    look = f"print(json.dumps([m for m in {heavy} if m in sys.modules]))"
    lines = python(f"import sys, json, keras; {look}; import vitkeras; {look}").stdout.splitlines()
    assert json.loads(lines[-2]) == json.loads(lines[-1])


def test_lazy_rooms_come_when_asked_for():
    code = "import vitkeras as v; print(v.export.to_tflite.__name__, v.data.open_dataset.__name__); v.nothing"
    done = python(code)
    assert done.stdout.split() == ["to_tflite", "open_dataset"]
    assert "module 'vitkeras' has no attribute 'nothing'" in done.stderr


def test_without_a_backend_the_extras_are_named():
    done = python("import sys; sys.modules['tensorflow'] = None; import vitkeras")
    assert done.returncode != 0
    assert "vitkeras needs Keras with a backend, and 'tensorflow' could not be imported" in done.stderr
    for extra in ("tf-cpu", "tf", "tpu", "jax"):
        assert f'"vitkeras[{extra}]"' in done.stderr
