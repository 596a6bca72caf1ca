# Two commands for a newcomer: `make demo` and `make test`. Each needs Python 3.11 or later and nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-all test-nojit lint bench clean

demo: $(VENV)/.installed
	$(BIN)/everquery demo

test: $(VENV)/.installed-dev
	$(BIN)/pytest -m "not slow"

test-all: $(VENV)/.installed-dev
	$(BIN)/pytest

# The kernels interpreted by Python: slow, but a debugger and coverage see every line.
test-nojit: $(VENV)/.installed-dev
	NUMBA_DISABLE_JIT=1 $(BIN)/pytest tests/unit tests/conformance -m "not slow and not million"

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.installed-dev
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/pip:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/pip
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/.installed-dev: pyproject.toml | $(VENV)/bin/pip
	$(BIN)/pip install --quiet --disable-pip-version-check --editable ".[bench,dev]"
	touch $@ $(VENV)/.installed
