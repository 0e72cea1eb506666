# Two commands for a new machine: `make demo` and `make test`. Everything is installed into .venv.
PYTHON ?= python3
BIN := .venv/bin
# A CPU TensorFlow where there is no NVIDIA driver; `make TF=tf` or `TF=tpu` chooses by hand.
TF ?= $(if $(shell command -v nvidia-smi 2>/dev/null),tf,tf-cpu)
EXTRAS_demo := $(TF),recipes,export
EXTRAS_results := $(TF),recipes
comma := ,
# The extra qat brings the wheel `tensorflow`: instead of tensorflow-cpu, and never over a TPU wheel, whose kernels it removes.
TEST_TF := $(if $(filter tpu,$(TF)),tpu,tf$(comma)qat)
EXTRAS_test := $(TEST_TF),recipes,export,test

# Processes that share the tests, in the order and groups of tests/conftest.py. Three on two cores: now and then one
# waits for a program it started.
WORKERS ?= 3
# One thread each: nets this small gain nothing by more, and processes of two threads wait for one another (a fifth of
# the time).
THREADS := TF_NUM_INTRAOP_THREADS=1 TF_NUM_INTEROP_THREADS=1 OMP_NUM_THREADS=1
PYTEST := -m pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder

# Other backends run the layers and models, in environments of their own without TensorFlow. Pillow is what a bicubic
# resize is compared with.
BACKEND_jax := ".[jax,test]" pillow
BACKEND_torch := ".[test]" torch pillow

.PHONY: demo explorer results test test-slow test-web test-jax test-torch lint wheel-check clean

demo: .venv/installed-demo
	TF_CPP_MIN_LOG_LEVEL=2 TF_ENABLE_ONEDNN_OPTS=1 $(BIN)/python examples/demo.py --out demo

# A page with sliders for what a model costs, explorer.html.
explorer: .venv/installed-demo
	TF_CPP_MIN_LOG_LEVEL=2 $(BIN)/python examples/explorer/build.py

# The runs of docs/results.md, two hours and more on two cores; the same command goes on where it was stopped.
results: .venv/installed-results
	$(BIN)/python -m benchmarks.results

test: .venv/installed-test
	$(THREADS) $(BIN)/python $(PYTEST) -m "not slow"

# XLA compiles without optimising: the code runs a few times only.
NOT_OPTIMISED := XLA_FLAGS="$(XLA_FLAGS) --xla_backend_optimization_level=0"

test-slow: .venv/installed-test
	$(NOT_OPTIMISED) $(THREADS) $(BIN)/python $(PYTEST) -m "slow and not web"

# The pages of examples/web, examples/explorer and recipes.inspect in Chromium; installs that and Node.js where it may.
test-web: .venv/installed-test
	.ci/web_tools.sh
	$(BIN)/python $(PYTEST) -m web tests/examples

# JAX keeps what it compiled: all processes need much of it, and so does the next run. One thread each (NPROC is JAX's).
JAX_CACHE := JAX_COMPILATION_CACHE_DIR=.venv-jax/compiled JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0
ONE_THREAD := NPROC=1 OMP_NUM_THREADS=1

test-jax test-torch: test-%: .venv-%/installed
	KERAS_BACKEND=$* $(NOT_OPTIMISED) $(JAX_CACHE) $(ONE_THREAD) .venv-$*/bin/python $(PYTEST) tests/layers tests/models

lint: .venv/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# Builds the wheel and imports it from a folder of its own, outside the checkout.
wheel-check: .venv/installed-test
	.ci/wheel_check.sh $(abspath $(BIN)/python)

CHECK_PYTHON = $(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "vitkeras needs Python 3.11 or newer, $(PYTHON) is " + sys.version.split()[0])'

# One stamp a set of extras; a second run installs nothing, a changed setup.cfg does.
.venv/installed-%: setup.cfg pyproject.toml
	@$(CHECK_PYTHON)
	@echo "Installing vitkeras[$(EXTRAS_$*)] into .venv; TensorFlow makes this a download of several hundred MB."
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[$(EXTRAS_$*)]"
	@touch $@

.venv-%/installed: setup.cfg pyproject.toml
	@$(CHECK_PYTHON)
	@echo "Installing vitkeras with Keras' $* backend into .venv-$*."
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python -m pip install --quiet --upgrade pip
	.venv-$*/bin/python -m pip install --quiet --editable $(BACKEND_$*)
	@touch $@

clean:
	rm -rf .venv .venv-jax .venv-torch demo examples/web/node_modules build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
