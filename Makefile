# Verbs for people and for CI; `make` alone lists them. ARGS="…" is handed on: make test ARGS="-k look"

PYTHON ?= python3
WORKERS ?= 2
TEST_WORKERS ?= 4 # more than cores: the slow tests wait for ttls and processes
BIN := .venv/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check install
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock"
SCRIPT := PYTHONPATH=. $(BIN)/python

.DEFAULT_GOAL := help
.PHONY: help setup run test check lint format types arrows crd tidy spec spec-refute spec-all spec-real sim sim-long sim-mutants bench plot soak lock clean cluster-up cluster-down e2e
MAKEFLAGS += --no-print-directory

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Stamps, newer than what they were installed from: a second `make run` starts at once.
.venv/.installed: requirements.lock requirements-build.lock pyproject.toml
	@echo "setting up .venv"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(PIP) --require-hashes -r requirements.lock -r requirements-build.lock
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

.venv/.installed-dev: .venv/.installed requirements-dev.lock
	@echo "setting up .venv for development"
	@$(PIP) --require-hashes -r requirements-dev.lock
	@touch $@

setup: .venv/.installed-dev ## everything that development needs, into .venv

run: .venv/.installed ## an embedded workspace on this machine; ARGS="--help" says what it takes
	@exec $(BIN)/turnkeeper run $(ARGS)

test: .venv/.installed-dev ## all tests that need no cluster, in under ten minutes
	$(BIN)/pytest -n $(TEST_WORKERS) $(ARGS)

check: lint types arrows ## what to run before each commit, in under two minutes
	$(BIN)/pytest -q -m "not slow" tests/tidy $(wildcard tests/core)

lint: .venv/.installed-dev ## ruff: all rules but the reasoned exceptions
	$(BIN)/ruff check
	$(BIN)/ruff format --check

format: .venv/.installed-dev ## what lint would complain of and a tool can mend
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

types: .venv/.installed-dev ## mypy, strict, tests too
	$(BIN)/mypy operator/turnkeeper tests $(wildcard bench examples)

arrows: .venv/.installed-dev ## imports point one way; each library stays in its rooms
	$(BIN)/lint-imports --no-logo

crd: .venv/.installed ## remake the Workspace's definition from its model, in crds/, in the chart and in docs/
	@mkdir -p crds charts/turnkeeper/templates
	$(BIN)/turnkeeper crd >crds/turnkeeper.dev_workspaces.yaml
	$(BIN)/turnkeeper crd --chart >charts/turnkeeper/templates/workspace-crd.yaml
	$(BIN)/turnkeeper crd --reference >docs/workspace.md

tidy: .venv/.installed-dev ## the rules of style that no linter knows
	$(BIN)/pytest -q tests/tidy

spec: .venv/.installed ## model-check the protocol's spec, and check traces of simulated runs against it
	spec/run check
	spec/run traces

spec-real: .venv/.installed-dev ## check traces of real processes, killed and frozen on one file, against the protocol's spec
	spec/run real

spec-refute: ## each guard of the protocol is needed: without it the model checker finds the fault
	spec/run refute

spec-all: ## crash, fault and a lost answer together: long
	spec/run all

bench: .venv/.installed-dev ## the measures of docs/benchmarks.md, side by side with their floors
	$(SCRIPT) bench/run.py $(ARGS)

plot: .venv/.installed-dev ## draw docs/takeover.svg anew from the kept figures of `make bench ARGS="peers"`
	$(SCRIPT) -m bench.peers.environment

soak: .venv/.installed-dev ## real conversations through processes that are killed at random
	$(SCRIPT) tests/soak/soak.py $(ARGS)

sim: .venv/.installed-dev ## many runners in virtual time under seeded faults; SEED=7 replays one, ARGS="--log" in full
	$(SCRIPT) tests/sim/run.py $(if $(SEED),--seed $(SEED)) --workers $(WORKERS) $(ARGS)

sim-long: .venv/.installed-dev ## the same until told to stop; ARGS="--first 1000 --go-on"
	$(SCRIPT) tests/sim/run.py --seeds 0 --workers $(WORKERS) $(ARGS)

sim-mutants: .venv/.installed-dev ## each guard taken away from the simulated code: after how many seeds that is seen
	$(SCRIPT) tests/sim/mutants.py --workers $(WORKERS) $(ARGS)

cluster-up: .venv/.installed-dev ## a real Kubernetes cluster on this machine (root; minutes at first); prints how to use it
	@$(SCRIPT) tests/cluster/playground.py up

cluster-down: .venv/.installed-dev ## stop it, and leave nothing of it
	@$(SCRIPT) tests/cluster/playground.py down

e2e: .venv/.installed-dev ## the tests on a cluster: KUBECONFIG's, kind's, cluster-up's, else one for the while
	TURNKEEPER_TEST_KUBECONFIG=$${TURNKEEPER_TEST_KUBECONFIG:-control-plane} $(BIN)/pytest -n $(WORKERS) \
		-k "kube or leases or controller" tests/kube tests/contract tests/controller
	$(SCRIPT) tests/e2e/run.py $(ARGS)

lock: .venv/.installed-dev ## remake the locks; ARGS="--upgrade" takes the newest of everything
	$(COMPILE) $(ARGS) pyproject.toml --output-file requirements.lock
	$(COMPILE) $(ARGS) pyproject.toml --extra kubernetes --constraint requirements.lock --output-file requirements-kubernetes.lock
	$(COMPILE) $(ARGS) pyproject.toml --extra kubernetes --group dev --constraint requirements-kubernetes.lock \
		--output-file requirements-dev.lock
	$(COMPILE) $(ARGS) --group build --constraint requirements-dev.lock --output-file requirements-build.lock

clean: ## remove what make made; an embedded workspace's log stays
	rm -rf .venv dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
