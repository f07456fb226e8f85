# From a fresh clone with Python 3.11 or newer and make: `make demo` and `make test` each build
# what they need (.venv, exact versions with hashes) and then do what they say.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PACKAGES := instances hindsight online
SOURCES := $(PACKAGES) llm_hindsight.py scripts tests docs/site
PYTEST_WORKERS ?= 2
PYTEST_ARGS ?=

# Set by some images: every process would then compile SciPy and Pyomo anew, ten seconds each.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help env demo test test-all test-lowest docs docs-test test-browser mutants golden lint format lock build release-check clean

help:  ## show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /\1\t/' | expand -t 12

env: $(STAMP)  ## build the environment in .venv, compiled loops included
	$(BIN)/python -m hindsight.compile_kernels

# The lock decides what is installed; a new lock starts from an empty environment. Most of it is
# never imported, so nothing is compiled ahead: half the time.
$(VENV)/.locked: requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed; %s is %s. Use: make PYTHON=/path/to/python3.11 ..." % (sys.executable, sys.version.split()[0]))'
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-compile --require-hashes -r requirements.lock
	@touch $@

# hatchling and editables come from the lock too, so nothing unpinned is fetched to build.
$(STAMP): pyproject.toml $(VENV)/.locked
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps --no-build-isolation -e .
	@touch $@

demo: $(STAMP)  ## competitive ratios on built-in instances, in under two minutes
	$(BIN)/llm-hindsight ratios --demo

test: $(STAMP)  ## the tests, without those marked slow and with a quarter of the random ones
	$(BIN)/python -m pytest -n $(PYTEST_WORKERS) --dist worksteal -m "not slow" $(PYTEST_ARGS)

test-all: $(STAMP)  ## every test
	$(BIN)/python -m pytest -n $(PYTEST_WORKERS) --dist worksteal $(PYTEST_ARGS)

LOWEST := .venv-lowest
LOWEST_TESTS := tests/test_optima.py $(addprefix tests/hindsight/,exact test_solver.py test_paper_values.py)

# The lowest versions may lack wheels for the newest Python; PYTHON=python3.11 has them all.
test-lowest: $(STAMP)  ## the fast tests of optima with the lowest versions that pyproject.toml allows
	$(PYTHON) -m venv --clear $(LOWEST)
	$(BIN)/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct -e '.[test]'
	$(LOWEST)/bin/python -m pytest -m "not slow" $(LOWEST_TESTS) $(PYTEST_ARGS)

# Not --quiet: then no warning counts, and --strict refuses nothing.
docs: $(STAMP)  ## the site, in build/site; nothing is fetched, and the pages open from the disk
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs-test: $(STAMP)  ## run what README, CONTRIBUTING, docs/ and the docstrings show
	$(BIN)/python -m pytest tests/test_documentation.py tests/scripts/test_first_picture.py tests/scripts/studies $(PYTEST_ARGS)

test-browser: docs  ## open every page of the site in the system's Chromium, if it is installed
	$(BIN)/python -m pytest tests/test_browser.py $(PYTEST_ARGS)

WHAT ?= policies or golden
GOLDEN_TESTS := $(addprefix tests/,test_policies.py scripts/test_golden.py online/headroom/test_answer.py)
golden: $(STAMP)  ## write the stored results of tests/golden again (WHAT=headroom: only these)
	GOLDEN=write $(BIN)/python -m pytest $(GOLDEN_TESTS) -k "$(WHAT)" -n 0

# Each word of SUITES is one suite; '+' joins the files of one suite.
N ?= 60
SEED ?= 1
SUITES ?= tests/$(ROOM)
mutants: $(STAMP)  ## which tests notice one changed token of ROOM=hindsight/prices (N=60 SEED=1 SUITES="...")
	$(BIN)/python scripts/mutants.py $(ROOM) --count $(N) --seed $(SEED) $(SUITES:%=--suite %) --out build/mutants.jsonl

lint: $(STAMP)  ## ruff's rules and format, mypy, and the budget of code lines
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy $(PACKAGES) llm_hindsight.py scripts docs/site/hooks.py
	$(BIN)/python scripts/code_lines.py

format: $(STAMP)  ## rewrite the sources as ruff wants them
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

# --no-header and --no-annotate keep the command line and the paths of this machine out of the file.
lock: $(STAMP)  ## resolve pyproject.toml anew into requirements.lock (UPGRADE=--upgrade: newest versions)
	$(BIN)/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 \
		--generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links \
		$(UPGRADE) --quiet --output-file requirements.lock

build: $(STAMP)  ## sdist and wheel in dist/
	rm -rf dist
	$(BIN)/hatchling build

# twine is fetched for this alone. The environment is empty and its own; these pages run there.
release-check: build  ## the sdist and the wheel as others get them; tutorial and stories run from the wheel
	$(BIN)/uv tool run twine check --strict dist/*
	$(PYTHON) -m venv --clear build/release
	build/release/bin/python -m pip install --disable-pip-version-check --quiet "$$(ls dist/*.whl)"
	INSTALLED_PYTHON=$(CURDIR)/build/release/bin/python \
		$(BIN)/python -m pytest tests/test_documentation.py -k "tutorial or researcher or engineer or optimiser"

clean:  ## remove the environment and everything generated
	rm -rf $(VENV) $(LOWEST) .venv-vllm build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -path ./.git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
