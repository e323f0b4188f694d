# Commands for developers. `make` prints the targets.
# Requirements: Python 3.11+ with venv, git and make. `make setup` installs the rest.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
PY     := $(BIN)/python
PYTEST := PYTHONWARNDEFAULTENCODING=1 $(PY) -m pytest -q
PIP    := PATH="$(CURDIR)/$(BIN):$$PATH" $(PY) -m pip install --quiet --disable-pip-version-check

# Without compiled files, each worker would compile all tests in each run.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test laws e2e e2e-local crash fuzz compat bench soak lint type imports fmt docs-check docs engine golden site screenshots parity gauge dist lock secret-rules check clean

help: ## print this list of targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## create the environment in .venv (other targets do this automatically)

# venv and pip with a hashed lock (41 s with empty caches), because not every machine has uv.
# --no-deps: the lock is complete, and a resolver would look for newer releases of `name[extra]`.
$(READY): locks/dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "clew needs Python 3.11 or newer; select one: make PYTHON=python3.12 setup"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "Python's venv module is missing; on Debian or Ubuntu: apt-get install python3-venv"; exit 1; }
	@echo "setting up $(VENV) (once)"
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV)
	@{ $(PIP) --no-deps --require-hashes -r locks/dev.txt && $(PIP) --no-deps --no-build-isolation -e .; } \
	  >$(VENV)/setup.log 2>&1 || { cat $(VENV)/setup.log; exit 1; }
	@touch $@

demo: $(READY) ## let clew fix a failing test, with a scripted model
	@$(BIN)/clew demo

# Tests wait for processes and for each other, so that more of them run than there are cores.
test: $(READY) ## run the quick tests, with coverage of the pure modules
	@CLEW_TESTS_TARGET=test $(PYTEST) -n 4 --dist worksteal -m "not laws and not e2e and not crash" --cov --cov-report=term

laws: $(READY) ## run the property tests with many examples
	@CLEW_TESTS_TARGET=laws CLEW_HYPOTHESIS=deep $(PYTEST) -n 3 --dist worksteal -m "(laws or hypothesis) and not (e2e or crash)" tests --timeout 900

$(VENV)/.published: $(READY) locks/e2e.txt
	@echo "installing the published programs that clew is tested against (once)"
	@$(PIP) --no-deps --require-hashes -r locks/e2e.txt >$(VENV)/published.log 2>&1 || { cat $(VENV)/published.log; exit 1; }
	@touch $@

e2e: $(VENV)/.published $(VENV)/.dist ## run end-to-end tests with published programs
	@command -v chromium chromium-browser google-chrome >/dev/null || \
	  { echo "the tests of the page need Chromium; on Debian or Ubuntu: apt-get install chromium"; exit 1; }
	@CLEW_TESTS_TARGET=e2e CLEW_TESTS_EXEC=1 $(PYTEST) -n 2 --dist loadfile -m "e2e and not (local or compat)" tests --timeout 900

e2e-local: $(READY) ## run tool turns against a real llama.cpp server (built once)
	@$(PY) -m scripts.llama_server
	@$(PYTEST) -m local tests/providers --timeout 3600

crash: $(READY) ## test crashes, full disks and damaged files
	@CLEW_TESTS_TARGET=crash CLEW_TESTS_EXEC=1 $(PYTEST) -n 2 -m crash tests --timeout 900

fuzz: $(READY) ## run generated command lines that permissions allow (SECONDS, SEED, HOLES=1)
	@$(PY) -m tests.fuzz --seconds $(or $(SECONDS),600) --seed $(or $(SEED),1) $(if $(HOLES),--holes)

compat: $(READY) ## drive published programs without a network (SDK=CHECKOUT, NVIM_PLUGIN=CHECKOUT, ONLY=NAME)
	@$(PY) -m tests.compat --sdk "$(SDK)" --nvim-plugin "$(NVIM_PLUGIN)" --only "$(ONLY)"

bench: $(VENV)/.published ## measure speed relative to other programs (ONLY=subject)
	@$(PY) -m benchmarks $(ONLY)

soak: $(READY) ## run 10,000 turns in one process (memory and CPU must stay flat)
	@$(PY) -m benchmarks turns

lint: $(READY) ## check style, format and import contracts
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check . || { echo "run: make fmt"; exit 1; }
	@$(BIN)/lint-imports --no-cache >.lint-imports.log 2>&1 || { cat .lint-imports.log; rm -f .lint-imports.log; exit 1; }
	@rm -f .lint-imports.log

type: $(READY) ## check types in src, benchmarks and scripts
	@$(BIN)/mypy

fmt: $(READY) ## format the code and fix what can be fixed
	@$(BIN)/ruff check --quiet --fix . || true
	@$(BIN)/ruff format --quiet .

docs-check: $(READY) ## run the examples in the docs and compare
	@$(PY) -m scripts.docs

$(VENV)/.site: $(READY) locks/site.txt
	@echo "installing the documentation site generator (once)"
	@$(PIP) --no-deps --require-hashes -r locks/site.txt >$(VENV)/site.log 2>&1 || { cat $(VENV)/site.log; exit 1; }
	@touch $@

site: $(VENV)/.site ## build the documentation site with search in .build/site
	@$(PY) -m scripts.build_site

golden: $(READY) ## redraw the golden screens of the terminal tests
	@CLEW_DRAW=1 $(PYTEST) tests/fronts/terminal

screenshots: $(VENV)/.published ## update the screenshots in docs/ from real runs (needs Chromium)
	@$(PY) -m scripts.screenshots
	@$(PY) -m scripts.page_screenshots

docs: $(READY) ## update generated code and docs
	@$(PY) -m scripts.tables
	@$(PY) -m scripts.docs --write

engine: $(READY) ## build the distribution clew-engine in dist/
	@$(PY) -m scripts.engine_wheel dist

gauge: $(READY) ## print figures about the source
	@$(PY) -m scripts.gauge

parity: $(READY) ## print all requirements with their state
	@$(PY) -m tests.requirements

secret-rules: $(READY) ## update the secret rules from gitleaks (FROM=CHECKOUT)
	@test -f "$(FROM)/config/gitleaks.toml" || { echo "FROM must be a checkout of gitleaks: make secret-rules FROM=FOLDER"; exit 1; }
	@$(PY) -m scripts.secret_rules "$(FROM)"

$(VENV)/.dist: $(READY) locks/dist.txt
	@echo "installing the generator of component lists (once)"
	@$(PIP) --no-deps --require-hashes -r locks/dist.txt >$(VENV)/dist.log 2>&1 || { cat $(VENV)/dist.log; exit 1; }
	@touch $@

dist: $(VENV)/.dist ## build what is released in dist/: wheel, sdist, clew.pyz, component list
	@$(PY) -m scripts.dist

lock: $(READY) ## update the locked dependencies in locks/
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header pyproject.toml -o locks/core.txt
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header pyproject.toml --group dev -o locks/dev.txt
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header pyproject.toml --group dev --group e2e -c locks/dev.txt -o locks/e2e.txt
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --group site -c locks/dev.txt -o locks/site.txt
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --group dist -c locks/dev.txt -o locks/dist.txt

# mypy uses one core. The tests use all of them, and come last.
check: $(READY) ## run all checks, like CI
	@$(MAKE) --no-print-directory --jobs 2 lint type docs-check
	@$(MAKE) --no-print-directory test

clean: ## remove the environment and all generated files
	@rm -rf $(VENV) .build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .coverage.* .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
