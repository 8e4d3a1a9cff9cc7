# Two commands matter: `make run` and `make test`. Both set up everything they need in .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.ready

.PHONY: setup run test check foreign bench bench-spark bench-peers generate clean

setup: $(STAMP)

# The stamp is younger than what it was made from, so that a second `make` starts at once.
$(STAMP): pyproject.toml constraints.txt
	@echo "Setting up $(VENV): one to three minutes, most of it Spark (450 MB). Only the first time …"
	@$(PYTHON) tools/make_venv.py $(VENV)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --upgrade pip
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

run: setup
	@$(BIN)/holdfast demo

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/generate.py --check

# Clients of other makes, for tests that use them: brought without root where the machine lacks them.
foreign: setup
	@$(BIN)/python tools/foreign.py $(VENV)

test: check foreign
	PATH="$(CURDIR)/$(VENV)/foreign/bin:$$PATH" $(BIN)/python -m pytest -n 2 --dist worksteal

bench: setup
	$(BIN)/python -m benchmarks

bench-spark: setup
	$(BIN)/python -m benchmarks.spark

# Node for one of the peers, if the machine has none; each peer in a folder of its own below .peers.
bench-peers: foreign
	PATH="$(CURDIR)/$(VENV)/foreign/bin:$$PATH" $(BIN)/python -m benchmarks.peers

generate: setup
	$(BIN)/python tools/generate.py

clean:
	rm -rf $(VENV) .peers .holdfast build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
