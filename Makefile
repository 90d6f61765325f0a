# Everything is done by these targets; `make` alone lists them.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
BENCHMARKS := registrations protected lateness memory hss pcrf esp xfrm calls nullcalls guest
APT    := git make python3 python3-venv iproute2

.PHONY: help demo test test-kernel lint format bench clean requirements

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.installed ## embedded core, HSS and PCRF, 200 phones, calls, the tables: about a minute
	$(BIN)/imsbench demo

test: $(VENV)/.developer ## linters, types, layer contracts, tests
	$(MAKE) --no-print-directory lint
	$(BIN)/python -m tests.everything

test-kernel: $(VENV)/.developer ## only what needs ESP in the kernel, inside user-mode Linux
	$(BIN)/python -m tests.lab.uml -- python -m pytest -p no:cacheprovider -m kernel_esp tests/lab

lint: $(VENV)/.developer ## ruff, mypy, the layer contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(VENV)/.developer ## let ruff format and fix what it can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.developer ## the speed ratios (tests/bench), a few minutes
	@set -e; for name in $(BENCHMARKS); do echo "== $$name"; $(BIN)/python -m tests.bench.$$name; done

clean: ## remove the virtual environment and what the tools left
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# What a fresh machine may lack is named together with the line that brings it.
requirements:
	@missing=; \
	command -v git >/dev/null || missing="$$missing git"; \
	command -v $(PYTHON) >/dev/null || missing="$$missing python3"; \
	$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || missing="$$missing python3-venv"; \
	PATH="$$PATH:/usr/sbin:/sbin" command -v ip >/dev/null || missing="$$missing iproute2"; \
	if [ -n "$$missing" ]; then \
	  echo "imsbench needs:$$missing"; \
	  echo "  sudo apt-get install -y $(APT)"; \
	  exit 5; \
	fi; \
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "imsbench needs Python 3.11 or newer; this is $$($(PYTHON) --version)."; \
	  echo "  Debian 12 and Ubuntu 24.04 have it; or: make PYTHON=/path/to/python3.11 demo"; \
	  exit 5; \
	}

$(VENV)/bin/python: | requirements
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.developer: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(VENV)/.installed
