# The commands of this repository. Each makes .venv when it is missing or out of date, so each works from a fresh clone
# on a machine that has only Python 3.11 and pip.
#
#   make example [ARGS="--turns 3"]   the support agent, four ways, on the embedded model
#   make test                         everything CI runs
#   make check                        the fast part of it
#   make fuzz [ARGS=tests/core]       property tests with new examples each time, five times as many
#   make model                        fetch, verify and convert the embedded model
#   make fmt                          format and mend what ruff can
#   make clean                        remove .venv and caches (not the model's cache)
#
# PYTHON=python3.12 picks another interpreter, PKV_CACHE=DIR another place for the embedded model.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help venv example test check fuzz model lint fmt clean test-fast test-covered test-slow model-if-possible

# Without bytecode on disk each start of pytest compiles its plugins and our tests again: ten seconds a start.
export PYTHONDONTWRITEBYTECODE :=

PYTHON ?= python3
ARGS ?=
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check --no-input

# The stamp's name is a checksum of what decides the environment's content, so an edited pin brings it up to date and a
# mere touch does not. Another interpreter or a moved clone starts it afresh, and so does an interrupted install.
INPUTS := constraints.txt pyproject.toml integrations/langchain/pyproject.toml integrations/llama_index/pyproject.toml
KEY := $(shell (cat $(INPUTS); echo "$(CURDIR) $(PYTHON)") | cksum | tr ' ' '-')
STAMP := $(VENV)/.installed-$(KEY)

# Paths that hold code. A fresh part of the repository is added here and in pyproject.toml.
CODE := $(wildcard pkv_agents integrations examples benchmarks tests)

help:
	@sed -n 's/^#   make/make/p' Makefile

venv: $(STAMP)

$(STAMP):
	@command -v "$(PYTHON)" >/dev/null || { echo "pkv-agents: no '$(PYTHON)' on this machine; install Python 3.11 or newer, or name one: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "pkv-agents: '$(PYTHON)' is $$("$(PYTHON)" --version 2>&1); Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { echo "pkv-agents: '$(PYTHON)' cannot make environments; on Debian and Ubuntu install the package python3-venv" >&2; exit 1; }
	@place="$(CURDIR) $$("$(PYTHON)" --version)"; \
	if [ "$$(cat $(VENV)/.place 2>/dev/null)" = "$$place" ] && rm $(VENV)/.place $(VENV)/.installed-*; then \
		echo "Bringing $(VENV) up to date ..."; \
	else \
		echo "Installing into $(VENV) (about 2 GB with PyTorch, a few minutes the first time) ..."; \
		"$(PYTHON)" -m venv --clear $(VENV); \
	fi; \
	$(PIP) install -qq -c constraints.txt pip hatchling editables; \
	$(PIP) install -qq -c constraints.txt --no-build-isolation --group dev -e '.[local]' -e integrations/langchain -e integrations/llama_index; \
	echo "$$place" > $(VENV)/.place
	@touch $@

example: $(STAMP)
	@$(PY) -m examples.support_agent $(ARGS)

model: $(STAMP)
	@$(PY) -m examples.support_agent.embedded

# Without a network `make test` still runs; the tests that need the model then say that they were skipped.
model-if-possible: $(STAMP)
	@$(PY) -m examples.support_agent.embedded || echo "No embedded model: the tests that need it will be skipped."

lint: $(STAMP)
	@$(PY) -m ruff check --quiet $(CODE)
	@$(PY) -m ruff format --quiet --check $(CODE) || { echo "pkv-agents: not formatted; run: make fmt" >&2; exit 1; }
	@PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(PY) -m pyright --pythonpath $(PY)

# Two workers: the tests are bound by one core each. Lint runs beside them, for what the imports leave free.
FAST := -q -n 2 --dist worksteal -m "not slow and not embedded"

test-fast: $(STAMP)
	@$(PY) -m pytest $(FAST)

check: $(STAMP)
	@$(MAKE) --no-print-directory -j2 --output-sync=target lint test-fast

test-covered: $(STAMP)
	@HYPOTHESIS_PROFILE=full $(PY) -m pytest $(FAST) --cov --cov-report=term

fuzz: $(STAMP)
	@HYPOTHESIS_PROFILE=fuzz $(PY) -m pytest $(FAST) $(ARGS)

# One process and no tracing: these run the embedded model on all cores.
test-slow: model-if-possible
	@$(PY) -m pytest -q -m "slow or embedded"

test: $(STAMP)
	@$(MAKE) --no-print-directory -j2 --output-sync=target lint test-covered
	@$(MAKE) --no-print-directory test-slow

fmt: $(STAMP)
	@$(PY) -m ruff check --quiet --fix $(CODE) || true
	@$(PY) -m ruff format --quiet $(CODE)

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis .coverage
