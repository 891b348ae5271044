# Every target sets up what it needs by itself, in .venv; nothing outside this folder is changed.
# Another interpreter for a new .venv: make PYTHON=python3.12 test

PYTHON ?= python3
JOBS   ?= 2
FLOOR  ?= 92
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check -qq
SOURCES := $(wildcard src tests examples benchmarks papers website docs/images)

# The lowest versions are tried in an environment of their own. The start and the words of Typer's own mistakes are left
# out: older versions load more and say other words. So is a control about how DuckDB 2.0 reads a decimal that is too large.
LOWEST       := .venv-lowest
LOWEST_TESTS := tests/test_support.py tests/test_calibration.py tests/test_certificates.py tests/test_mechanism.py \
  tests/sampling tests/ledger/test_book.py tests/accounting tests/plot tests/learn/sklearn tests/learn/torch \
  tests/release/engine/test_csv.py tests/release/engine/test_damage.py tests/release/engine/test_duckdb.py \
  tests/release/test_one_row.py tests/release/test_run.py tests/cli/test_ledger_command.py \
  tests/cli/test_account_command.py tests/cli/test_plot_command.py

# A stamp is written only after its install has succeeded. Both are renewed when a requirement or the C source changes.
DEMO_STAMP := $(VENV)/.installed-demo
FULL_STAMP := $(VENV)/.installed-full
NEEDS      := pyproject.toml constraints.txt setup.py $(wildcard src/rangebound/*.h src/rangebound/*/*.c)

comma      := ,
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))

# Tests start hundreds of processes: each would compile the package again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo test coverage test-long test-lowest mutants bench papers docs lint format clean

help: ## Show this list
	@echo "usage: make TARGET"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 14

demo: $(DEMO_STAMP) ## Publish a private table of clinic visits; report in out/
	@mkdir -p out
	@$(BIN)/rangebound demo --folder out/demo

test: lint ## Lint, types, import layers, and all tests but the long ones
	@echo "tests"
	@$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal

coverage: $(FULL_STAMP) ## The same tests, traced, which takes twice as long; coverage in out/coverage.json
	@echo "tests, traced"
	@mkdir -p out
	@COVERAGE_FILE=out/.coverage $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal \
	  --cov --cov-report=json:out/coverage.json --cov-fail-under=$(FLOOR)

test-long: lint ## The same, and the long tests too
	@echo "tests, long ones included"
	@$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal -m "long or not long"

test-lowest: $(LOWEST)/.installed ## The tests that depend on other packages, with their lowest versions
	@echo "tests, lowest versions"
	@SCIPY_ARRAY_API=1 $(LOWEST)/bin/python -m pytest -q $(LOWEST_TESTS) -W "ignore::pytest.PytestRemovedIn10Warning" \
	  --deselect tests/release/test_one_row.py::test_control_the_readers_of_parquet_make_different_numbers_of_a_decimal_that_is_too_large

mutants: $(FULL_STAMP) ## Break guarantee-bearing lines one at a time, and see whether a test notices; in out/mutants.md
	@$(BIN)/python -m tests.mutants --jobs $(JOBS)

bench: $(FULL_STAMP) ## Measure beside other libraries, in out/peers; writes docs/benchmarks.md
	@$(BIN)/python -m benchmarks

papers: $(FULL_STAMP) ## Reproduce the papers' tables and figures; writes docs/papers.md
	@$(BIN)/python -m papers --jobs $(JOBS)

docs: $(FULL_STAMP) ## Build the site of the documentation, with the output of its notebooks, in out/site
	@$(BIN)/python -m website
	@echo "to read it: $(BIN)/python -m http.server --directory out/site"

lint: $(FULL_STAMP) ## Style, strict types, import layers, the documentation (in out/site)
	@echo "style"
	@$(BIN)/python -m ruff check $(SOURCES)
	@$(BIN)/python -m ruff format --check $(SOURCES)
	@echo "types"
	@$(BIN)/python -m mypy
	@echo "import layers"
	@$(BIN)/lint-imports
	@echo "documentation"
	@$(BIN)/python -m website --quick

format: $(FULL_STAMP) ## Rewrite the code in the project's format
	@$(BIN)/python -m ruff check --fix $(SOURCES)
	@$(BIN)/python -m ruff format $(SOURCES)

clean: ## Remove the environment, the caches and out/
	rm -rf $(VENV) $(LOWEST) out build dist src/*.egg-info
	rm -f src/rangebound/*/*.so src/rangebound/*/*.pyd
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests examples benchmarks papers website -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# A healthy .venv is kept; a missing or broken one (an interrupted set-up, a Python that has gone) is made anew.
# setuptools comes first, and is then used as it is, so that the build tool is pinned like everything else.
define prepare
	@if ! { $(BIN)/python -c "import pip; $(NEW_ENOUGH)" && $(BIN)/python -m pip --version; } >/dev/null 2>&1; then \
	  command -v "$(PYTHON)" >/dev/null 2>&1 || { \
	    echo "error: $(PYTHON) not found; rangebound needs Python 3.11 or later (make PYTHON=/path/to/python ...)" >&2; exit 1; }; \
	  "$(PYTHON)" -c "$(NEW_ENOUGH)" || { \
	    echo "error: $$("$(PYTHON)" --version 2>&1) is too old; rangebound needs Python 3.11 or later (make PYTHON=/path/to/python ...)" >&2; exit 1; }; \
	  echo "making $(VENV) with $$("$(PYTHON)" --version 2>&1)"; \
	  "$(PYTHON)" -m venv --clear $(VENV) || { \
	    echo "error: $(PYTHON) cannot make a virtual environment; install its venv module (python3-venv on Debian and Ubuntu)" >&2; exit 1; }; \
	fi
	@echo "installing $(1) into $(VENV) (once; some minutes on a slow line)"
	@$(PIP) install -c constraints.txt setuptools
	@$(PIP) install -c constraints.txt --no-build-isolation -e "$(2)"
endef

$(DEMO_STAMP): $(NEEDS)
	$(call prepare,rangebound,.[cli$(comma)plot$(comma)tables])
	@touch $@

$(FULL_STAMP): $(NEEDS)
	$(call prepare,rangebound and its test tools,.[all$(comma)dev$(comma)docs$(comma)examples])
	@touch $(DEMO_STAMP) $@

$(LOWEST)/.installed: pyproject.toml constraints-lowest.txt setup.py
	@echo "installing the lowest versions into $(LOWEST) (once; some gigabytes)"
	@"$(PYTHON)" -m venv --clear $(LOWEST)
	@$(LOWEST)/bin/python -m pip --disable-pip-version-check -qq install -c constraints-lowest.txt setuptools
	@$(LOWEST)/bin/python -m pip --disable-pip-version-check -qq install -c constraints-lowest.txt --no-build-isolation \
	  -e ".[cli,parquet,plot,sklearn,tables,torch]" hypothesis mpmath pandas polars pytest statsmodels
	@touch $@
