# Everything runs in an environment of its own, .venv, made on first use from the pinned requirements.
#   make quickstart   fine-tune a real 135M model on the CPU and see it get better
#   make test         the tests             make test-slow   the long ones too
#   make bench        benchmarks            make lint        ruff, mypy, device-leak lint
#   make emulators    fetch and build what emulated devices need, into the user's cache (make test does it too)
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PEERS := .venv-peers/.installed
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint requirements/constraints.txt
BUILT_FROM := pyproject.toml setup.py CMakeLists.txt requirements/constraints.txt $(shell find kernels_cpu -type f)
PYTEST := $(BIN)/python -m pytest

.PHONY: install quickstart emulators test test-slow bench lint format clean
.DEFAULT_GOAL := install

install: $(STAMP)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(STAMP): $(BIN)/python $(BUILT_FROM)
	@echo "Installing into $(VENV) (a few minutes the first time) ..."
	$(PIP) setuptools pybind11 cmake ninja torch==2.13.0
	$(PIP) --no-build-isolation --editable ".[train,quickstart,data,dev]"
	@touch $@

quickstart: $(STAMP)
	$(BIN)/hetero quickstart

# Left to the tests where it cannot be done, so that the others run and these say why.
emulators: $(STAMP)
	-$(BIN)/hetero emulate ascend --build

test: $(STAMP) emulators
	$(PYTEST) tests

test-slow: $(STAMP) emulators $(PEERS)
	$(PYTEST) tests -m "slow or not slow"

# Other projects, for the slow tests that run them beside hetero.
$(PEERS): requirements/peers.txt requirements/constraints.txt
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check --constraint requirements/constraints.txt \
		--requirement requirements/peers.txt
	@touch $@

bench: $(STAMP)
	$(PYTEST) perf_baselines --benchmark-only

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/hetero lint hetero

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .venv-peers build dist *.egg-info .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	find backends -name "_kernels*.so" -delete
