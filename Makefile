# Two commands matter: `make run` and `make test`. Both set up everything they need in .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.ready
PYTEST := PATH="$(CURDIR)/$(VENV)/foreign/bin:$$PATH" $(BIN)/python -m pytest
# Tests in another order: `make test ORDER=random`, and in the same one again: ORDER=<the seed in its command>.
SEED   := $(if $(filter random,$(ORDER)),$(shell date +%s),$(ORDER))
SHUFFLE := $(if $(ORDER),-p randomly --randomly-seed=$(SEED))

# Hundreds of Python processes are started: none should compile again what another one has.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup run test all-tests quick quick-tests check torture proof mutants foreign bench bench-spark bench-peers generate clean

setup: $(STAMP)

# The stamp is younger than what it was made from, so that a second `make` starts at once. The tests are collected
# once, so that all of them are compiled by one process, and not by each of three at the same time.
$(STAMP): pyproject.toml constraints.txt
	@echo "Setting up $(VENV): one to three minutes, most of it Spark (450 MB). Only the first time …"
	@$(PYTHON) tools/make_venv.py $(VENV)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --upgrade pip
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt --no-deps --upgrade \
		--target $(VENV)/otel opentelemetry-sdk opentelemetry-semantic-conventions
	@$(BIN)/python -m pytest --collect-only -qq >/dev/null 2>&1 || true
	@touch $@

run: setup
	@$(BIN)/holdfast demo

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/generate.py --check

# What tests use and the machine may lack: clients of other makes, brought without root; and an archive with
# which Spark starts in half the time.
foreign: setup
	@$(BIN)/python tools/foreign.py $(VENV)
	@$(BIN)/python tools/warm_spark.py $(VENV)

# Everything that is promised, in twelve minutes on two cores. Two test processes more than there are cores,
# since many tests wait for something; and the checks beside them, since mypy keeps one core busy.
test: foreign
	@$(MAKE) --no-print-directory --jobs=2 check all-tests

all-tests:
	$(PYTEST) -n 4 --dist worksteal $(SHUFFLE)

# The inner loop, in at most ninety seconds: the checks, and all tests that are neither slow nor start Spark,
# on one server.
quick: setup
	@$(MAKE) --no-print-directory --jobs=2 check quick-tests

quick-tests:
	$(PYTEST) -n 3 --dist worksteal --quick $(SHUFFLE)

# The campaigns that are too long for `make test`: every kill, the benchmarks in small, and all kinds of server;
# then the proof.
torture: foreign
	$(PYTEST) --torture -m torture
	$(PYTEST) -n 3 --dist worksteal --settings all tests/engine tests/client tests/tasks tests/worker
	@$(MAKE) --no-print-directory proof

# Real servers, tortured: each scenario with seeds 1 to SEEDS (twenty take about an hour), one alone by
# ONLY=cluster.kill. WRITE=1 puts the table into docs/proof.md. RESUME=file: may be interrupted, and goes on.
SEEDS ?= 3
proof: setup
	$(BIN)/python -m tools.torture --seeds $(SEEDS) $(if $(ONLY),--only $(ONLY)) $(if $(WRITE),--write) \
		$(if $(RESUME),--resume $(RESUME))

# Breaks the code in sixty ways, and tells which tests notice.
mutants: foreign
	PATH="$(CURDIR)/$(VENV)/foreign/bin:$$PATH" $(BIN)/python tools/mutants.py

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
