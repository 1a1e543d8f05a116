# One word per chore. Everything runs in an environment of its own, .venv, made on first use; PYTHON chooses the interpreter.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: build test fuzz asan demo bench lint clean

# Packages of the chores that have run so far; a stamp each, so that a demo does not install what only tests need.
$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

SOURCES := setup.py pyproject.toml $(wildcard brevis/*.py* brevis/*.pxd brevis/*/*.py* brevis/kernels/*)

$(VENV)/built: $(SOURCES) constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install -q -c constraints.txt "setuptools>=77" "cython>=3.1" wheel
	$(BIN)/python -m pip install -q -c constraints.txt --no-build-isolation -e .
	touch $@

$(VENV)/with-%: pyproject.toml constraints.txt $(VENV)/built
	$(BIN)/python -m pip install -q -c constraints.txt --no-build-isolation -e ".[$*]"
	touch $@

build: $(VENV)/built

test: $(VENV)/with-test  ## the whole test suite
	$(BIN)/python -m pytest

FUZZ_SECONDS ?= 30
FUZZ_TARGETS := decode judge roundtrip streams random_access canonical

fuzz: $(VENV)/with-test  ## each fuzzing target for FUZZ_SECONDS
	for target in $(FUZZ_TARGETS); do $(BIN)/python fuzz/$$target.py --seconds $(FUZZ_SECONDS) || exit 1; done

asan: $(VENV)/with-test  ## the core and its regressions under the sanitizers of gcc
	$(BIN)/python fuzz/asan.py

demo: $(VENV)/with-bench  ## a real checkpoint through brevis and its peers
	$(BIN)/python bench/demo.py

bench: $(VENV)/with-bench  ## sizes and speeds beside other programs, recorded in bench/records
	$(BIN)/python bench/peers.py --record

lint: $(VENV)/with-lint $(VENV)/with-bench
	$(CC) -std=c11 -Wall -Wextra -Werror -fsyntax-only brevis/kernels/*.c
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/cython-lint brevis

clean:
	rm -rf build dist $(VENV) *.egg-info brevis/*.c brevis/*.so brevis/search/*.c brevis/search/*.so
