# make demo       set up, then estimate five kernels on the karate graph (a table and a picture)
# make test       set up, then run the tests that need nothing from outside this folder: minutes
# make test-all   every test, at length: many seeds, killed clusters, loops that are not compiled, coverage,
#                 and the data sets in the folder that WALKERNEL_DATA names, if any
# make lint       style, types and layers      make bench   the benchmark tables
# make bench-gpu  the tables of a CUDA device, and the tests of one: twenty minutes
# make docs       the site, in docs/_build/html, with all examples of the gallery executed: minutes
# make docs GALLERY=off      the same without running the examples: no pictures in the gallery
# make test-docs  the built site in Chromium: links, search, looks (Debian: chromium, chromium-driver)
# make linkcheck  links of the site that lead elsewhere; needs a network
# make dist       the wheel and the source distribution, built and checked, in dist
# make test-min   tests with the oldest versions of all dependencies (constraints-min.txt)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MIN := .venv-min
# modules are compiled when they are imported, which most of those installed never are
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt

export PYTHONDONTWRITEBYTECODE =
export MPLBACKEND = agg

# one test on each core: neither walks nor linear algebra take more threads than a test asks for
WORKERS ?= auto
PYTEST := -m pytest --numprocesses $(WORKERS) --dist worksteal
test test-all test-min: export WALKERNEL_NUM_THREADS = 1
test test-all test-min: export OMP_NUM_THREADS = 1
test test-min: export WALKERNEL_TEST_DEPTH = short
test-all: export WALKERNEL_TEST_DEPTH = long

# tests of other things than compiled loops, which are slow where loops are not compiled
NOT_LOOPS := tasks plots experiments planning/test_plan.py planning/test_planning.py planning/test_tolerance.py \
	operators/test_explain.py operators/test_stitched.py operators/test_wide_kernels.py operators/test_scale_laws.py \
	kernels/test_near_poles.py torch/test_gpytorch.py torch/test_gpytorch_refusals.py torch/test_held_out.py \
	torch/test_fit_to_kernel.py torch/test_fit_to_task.py torch/test_modulation.py torch/test_expected.py \
	torch/test_graph_networks.py operators/test_sparse_rows.py operators/test_eigenvectors.py

# coverage is that of the tests that are not deep: to measure it takes half as long again, also to compile,
# which the deep tests have done before

.PHONY: demo test test-all test-min test-docs lint docs linkcheck dist bench bench-gpu clean

demo: $(VENV)/.demo
	$(BIN)/walkernel demo

test: $(VENV)/.test
	env -u WALKERNEL_DATA $(BIN)/python $(PYTEST) -q -m "not deep and not gpu"

test-all: $(VENV)/.test
	$(BIN)/coverage erase
	$(BIN)/python $(PYTEST) -q -m "deep and not gpu"
	$(BIN)/coverage run $(PYTEST) -q -m "not deep and not gpu"
	NUMBA_DISABLE_JIT=1 WALKERNEL_TEST_DEPTH=short $(BIN)/coverage run $(PYTEST) -q -m "not deep and not gpu" \
		-W "ignore:overflow encountered in scalar add:RuntimeWarning" tests/unit $(NOT_LOOPS:%=--ignore=tests/unit/%) tests/parity/test_algorithm_one.py
	TRITON_INTERPRET=1 $(BIN)/coverage run $(PYTEST) -q -m "not gpu" tests/device
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --fail-under=95

# the tests that call the dependencies most
test-min: $(MIN)/.test
	env -u WALKERNEL_DATA $(MIN)/bin/python $(PYTEST) -q -m "not deep and not gpu" tests/unit tests/contracts

lint: $(VENV)/.lint $(VENV)/.test
	$(BIN)/ruff check src tests benchmarks examples docs/*.py hatch_build.py
	$(BIN)/ruff format --check src tests benchmarks examples docs/*.py hatch_build.py
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W --keep-going -q -j auto $(if $(filter off,$(GALLERY)),-D plot_gallery=0) -b html docs docs/_build/html

# these tests need neither the library nor what its tests need
test-docs: $(VENV)/.browser
	$(BIN)/python -m pytest -q --confcutdir=tests/site tests/site

linkcheck: $(VENV)/.docs
	$(BIN)/python -m sphinx -q -b linkcheck docs docs/_build/linkcheck

dist: $(VENV)/.dist
	rm -rf dist
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m build
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl

bench: $(VENV)/.test
	$(BIN)/python benchmarks/core.py
	$(BIN)/python benchmarks/tasks.py
	$(BIN)/python benchmarks/error_bars.py
	$(BIN)/python benchmarks/tolerance.py --quick
	$(BIN)/python benchmarks/accuracy.py --quick
	$(BIN)/python benchmarks/pruning.py --quick
	$(BIN)/python benchmarks/regimes.py --quick
	$(BIN)/python benchmarks/local.py --quick
	$(BIN)/python benchmarks/gp.py calibration scale --quick

bench-gpu: $(VENV)/.test
	$(BIN)/python benchmarks/gpu_all.py --out benchmarks/results

clean:
	rm -rf $(VENV) $(MIN) dist .coverage* .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "walkernel needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[plot]'
	@touch $@

$(VENV)/.test: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[test]'
	@touch $@

$(VENV)/.docs: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[docs]'
	@touch $@

$(VENV)/.browser: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[browser]'
	@touch $@

$(VENV)/.lint: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[lint]'
	@touch $@

$(VENV)/.dist: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[dist]'
	@touch $@

$(MIN)/.test: pyproject.toml constraints-min.txt
	$(PYTHON) -m venv --clear $(MIN)
	$(MIN)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-min.txt --editable '.[test]'
	@touch $@
