# Main commands; `make demo` has its own virtual environment, and the others share one:
#   make demo     install the core and print the breakdown of a bundled sample trace
#   make collect  install torch and related packages, train a tiny model for a few steps under the
#                 profiler and print its breakdown (ARGS: options of tracekit collect)
#   make test     install the developers' tools and run the gate: all checks and the tests without
#                 the mark `nightly`
#   make test-all   the gate, the tests marked `nightly`, and the manual
#   make fuzz     search for input that makes tracekit fail, for MINUTES minutes; saves it to
#                 tests/corpus. If cc exists, a tenth of the time tests native/ with sanitizers
#   make docs     build the manual into build/docs; fails at a broken link or anchor
#   make benchmark  measure this tree and the last tag, or the commit AGAINST, in pairs
#   make predictions  predict loops and loads, run them, and write the errors into the manual
#   make advice       inject faults into programs, and write into the manual whether advice finds them
#   make agents       count the tokens of every default MCP answer, for the manual
#   make peers        compare figures with other tools, and write the tables into the manual
#   make devices      compare predictions of another device with recordings, for the manual
#   make unprofiled   compare estimates with unprofiled steps, for the manual
#   make truth        compare figures of GPU recordings with CUDA events, for the manual
#   make published    compare the published tables with the paper's TEXT
#   make sets         test tracekit with old and new versions of Python, torch, and transformers
#   make wheel        build the source distribution and this system's wheel into dist
#   make release      check and build the release, and print the remaining steps
# Single checks: lint, types, imports, sql, gate, pytest (ARGS="-k timeline").
# make docs-update updates the command outputs, notebooks, and the picture in the manual
# (ARGS="docs/speed.md": only the outputs of that page).
# make docs-pictures updates the screenshots in the manual; needs Chromium
# (ARGS="report browse": only these).
# PYTHON is the interpreter (3.11 or later) for new environments.

