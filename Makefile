# Three commands, each with its own virtual environment:
#   make demo     install the core and print the breakdown of a bundled sample trace
#   make collect  install torch and its kin too, train a tiny model for a few steps under the
#                 profiler and print the breakdown of that (ARGS: options of tracekit collect)
#   make test     install what developers need and run every check, the tests last
#   make fuzz     look for input that makes tracekit fail, for some MINUTES; finds go to tests/corpus
# The single checks, for quick turns: lint, types, imports, sql, pytest (ARGS="-k timeline").
# PYTHON chooses the interpreter (3.11 or later) for a new environment.

PYTHON ?= python3
SAMPLE := sample_traces/pretrain_R+Z3
RUN := runs/pretrain_R+Z3
DEMO := .venv
COLLECT := .venv-collect
DEV := .venv-dev
ARGS ?=
MINUTES ?= 10
# The parser in C. Where it cannot be compiled, tracekit does without it.
NATIVE := $(wildcard native/*)
CFLAGS_STRICT := -fsyntax-only -std=c11 -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Werror

# pip warns about things that are nobody's problem here; its errors are shown.
PIP_INSTALL := -m pip --disable-pip-version-check install --quiet --quiet

.NOTPARALLEL:
.PHONY: help demo collect test check lint format types imports sql pytest fuzz clean

help:
	@sed -n 's/^#  *//p; /^$$/q' Makefile

demo: $(DEMO)/.installed
	@$(DEMO)/bin/tracekit breakdown $(SAMPLE)

collect: $(COLLECT)/.installed
	@$(COLLECT)/bin/tracekit collect --stage pretrain --opt R+Z3 --nproc 2 --out $(RUN) --force \
		--breakdown $(ARGS)

test: check

check: lint types imports sql pytest

lint: $(DEV)/.installed
	@echo "== ruff"
	@$(DEV)/bin/ruff check --quiet .
	@$(DEV)/bin/ruff format --quiet --check . || \
		{ echo "not formatted as ruff does it: make format" >&2; exit 1; }
	@if command -v cc > /dev/null; then echo "== cc"; cc $(CFLAGS_STRICT) \
		-isystem $$($(DEV)/bin/python -c 'import sysconfig; print(sysconfig.get_path("include"))') \
		native/*.c; fi

types: $(DEV)/.installed
	@echo "== mypy"
	@$(DEV)/bin/mypy --no-error-summary

imports: $(DEV)/.installed
	@echo "== import contracts"
	@$(DEV)/bin/lint-imports --no-cache > $(DEV)/imports.log || { cat $(DEV)/imports.log >&2; exit 1; }

sql: $(DEV)/.installed
	@echo "== sqlfluff"
	@$(DEV)/bin/sqlfluff lint --disable-progress-bar --nocolor queries > $(DEV)/sql.log || \
		{ cat $(DEV)/sql.log >&2; exit 1; }

pytest: $(DEV)/.installed
	@echo "== pytest"
	@$(DEV)/bin/python -m pytest --numprocesses 2 --dist loadfile $(ARGS)

# The seed is chosen anew and printed: SEED repeats a run.
fuzz: $(DEV)/.installed
	@echo "== fuzz"
	@$(DEV)/bin/python tests/fuzz/run.py --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

format: $(DEV)/.installed
	@$(DEV)/bin/ruff check --quiet --fix-only .
	@$(DEV)/bin/ruff format --quiet .
	@$(DEV)/bin/sqlfluff fix --disable-progress-bar --quiet queries

clean:
	rm -rf $(DEMO) $(COLLECT) $(DEV) build dist *.egg-info tracekit/ingest/*.so .mypy_cache .pytest_cache .ruff_cache .hypothesis

# A stamp in the environment says that it holds what these files ask for.
$(DEMO)/.installed: pyproject.toml constraints.txt $(NATIVE) Makefile
	@echo "== installing tracekit into $(DEMO)"
	@$(call new_environment,$(DEMO))
	@$(DEMO)/bin/python $(PIP_INSTALL) --constraint constraints.txt --editable .
	@touch $@

$(COLLECT)/.installed: pyproject.toml constraints.txt $(NATIVE) Makefile
	@echo "== installing tracekit and its collectors into $(COLLECT)"
	@$(call new_environment,$(COLLECT))
	@$(COLLECT)/bin/python $(PIP_INSTALL) --constraint constraints.txt --editable '.[collect]'
	@touch $@

$(DEV)/.installed: pyproject.toml constraints.txt $(NATIVE) Makefile
	@echo "== installing tracekit and its developers' tools into $(DEV)"
	@$(call new_environment,$(DEV))
	@$(DEV)/bin/python $(PIP_INSTALL) --constraint constraints.txt --editable '.[dev,collect,loops]'
	@touch $@

define new_environment
$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tracekit needs Python 3.11 or later; this is " \
	+ sys.version.split()[0] + ". Choose another: make PYTHON=python3.12 ...")' && \
$(PYTHON) -m venv --clear $(1)
endef
