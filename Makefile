# make demo   set up, then estimate five kernels on the karate graph (a table and a picture)
# make test   set up, then run every test
# make lint   style, types and layers      make bench   the benchmark tables

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

export PYTHONDONTWRITEBYTECODE =
export MPLBACKEND = agg

ifndef WALKERNEL_DATA
ifneq ($(wildcard ../shared/data),)
test test-core: export WALKERNEL_DATA := $(abspath ../shared/data)
endif
endif

# one test on each core: neither walks nor linear algebra take more threads than a test asks for
WORKERS ?= auto
PYTEST := -m pytest --numprocesses $(WORKERS) --dist worksteal
test test-core: export WALKERNEL_NUM_THREADS = 1
test test-core: export OMP_NUM_THREADS = 1

# tests of other things than compiled loops, which are slow where loops are not compiled
NOT_LOOPS := tasks torch/test_gpytorch.py torch/test_gpytorch_refusals.py torch/test_held_out.py \
	torch/test_fit_to_kernel.py torch/test_fit_to_task.py torch/test_modulation.py torch/test_expected.py experiments \
	test_plan.py test_planning.py test_explain.py test_stitched.py test_tolerance.py

.PHONY: demo test test-core lint bench clean

demo: $(VENV)/.demo
	$(BIN)/walkernel demo

test: $(VENV)/.test
	$(BIN)/coverage erase
	$(BIN)/coverage run $(PYTEST)
	NUMBA_DISABLE_JIT=1 $(BIN)/coverage run $(PYTEST) -q tests/unit $(NOT_LOOPS:%=--ignore=tests/unit/%) tests/parity/test_algorithm_one.py
	TRITON_INTERPRET=1 $(BIN)/coverage run $(PYTEST) -q tests/device -m "not gpu"
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --fail-under=95

test-core: $(VENV)/.test
	$(BIN)/python $(PYTEST) tests/unit tests/contracts tests/property tests/parity tests/statistical

lint: $(VENV)/.lint $(VENV)/.test
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.test
	$(BIN)/python benchmarks/core.py
	$(BIN)/python benchmarks/tasks.py
	$(BIN)/python benchmarks/error_bars.py
	$(BIN)/python benchmarks/tolerance.py --quick
	$(BIN)/python benchmarks/accuracy.py --quick
	$(BIN)/python benchmarks/regimes.py --quick
	$(BIN)/python benchmarks/gp.py calibration scale --quick

clean:
	rm -rf $(VENV) .coverage* .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "walkernel needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[plot]'
	@touch $@

$(VENV)/.test: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[test]'
	@touch $@

$(VENV)/.lint: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[lint]'
	@touch $@
