# make demo: see it work.  make test: what CI runs.  make build: after a change of native code.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test build lint clean

demo: $(VENV)/.installed
	$(BIN)/labeltree demo

test: $(VENV)/.installed-test
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest

build: $(VENV)/.installed-test

lint: $(VENV)/.installed-test
	$(BIN)/ruff check --fix . && $(BIN)/ruff format .
	$(BIN)/mypy

SOURCES := pyproject.toml CMakeLists.txt $(wildcard native/*) $(shell find src -name '*.py*' -not -path '*__pycache__*')

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(BIN)/python $(SOURCES)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check .
	touch $@

$(VENV)/.installed-test: $(BIN)/python $(SOURCES)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check '.[test]'
	touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) build