PYTHON ?= python3
SAMPLE := sample_traces/h200_finetune_L
RUN := runs/pretrain_R+Z3
DEMO := .venv
DEV := .venv-dev
ARGS ?=
MINUTES ?= 10
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(min(8, os.cpu_count() or 1))')
# Tests spend most of their time planning SQL statements. With jemalloc, which Ray includes, two analyses of six small
# traces take 3.0 instead of 4.0 CPU-seconds.
JEMALLOC = $(wildcard $(DEV)/lib/python3*/site-packages/ray/core/libjemalloc.so)
# Programs that measure and update tables of the manual. No check runs them.
EVALUATE := PYTHONPATH=evaluations:tests/shared $(DEV)/bin/python -m
NATIVE_SOURCES := $(wildcard native/*.c native/*/*.c)
NATIVE := $(NATIVE_SOURCES) $(wildcard native/*.h native/*/*.h native/*.py)
SANITIZE := -std=c11 -g -O1 -fsanitize=address,undefined -fno-sanitize-recover=all -Inative
CFLAGS_STRICT := -fsyntax-only -std=c11 -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Werror

# Suppress pip's warnings, which do not apply here; errors are shown.
PIP_INSTALL := -m pip --disable-pip-version-check install --quiet --quiet

# Only a quarter of the ten thousand files of torch and its dependencies is ever imported. Compile them at import, and
# cache the result even if the user has disabled that.
export PYTHONDONTWRITEBYTECODE :=

# The checks are independent of each other; all other targets run sequentially.
ifndef AT_ONCE
.NOTPARALLEL:
endif
.PHONY: help demo collect collects test test-all tools checks lint format types imports sql docs docs-update docs-pictures gate pytest fuzz benchmark predictions advice agents golden peers truth devices unprofiled published sets wheel release clean

help:
	@sed -n 's/^#  *//p; /^$$/q' Makefile

demo: $(DEMO)/.installed
	@$(DEMO)/bin/tracekit breakdown $(SAMPLE)

collect: $(DEV)/.collects
	@$(DEV)/bin/tracekit collect --stage pretrain --opt R+Z3 --nproc 2 --out $(RUN) --force \
		--breakdown $(ARGS)

# The checks run at low priority next to the tests, and print only what they find.
define run_tests
said=$$(mktemp); nice $(MAKE) --no-print-directory $(1) > $$said 2>&1 & checks=$$!; \
result=0; $(MAKE) --no-print-directory pytest $(2) || result=$$?; \
wait $$checks || { cat $$said; result=1; }; \
rm -f $$said; exit $$result
endef

test: $(DEV)/.installed
	@$(call run_tests,checks,ARGS='-m "not nightly" $(ARGS)')

test-all: $(DEV)/.installed
	@$(call run_tests,checks docs)

# Only the environments.
tools: $(DEV)/.installed
collects: $(DEV)/.collects

# Longest first.
checks: $(DEV)/.installed
	@$(MAKE) --jobs 2 --output-sync=target AT_ONCE=1 types sql lint imports gate

lint: $(DEV)/.installed
	@echo "== ruff"
	@$(DEV)/bin/ruff check --quiet .
	@$(DEV)/bin/ruff format --quiet --check . || \
		{ echo "not formatted as ruff does it: make format" >&2; exit 1; }
	@if command -v cc > /dev/null; then echo "== cc"; cc $(CFLAGS_STRICT) -Inative \
		$(NATIVE_SOURCES) tests/fuzz/native.c; fi
	@echo "== wording"
	@$(DEV)/bin/python tests/docs/check_wording.py >&2

types: $(DEV)/.installed
	@echo "== mypy"
	@$(DEV)/bin/mypy --no-error-summary

imports: $(DEV)/.installed
	@echo "== import contracts"
	@$(DEV)/bin/lint-imports --no-cache > $(DEV)/imports.log || { cat $(DEV)/imports.log >&2; exit 1; }

sql: $(DEV)/.linted

# The files that changed: to lint them all takes 14 CPU-seconds.
$(DEV)/.linted: $(DEV)/.installed .sqruff $(wildcard queries/*/*.sql queries/*/*/*.sql)
	@echo "== sqruff"
	@$(DEV)/bin/sqruff --nocolor lint $(if $(filter-out %.sql,$?),queries,$?) > $(DEV)/sql.log 2>&1 || \
		{ cat $(DEV)/sql.log >&2; exit 1; }
	@touch $@

# No --quiet, because it would also hide warnings from --strict.
docs: $(DEV)/.installed
	@echo "== manual"
	@NO_MKDOCS_2_WARNING=1 $(DEV)/bin/mkdocs build --strict > $(DEV)/docs.log 2>&1 || \
		{ cat $(DEV)/docs.log >&2; exit 1; }

docs-update: $(DEV)/.installed
	@PYTHONPATH=docs $(DEV)/bin/python -m generate $(ARGS)

docs-pictures: $(DEV)/.installed
	@PYTHONPATH=docs $(DEV)/bin/python -m generate.screenshots $(ARGS)

# tracekit's CI check on a sample, whose results must not change.
gate: $(DEV)/.installed
	@echo "== tracekit check"
	@$(DEV)/bin/tracekit check sample_traces/pretrain_Naive --rules tests/checking/gate/rules.toml \
		--no-cache > $(DEV)/gate.log || { cat $(DEV)/gate.log >&2; exit 1; }

pytest: $(DEV)/.installed
	@echo "== pytest"
	@LD_PRELOAD=$(abspath $(JEMALLOC)) $(DEV)/bin/python -m pytest --numprocesses $(WORKERS) --dist loadfile \
		--no-loadscope-reorder --durations 20 --durations-min 5 $(ARGS)

# The random seed is printed; SEED repeats a run.
fuzz: $(DEMO)/.installed
	@echo "== fuzz"
	@if command -v cc > /dev/null; then mkdir -p build && \
		cc $(SANITIZE) -o build/fuzz_native tests/fuzz/native.c $(NATIVE_SOURCES) && \
		build/fuzz_native $$(awk 'BEGIN { print 6 * $(MINUTES) }') $(or $(SEED),$$(date +%s)); fi
	@$(DEMO)/bin/python tests/fuzz/run.py --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

format: $(DEV)/.installed
	@$(DEV)/bin/ruff check --quiet --fix-only .
	@$(DEV)/bin/ruff format --quiet .
	@$(DEV)/bin/sqruff fix --quiet queries

# Time and memory of this tree relative to AGAINST=COMMIT, or the last tag.
benchmark: $(DEV)/.installed
	@$(DEV)/bin/python evaluations/benchmarks/bench_pairs.py $(if $(AGAINST),--against $(AGAINST)) $(ARGS)

# Takes a quarter of an hour on an idle machine, because it compares times.
predictions: $(DEV)/.installed
	@$(EVALUATE) predictions $(ARGS)

advice: $(DEV)/.installed
	@$(EVALUATE) advice $(ARGS)

# TRACEKIT_TRACELENS and TRACEKIT_HTA name clones; without a clone, its tables are unchanged.
peers: $(DEV)/.installed
	@$(EVALUATE) peers $(ARGS)

# Complete results of all traces, written to OUT; AGAINST=FOLDER compares them with an earlier OUT.
golden: $(DEV)/.installed
	@$(EVALUATE) golden $(OUT) $(ARGS) $(if $(AGAINST),--against $(AGAINST))

# ARGS="--traces FOLDER" names the recordings and their measured times.
truth: $(DEV)/.installed
	@$(EVALUATE) h200 $(ARGS)

devices: $(DEV)/.installed
	@$(EVALUATE) devices $(ARGS)

unprofiled: $(DEV)/.installed
	@$(EVALUATE) unprofiled $(ARGS)

# TEXT is the text of arXiv 2311.03687, with tabs between the cells of tables.
published: $(DEV)/.installed
	@TRACEKIT_PAPER_TEXT=$(TEXT) $(DEV)/bin/python -m pytest --quiet evaluations/published $(ARGS)

# TRACEKIT_PUBLIC_TRACES names the folder of public traces.
agents: $(DEV)/.installed
	@$(EVALUATE) agents $(ARGS)

# ARGS selects sets; TORCH_INDEX= TORCH=torch==VERSION installs torch from PyPI.
sets:
	@$(PYTHON) evaluations/version_sets $(ARGS)

# Built from a copy of the commit, without uncommitted files. .github/workflows/wheels.yml builds wheels of other systems.
wheel: $(DEV)/.installed
	@rm -rf build/release dist && mkdir -p build/release
	@git archive HEAD | tar --extract --directory build/release
	@$(DEV)/bin/python -m build --outdir dist build/release > $(DEV)/wheel.log 2>&1 || \
		{ cat $(DEV)/wheel.log >&2; exit 1; }
	@ls dist

# Uploads nothing, and stops at the first failed check.
release: VERSION = $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' tracekit/__init__.py)
release:
	@test -z "$$(git status --porcelain)" || { echo "the working tree has changes: commit them" >&2; exit 1; }
	@grep -qE '^## $(VERSION)(, [0-9-]+)?$$' CHANGELOG.md || \
		{ echo "CHANGELOG.md has no heading '## $(VERSION), DATE'" >&2; exit 1; }
	@test "$$(git tag --points-at HEAD --list 'v$(VERSION)')" || \
		{ echo "this commit has no tag: git tag -a v$(VERSION) -m $(VERSION)" >&2; exit 1; }
	@$(MAKE) test-all
	@$(MAKE) sets
	@$(MAKE) wheel
	@echo "ready: put the wheels of the workflow 'wheels' for v$(VERSION) into dist, then"
	@echo "  git push origin v$(VERSION) && twine check --strict dist/* && twine upload dist/*"

clean:
	rm -rf $(DEMO) $(DEV) build dist *.egg-info tracekit/*.so .mypy_cache .pytest_cache .ruff_cache .hypothesis

# A stamp file marks an environment that meets the requirements in these files.
$(DEMO)/.installed: pyproject.toml constraints.txt $(NATIVE)
	@echo "== installing tracekit into $(DEMO)" >&2
	@$(call new_environment,$(DEMO))
	@$(DEMO)/bin/python $(PIP_INSTALL) --constraint constraints.txt --editable .
	@touch $@

$(DEV)/.packages: pyproject.toml constraints.txt
	@echo "== installing what tracekit's collectors need into $(DEV)" >&2
	@$(call new_environment,$(DEV))
	@$(PYTHON) tests/extras.py collect | \
		$(DEV)/bin/python $(PIP_INSTALL) --no-compile --constraint constraints.txt \
		--requirement /dev/stdin
	@touch $@

$(DEV)/.collects: $(DEV)/.packages $(NATIVE)
	@echo "== installing tracekit into $(DEV)" >&2
	@$(DEV)/bin/python $(PIP_INSTALL) --no-compile --no-deps --constraint constraints.txt --editable .
	@touch $@

$(DEV)/.installed: $(DEV)/.collects
	@echo "== installing the developers' tools into $(DEV)" >&2
	@$(DEV)/bin/python tests/extras.py dev loops docs remote ray plot tui mcp | \
		$(DEV)/bin/python $(PIP_INSTALL) --no-compile --constraint constraints.txt \
		--requirement /dev/stdin
	@touch $@

# Upgrade pip, because old versions may spend seconds on every version of a package.
define new_environment
$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tracekit needs Python 3.11 or later; this is " \
	+ sys.version.split()[0] + ". Choose another: make PYTHON=python3.12 ...")' && \
$(PYTHON) -m venv --clear $(1) && $(1)/bin/python $(PIP_INSTALL) --no-compile \
	--constraint constraints.txt --upgrade pip
endef
