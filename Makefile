# Every target does its own set-up: a virtual environment in .venv with the tested versions of requirements/.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: soak web test check format lock proto clean
.DEFAULT_GOAL := soak

$(VENV)/made: Makefile
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "repoll needs Python 3.11 or later, but '$(PYTHON)' is $$($(PYTHON) --version 2>&1). Name another one: make PYTHON=python3.12 ..." >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV) || { echo "$(PYTHON) cannot make a virtual environment; on Debian and Ubuntu install the package python3-venv." >&2; exit 2; }
	@touch $@

$(VENV)/runtime: requirements/runtime.txt pyproject.toml $(VENV)/made
	@echo "installing the tested versions of repoll's dependencies into $(VENV) (about a minute)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/runtime.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@

$(VENV)/dev: requirements/dev.txt $(VENV)/runtime
	@echo "installing the tools that the tests and checks need"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/dev.txt
	@touch $@

test: $(VENV)/dev
	$(BIN)/python -m pytest

check: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
