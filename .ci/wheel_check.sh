#!/usr/bin/env bash
# Builds the wheel, installs it alone into a temporary folder and uses it from there.
# Usage: .ci/wheel_check.sh PYTHON   (an interpreter that has vitkeras' dependencies)
set -euo pipefail
python=$1
root=$(cd "$(dirname "$0")/.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/source"  # setuptools leaves build/ behind: not in the checkout
tar --create --directory "$root" --exclude './.*' --exclude ./build --exclude './*.egg-info' . | tar --extract --directory "$folder/source"
"$python" -m pip wheel --quiet --no-deps --wheel-dir "$folder/wheel" "$folder/source"
"$python" -m pip install --quiet --no-deps --target "$folder/site" "$folder"/wheel/*.whl
cd "$folder"
export PYTHONPATH=$folder/site TF_CPP_MIN_LOG_LEVEL=2
"$python" - <<'PY'
import importlib, os, pkgutil
import vitkeras
for name in ("", ".export", ".recipes.configs"):
    module = importlib.import_module("vitkeras" + name)
    assert module.__file__.startswith(os.environ["PYTHONPATH"]), module.__file__
for module in pkgutil.walk_packages(vitkeras.__path__, "vitkeras."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
model = vitkeras.ViTTi16(weights=None, input_shape=(32, 48, 3), classes=7)
print("wheel", vitkeras.__version__, "imports from a folder of its own;", model.count_params(), "parameters built")
PY
for script in vitkeras-export vitkeras-finetune; do
  "$folder/site/bin/$script" --help > /dev/null
  echo "$script --help: ok"
done
