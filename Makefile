# Everything a newcomer types. `make` alone prints the targets.
# On a fresh machine: Python 3.11+ with venv, git and make are enough; setup brings the rest.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
PY     := $(BIN)/python
PYTEST := PYTHONWARNDEFAULTENCODING=1 $(PY) -m pytest -q
PIP    := PATH="$(CURDIR)/$(BIN):$$PATH" $(PY) -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help setup demo test laws e2e crash fuzz compat bench lint type imports fmt docs-check docs site screenshots parity gauge lock secret-rules check clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## make the environment in .venv (every other target does it by itself)

# venv and pip with a hashed lock (41 s with empty caches), because a fresh machine has no uv.
$(READY): locks/dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "clew needs Python 3.11 or newer; name one: make PYTHON=python3.12 setup"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "Python's venv module is missing; on Debian or Ubuntu: apt-get install python3-venv"; exit 1; }
	@echo "setting up $(VENV) (once)"
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV)
	@{ $(PIP) --require-hashes -r locks/dev.txt && $(PIP) --no-deps --no-build-isolation -e .; } \
	  >$(VENV)/setup.log 2>&1 || { cat $(VENV)/setup.log; exit 1; }
	@touch $@

demo: $(READY) ## run the main job end to end with the embedded scripted model
	@$(BIN)/clew demo

test: $(READY) ## run the tests (quick profiles, warnings are errors, 100 % branches on PURE modules)
	@$(PYTEST) -n 2 -m "not laws and not e2e and not crash" --cov --cov-report=term

laws: $(READY) ## run the property tests at depth
	@CLEW_HYPOTHESIS=deep $(PYTEST) -n 2 -m "(laws or hypothesis) and not (e2e or crash)" tests --timeout 900

$(VENV)/.published: $(READY) locks/e2e.txt
	@echo "adding the published programs that clew is held against (once)"
	@$(PIP) --require-hashes -r locks/e2e.txt >$(VENV)/published.log 2>&1 || { cat $(VENV)/published.log; exit 1; }
	@touch $@

e2e: $(VENV)/.published ## drive whole programs and the published readers
	@$(PYTEST) -m e2e tests --timeout 900

crash: $(READY) ## cut, kill and starve the writers
	@$(PYTEST) -n 2 -m crash tests --timeout 900

fuzz: $(READY) ## judge generated command lines, run the allowed ones in a sandbox (SECONDS, SEED, HOLES=1)
	@$(PY) -m tests.fuzz --seconds $(or $(SECONDS),600) --seed $(or $(SEED),1) $(if $(HOLES),--holes)

compat: $(READY) ## run the Agent SDK's own end-to-end tests against clew (SDK=CHECKOUT)
	@test -d "$(SDK)/e2e-tests" || { echo "name a checkout of the SDK's repository: make compat SDK=FOLDER"; exit 1; }
	@$(PY) -m pytest -q -c /dev/null --rootdir . -p tests.compat.sdk_plugin --timeout 120 $(SDK)/e2e-tests

bench: $(READY) ## measure speed, as ratios against a peer in the same run (ONLY=subject)
	@$(PY) -m benchmarks $(ONLY)

lint: $(READY) ## ruff: rules and format; import contracts
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check . || { echo "run: make fmt"; exit 1; }
	@$(BIN)/lint-imports --no-cache >.lint-imports.log 2>&1 || { cat .lint-imports.log; rm -f .lint-imports.log; exit 1; }
	@rm -f .lint-imports.log

type: $(READY) ## mypy, strict, over src, benchmarks and scripts
	@$(BIN)/mypy

fmt: $(READY) ## format and fix what can be fixed
	@$(BIN)/ruff check --quiet --fix . || true
	@$(BIN)/ruff format --quiet .

docs-check: $(READY) ## run what the docs say and compare
	@$(PY) -m scripts.docs

$(VENV)/.site: $(READY) locks/site.txt
	@echo "adding the builder of the documentation site (once)"
	@$(PIP) --require-hashes -r locks/site.txt >$(VENV)/site.log 2>&1 || { cat $(VENV)/site.log; exit 1; }
	@touch $@

site: $(VENV)/.site ## build the documentation site with search in .build/site
	@$(PY) -m scripts.build_site

screenshots: $(READY) ## make the pictures of the screen in docs/ anew, from a real run
	@$(PY) -m scripts.screenshots

docs: $(READY) ## write what is made from tables: help, ClewOptions, parts of the docs
	@$(PY) -m scripts.tables
	@$(PY) -m scripts.docs --write

gauge: $(READY) ## print how the source hangs together, beside the last release
	@$(PY) -m scripts.gauge

parity: $(READY) ## print the table of requirements and their state
	@$(PY) -m tests.requirements

secret-rules: $(READY) ## convert the rules of a checkout of gitleaks (FROM=CHECKOUT)
	@test -f "$(FROM)/config/gitleaks.toml" || { echo "name a checkout of gitleaks: make secret-rules FROM=FOLDER"; exit 1; }
	@$(PY) -m scripts.secret_rules "$(FROM)"

lock: $(READY) ## resolve the dependencies anew into locks/
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header pyproject.toml -o locks/core.txt
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header pyproject.toml --group dev -o locks/dev.txt
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header pyproject.toml --group dev --group e2e -c locks/dev.txt -o locks/e2e.txt
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --group site -c locks/dev.txt -o locks/site.txt

check: lint type docs-check test ## every gate; what CI runs

clean: ## remove the environment and everything derived
	@rm -rf $(VENV) .build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .coverage.* .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
