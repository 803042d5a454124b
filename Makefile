# Everything a developer or a person who tries Lucyd needs. `make` alone prints the list.

PYTHON ?= python3
ARGS ?=
LANES ?= auto
SEED ?= 1
MINUTES ?= 1
QUICK ?=
INDEXING ?=
SECONDS ?= 20
RESTARTS ?= 100
PLANT ?=
EXAMPLES ?= 200
VENV := .venv
PY := $(VENV)/bin/python
CODE := cli services shared deploy lucyd_plugin plugins.d tests bench
LOCK_FLAGS := --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --no-emit-index-url --no-emit-find-links --quiet

# Each lane has servers of its own and takes file after file, the slow ones first. LANES=0: one test after the other.
IN_LANES = -n $(LANES) --dist loadfile --no-loadscope-reorder
# The slow ones first.
EVERYTHING := tests/e2e tests/integration tests/contract tests

export PYTHON
# Hundreds of processes are started: what was compiled once is kept, whatever the caller prefers.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install dev run test check fmt fmt-check lint types unit house contract integration e2e fuzz chaos chaos-planted bench bench-profile bench-restarts bench-worker bench-streams bench-fair bench-start soak bench-model-call bench-store bench-scaling measure docs lock clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile

install: ## make .venv from requirements.lock (PYTHON=/path/to/python3 to choose which)
	@sh deploy/local/make_venv.sh requirements.lock

dev: ## make .venv from requirements-dev.lock: what checks and tests need
	@sh deploy/local/make_venv.sh requirements-dev.lock

run: install ## run Lucyd here: its servers and six services, until Ctrl-C (ARGS="--workers 2")
	@exec $(PY) -m deploy.local $(ARGS)

test: dev ## run every test (ARGS="-k name" chooses), at first those that need the machine for themselves
	@# What ARGS choose may stand in one of the two only; pytest calls a place without any a failure, 5.
	$(PY) -m pytest tests/e2e tests/chaos -m alone $(ARGS); first=$$?; \
	[ $$first -eq 0 ] || [ $$first -eq 5 ] || exit $$first; \
	$(PY) -m pytest $(EVERYTHING) -m "not alone" $(IN_LANES) $(ARGS); second=$$?; \
	[ $$second -eq 5 ] && exit $$first; exit $$second

check: dev fmt-check lint types unit house ## what each change must pass, in about a minute

fmt: dev ## format the code
	$(PY) -m ruff format $(CODE)
	$(PY) -m ruff check --fix-only --quiet $(CODE)

fmt-check: dev ## tell whether the code is formatted
	$(PY) -m ruff format --check $(CODE)

lint: dev ## check the style and who imports whom
	$(PY) -m ruff check $(CODE)
	$(VENV)/bin/lint-imports

types: dev ## check the types
	$(PY) -m mypy

unit: dev ## run the tests that need nothing outside the process
	$(PY) -m pytest tests/unit $(IN_LANES) $(ARGS)

house: dev ## run the tests of the repository itself
	$(PY) -m pytest tests/house $(IN_LANES) $(ARGS)

contract: dev ## run the tests that fake and real behave alike
	$(PY) -m pytest tests/contract $(IN_LANES) $(ARGS)

integration: dev ## run the tests of single parts against real servers
	$(PY) -m pytest tests/integration $(ARGS)

e2e: dev ## run the tests of the whole system
	$(PY) -m pytest tests/e2e $(ARGS)

fuzz: dev ## make thousands of requests from the OpenAPI document and check each answer (EXAMPLES=200 SEED=1)
	LUCYD_FUZZ_EXAMPLES=$(EXAMPLES) LUCYD_FUZZ_SEED=$(SEED) $(PY) -m pytest tests/integration/test_api_fuzz.py -s $(ARGS)

chaos: dev ## break a running Lucyd on purpose and check what it promises (SEED=1 MINUTES=1 PLANT=)
	$(PY) -m tests.chaos --seed $(SEED) --minutes $(MINUTES) $(if $(PLANT),--plant $(PLANT))

chaos-planted: dev ## plant faults in the product, one after the other: each must be seen
	$(PY) -m tests.chaos --seed $(SEED) --planted

bench: dev ## measure how fast Lucyd is on this machine (QUICK=1: only whether it runs; INDEXING=1)
	$(PY) -m bench $(if $(QUICK),--quick) $(if $(INDEXING),--indexing) $(ARGS)

bench-restarts: dev ## restart service after service under load and count what fails (RESTARTS=100)
	$(PY) -m bench.rolling --restarts $(RESTARTS) $(ARGS)

bench-profile: dev ## print what gateway and worker spend their CPU on under load (SECONDS=20)
	$(PY) -m bench.profile_load --seconds $(SECONDS) $(ARGS)

bench-streams: dev ## measure what 500 open streams cost while nothing happens
	$(PY) -m bench.open_streams $(ARGS)

bench-store: dev ## print what the storage of a run costs Postgres and us, by kind of statement
	$(PY) -m bench.store_cost $(ARGS)

bench-fair: dev ## measure how long one key's message waits while another key floods
	$(PY) -m bench.fair $(ARGS)

bench-start: dev ## measure how long the second start of the whole takes, and what each service imports
	$(PY) -m bench.start $(ARGS)

bench-scaling: dev ## measure 1, 2 and 4 workers in turn at the saturated load (ARGS="--rounds 5")
	$(PY) -m bench.scaling $(ARGS)

soak: dev ## load a Lucyd of its own for a while (MINUTES=20) and print what grows
	$(PY) -m bench.soak --minutes $(if $(filter file,$(origin MINUTES)),20,$(MINUTES)) $(ARGS)

bench-model-call: dev ## print what one model call costs the asking process (ARGS="--against <commit>")
	@$(PY) -m bench.model_call $(ARGS)

bench-worker: dev ## print the CPU of a run in the worker itself, without model call and Postgres
	$(PY) -m bench.worker_cost $(ARGS)

measure: dev ## print how long files and functions are, and what is hidden in them
	$(PY) -m bench.measure

docs: dev ## write what docs/tools.md says of each tool anew from the tools
	$(PY) -m tests.house.tool_page

lock: ## write requirements.lock and requirements-dev.lock anew from pyproject.toml (needs uv)
	@command -v uv >/dev/null 2>&1 || { echo "lucyd: uv was not found: install it (pip install uv)" >&2; exit 1; }
	uv pip compile pyproject.toml $(LOCK_FLAGS) -o requirements.lock
	uv pip compile pyproject.toml --extra dev $(LOCK_FLAGS) -o requirements-dev.lock

clean: ## remove .venv and what the tools left; data folders are never touched
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +
