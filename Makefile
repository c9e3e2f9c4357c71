# Everything a developer does, from nothing but Python 3.11+, make and a package index.
PYTHON  ?= python3
VENV    ?= .venv
WORKERS ?= 6
EXTRAS  ?= dev
CONSTRAINTS ?= constraints.txt
ARGS    ?=

BIN   := $(VENV)/bin
READY := $(VENV)/.ready
PYTEST := $(BIN)/python -m pytest -q -p tests.support.spreading
UV    := $(shell command -v uv 2>/dev/null)

# Where this is set, every process that a test starts would compile the whole package again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help venv demo test long check format cluster matrix oldest chaos bench bench-check bench-count bench-peers soak clean

help: ## Show this list
	@echo "make TARGET [ARGS='...']"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(READY) ## Create .venv with everything below (quick when nothing changed)
	@:

# The stamp is older than either file only when what should be installed has changed.
$(READY): pyproject.toml $(CONSTRAINTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Holdfast needs Python 3.11 or later: make PYTHON=python3.12 ...")'
	@echo "installing into $(VENV)"
ifdef UV
	@test -x $(BIN)/python || uv venv --quiet --python "$$(command -v $(PYTHON))" $(VENV)
	@uv pip install --quiet --python $(BIN)/python --constraints $(CONSTRAINTS) --editable '.[$(EXTRAS)]'
else
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --constraint $(CONSTRAINTS) --editable '.[$(EXTRAS)]'
endif
	@touch $@

demo: $(READY) ## Watch jobs of every kind run on an embedded SQLite file
	@$(BIN)/holdfast demo $(ARGS)

test: $(READY) ## Run the check and every test but long, cluster, chaos, soak and bench
	@$(PYTEST) --processes $(WORKERS) --beside '$(MAKE_COMMAND) --no-print-directory check' --durations=10 --durations-min=0.5 $(ARGS)

long: $(READY) ## Tests of whole workers on the stores that make test left out
	@$(PYTEST) --processes $(WORKERS) -m 'long and not chaos and not cluster' --durations=10 --durations-min=0.5 $(ARGS)

check: $(READY) ## Lint, formatting, strict types, import layers
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check . || { echo "run 'make format'"; $(BIN)/ruff format --check .; exit 1; }
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo > $(VENV)/.imports 2>&1 || { cat $(VENV)/.imports; exit 1; }
	@echo "check: lint, formatting, types and import layers hold"

format: $(READY) ## Format and mend what can be mended
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format --quiet .

cluster: $(READY) ## The contract of stores on a real cluster of three Valkey nodes
	@$(PYTEST) --processes 2 -m cluster $(ARGS)

matrix: $(READY) ## The contract of stores on every Postgres, Valkey and pooler that can be had
	@$(BIN)/python -m tests.matrix $(ARGS)

oldest: ## Stores, codec and command line with the oldest packages that a user may have
	@mkdir -p build && $(PYTHON) -m tests.oldest > build/oldest.new
	@cmp -s build/oldest.new build/oldest.txt || cp build/oldest.new build/oldest.txt
	@$(MAKE) --no-print-directory venv VENV=.venv-oldest CONSTRAINTS=build/oldest.txt EXTRAS=tests,servers
	@.venv-oldest/bin/python -m pytest -q -p tests.support.spreading --processes 2 -m 'not cluster' tests/conformance tests/fundamentals tests/unit/test_c[lo]*.py tests/unit/test_watch.py tests/system/test_otel.py $(ARGS)

chaos: $(READY) ## Real processes killed, stopped and cut off under load
	@$(BIN)/pytest -m chaos --timeout 900 $(ARGS)

bench: $(READY) ## Measure every workload on every store beside its raw floor
	@$(BIN)/python -m bench $(ARGS)

bench-check: $(READY) ## Fail when a job takes 15% more processor time than recorded, or waits longer
	@$(BIN)/python -m bench.guard $(ARGS)

bench-count: $(READY) ## Count the instructions that a plain job costs its worker (needs valgrind)
	@$(BIN)/python -m bench.instructions $(ARGS)

bench-peers: $(READY) ## Measure beside other queues, each in a virtual environment of its own
	@$(BIN)/python -m bench --peers $(ARGS)

soak: $(READY) ## Run for long and watch for leaks
	@$(BIN)/pytest -m soak --timeout 0 $(ARGS)

clean: ## Remove what make made
	@rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache bench/peers/.venvs
	@find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
