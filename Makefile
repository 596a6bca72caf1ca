# Two commands for a newcomer: `make demo` and `make test`. Each needs Python 3.11 or later, and Java 17 or
# later for Spark, which they install where they may.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-long test-all test-attack test-nojit lint bench bench-jvm docs-pictures docs-reference clean java

demo: java $(VENV)/.installed
	$(BIN)/everquery demo

# Loops are compiled first, so that the processes do not compile the same ones.
PYTEST := EVERQUERY_ATTACK_WORKERS=1 $(BIN)/pytest --numprocesses

# Three processes, one of which has Spark: it waits half of the time, so that both cores are busy.
test: java $(VENV)/.installed-dev
	$(BIN)/everquery warm-up
	HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-quick} $(PYTEST) 3 --dist loadgroup -m "not slow and not long"

# What CI runs besides: the tests that take longer, and more examples of what is random.
test-long: java $(VENV)/.installed-dev
	$(PYTEST) 2 -m "long and not slow" tests
	$(PYTEST) 2 -m "not slow and not long and not spark" tests/conformance

# Every test, also those that take minutes each.
test-all: java $(VENV)/.installed-dev
	$(BIN)/pytest

# Mutated registries, snapshots, files and texts; EVERQUERY_ATTACK says how many of each.
test-attack: $(VENV)/.installed-dev
	$(BIN)/pytest tests/attack

# The kernels interpreted by Python: slow, but a debugger and coverage see every line.
test-nojit: $(VENV)/.installed-dev
	NUMBA_DISABLE_JIT=1 $(BIN)/pytest tests/unit tests/conformance -m "not slow and not million and not spark"

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.installed-dev
	$(BIN)/python -m benchmarks

# Esper and Flink beside us; Maven builds them (JDK 17 or newer).
bench-jvm: $(VENV)/.installed-dev
	$(BIN)/python -m benchmarks.rivals.jvm

# The terminal pictures of the docs, from what the commands really print, the Q-Q plot, and utility under overload.
docs-pictures: $(VENV)/.installed-dev
	$(BIN)/python tools/pictures.py
	$(BIN)/python tools/qq_plot.py
	$(BIN)/python -m benchmarks.overload_page

# The pages that are written from declarations and docstrings.
docs-reference: $(VENV)/.installed-dev
	$(BIN)/python -m tools.query_reference
	$(BIN)/python -m tools.notice_reference
	$(BIN)/python -m tools.api_reference

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

java:
	@scripts/java

$(VENV)/bin/pip:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/pip
	$(BIN)/pip install --quiet --disable-pip-version-check --editable ".[spark]"
	touch $@

$(VENV)/.installed-dev: pyproject.toml | $(VENV)/bin/pip
	$(BIN)/pip install --quiet --disable-pip-version-check --editable ".[bench,dev,spark]"
	touch $@ $(VENV)/.installed
