# Three commands; the first has a virtual environment of its own, the others share one:
#   make demo     install the core and print the breakdown of a bundled sample trace
#   make collect  install torch and its kin too, train a tiny model for a few steps under the
#                 profiler and print the breakdown of that (ARGS: options of tracekit collect)
#   make test     install what developers need besides and run every check beside the tests
#   make fuzz     look for input that makes tracekit fail, for some MINUTES, with the core alone;
#                 finds go to tests/corpus
#   make docs     build the manual into build/docs; a dead link or anchor stops it
#   make benchmark  measure this tree beside the last tag, or the commit AGAINST
#   make predictions  predict loops and loads, run them, and say in the manual how far off that was
#   make advice       put faults into programs, and say in the manual whether advice finds them
#   make agents       count what every default answer to assistants takes, for the manual
#   make peers        hold figures against those of other tools, and write the tables in the manual
#   make devices      hold predictions of another device against recordings, for the manual
#   make unprofiled   hold estimates of the run against steps without the profiler, for the manual
#   make truth        hold figures of a GPU's recordings against CUDA events, for the manual
#   make published    compare the published tables with the paper's TEXT
#   make sets         try tracekit beside old and new versions of Python, torch and transformers
#   make wheel        build the source distribution and this system's wheel into dist
#   make release      check what is to be released, build it, and say what is left to upload it
# The single checks, for quick turns: lint, types, imports, sql, docs, gate, pytest
# (ARGS="-k timeline").
# make docs-update writes what commands print into the manual's pages and notebooks, and the picture
# (ARGS="docs/speed.md": the outputs of that page alone).
# make docs-pictures takes the manual's pictures of pages and screens anew, for which it needs
# Chromium (ARGS="report browse": those alone).
# PYTHON chooses the interpreter (3.11 or later) for a new environment.

PYTHON ?= python3
SAMPLE := sample_traces/h200_finetune_L
RUN := runs/pretrain_R+Z3
DEMO := .venv
DEV := .venv-dev
ARGS ?=
MINUTES ?= 10
# Many tests wait for servers and processes: two for each core keep it busy. Tests of one file run
# on one of them, and those of one group: see tests/conftest.py.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(min(8, 2 * (os.cpu_count() or 1)))')
# Programs that measure and fill tables of the manual: run by name, by no check.
EVALUATE := PYTHONPATH=evaluations:tests/shared $(DEV)/bin/python -m
# The parser in C. Where it cannot be compiled, tracekit does without it.
NATIVE := $(wildcard native/*)
CFLAGS_STRICT := -fsyntax-only -std=c11 -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Werror

# pip warns about things that are nobody's problem here; its errors are shown.
PIP_INSTALL := -m pip --disable-pip-version-check install --quiet --quiet

# Of the ten thousand files of torch and its kin a quarter is ever imported: they are compiled when
# they are, and kept, wherever somebody has switched that off.
export PYTHONDONTWRITEBYTECODE :=

# The checks look at different things and write nothing that another reads; all else is one by one.
ifndef AT_ONCE
.NOTPARALLEL:
endif
.PHONY: help demo packages collect collects test tools check checks lint format types imports sql docs docs-update docs-pictures gate pytest collected fuzz benchmark predictions advice agents golden peers truth devices unprofiled published sets wheel release clean

help:
	@sed -n 's/^#  *//p; /^$$/q' Makefile

demo: $(DEMO)/.installed
	@$(DEMO)/bin/tracekit breakdown $(SAMPLE)

collect: $(DEV)/.collects
	@$(DEV)/bin/tracekit collect --stage pretrain --opt R+Z3 --nproc 2 --out $(RUN) --force \
		--breakdown $(ARGS)

# The checks in the moments in which the tests wait; they say nothing unless they find something.
test: $(DEV)/.installed
	@said=$$(mktemp); nice $(MAKE) --no-print-directory checks > $$said 2>&1 & checks=$$!; \
	result=0; $(MAKE) --no-print-directory pytest || result=$$?; \
	wait $$checks || { cat $$said; result=1; }; \
	rm -f $$said; exit $$result

# What the checks run in, without running any; what collects runs in, and that without tracekit.
tools: $(DEV)/.installed
collects: $(DEV)/.collects
packages: $(DEV)/.packages

check: checks pytest

# Those that take longest first.
checks: $(DEV)/.installed
	@$(MAKE) --jobs 2 --output-sync=target AT_ONCE=1 types sql docs lint imports gate

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
	@$(DEV)/bin/sqlfluff lint --processes 0 --disable-progress-bar --nocolor queries > $(DEV)/sql.log 2>&1 || \
		{ cat $(DEV)/sql.log >&2; exit 1; }

# Not with --quiet: it would hide the warnings from --strict, too.
docs: $(DEV)/.installed
	@echo "== manual"
	@NO_MKDOCS_2_WARNING=1 $(DEV)/bin/mkdocs build --strict > $(DEV)/docs.log 2>&1 || \
		{ cat $(DEV)/docs.log >&2; exit 1; }

docs-update: $(DEV)/.installed
	@PYTHONPATH=docs $(DEV)/bin/python -m generate $(ARGS)

docs-pictures: $(DEV)/.installed
	@PYTHONPATH=docs $(DEV)/bin/python -m generate.screenshots $(ARGS)

# The gate that tracekit is for others, on a sample: what is found in it must not change.
gate: $(DEV)/.installed
	@echo "== tracekit check"
	@$(DEV)/bin/tracekit check sample_traces/pretrain_Naive --rules tests/checking/gate/rules.toml \
		--no-cache > $(DEV)/gate.log || { cat $(DEV)/gate.log >&2; exit 1; }

pytest: $(DEV)/.installed
	@echo "== pytest"
	@$(DEV)/bin/python -m pytest --numprocesses $(WORKERS) --dist loadgroup \
		--no-loadscope-reorder --durations 20 --durations-min 5 $(ARGS)

# The asserts of tests are rewritten once for all workers, who find them in the cache then.
collected: $(DEV)/.installed
	@$(DEV)/bin/python -m pytest --collect-only --quiet > $(DEV)/collected.log 2>&1 || \
		{ cat $(DEV)/collected.log >&2; exit 1; }

# The seed is chosen anew and printed: SEED repeats a run.
fuzz: $(DEMO)/.installed
	@echo "== fuzz"
	@$(DEMO)/bin/python tests/fuzz/run.py --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

format: $(DEV)/.installed
	@$(DEV)/bin/ruff check --quiet --fix-only .
	@$(DEV)/bin/ruff format --quiet .
	@$(DEV)/bin/sqlfluff fix --disable-progress-bar --quiet queries

# What this tree costs beside another commit: AGAINST=COMMIT, or the last tag.
benchmark: $(DEV)/.installed
	@$(DEV)/bin/python evaluations/benchmarks/bench_pairs.py $(if $(AGAINST),--against $(AGAINST)) $(ARGS)

# On a quiet machine, for a quarter of an hour: what differs is times.
predictions: $(DEV)/.installed
	@$(EVALUATE) predictions $(ARGS)

advice: $(DEV)/.installed
	@$(EVALUATE) advice $(ARGS)

# TRACEKIT_TRACELENS and TRACEKIT_HTA name clones of these; what is not there stays as it is.
peers: $(DEV)/.installed
	@$(EVALUATE) peers $(ARGS)

# All that is said of every trace there is, into OUT; AGAINST=FOLDER compares it with what was written there.
golden: $(DEV)/.installed
	@$(EVALUATE) golden $(OUT) $(ARGS) $(if $(AGAINST),--against $(AGAINST))

# ARGS="--traces FOLDER" names the recordings and their truth.
truth: $(DEV)/.installed
	@$(EVALUATE) h200 $(ARGS)

devices: $(DEV)/.installed
	@$(EVALUATE) devices $(ARGS)

unprofiled: $(DEV)/.installed
	@$(EVALUATE) unprofiled $(ARGS)

# TEXT is the text of arXiv 2311.03687, the cells of a table's line between tabs.
published: $(DEV)/.installed
	@TRACEKIT_PAPER_TEXT=$(TEXT) $(DEV)/bin/python -m pytest --quiet evaluations/published $(ARGS)

# On the public traces: TRACEKIT_PUBLIC_TRACES names their folder.
agents: $(DEV)/.installed
	@$(EVALUATE) agents $(ARGS)

# ARGS names some sets alone; TORCH_INDEX= TORCH=torch==VERSION takes torch from pip's own index.
sets:
	@$(PYTHON) evaluations/version_sets $(ARGS)

# From a copy of what is committed: nothing of a working tree gets in. The other systems' wheels are
# made by .github/workflows/wheels.yml.
wheel: $(DEV)/.installed
	@rm -rf build/release dist && mkdir -p build/release
	@git archive HEAD | tar --extract --directory build/release
	@$(DEV)/bin/python -m build --outdir dist build/release > $(DEV)/wheel.log 2>&1 || \
		{ cat $(DEV)/wheel.log >&2; exit 1; }
	@ls dist

# It uploads nothing, and stops at the first thing that is not ready.
release: VERSION = $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' tracekit/__init__.py)
release:
	@test -z "$$(git status --porcelain)" || { echo "the working tree has changes: commit them" >&2; exit 1; }
	@grep -qE '^## $(VERSION)(, [0-9-]+)?$$' CHANGELOG.md || \
		{ echo "CHANGELOG.md has no heading '## $(VERSION), DATE'" >&2; exit 1; }
	@test "$$(git tag --points-at HEAD --list 'v$(VERSION)')" || \
		{ echo "this commit has no tag: git tag -a v$(VERSION) -m $(VERSION)" >&2; exit 1; }
	@$(MAKE) test
	@$(MAKE) sets
	@$(MAKE) wheel
	@echo "ready: put the wheels of the workflow 'wheels' for v$(VERSION) into dist, then"
	@echo "  git push origin v$(VERSION) && twine check --strict dist/* && twine upload dist/*"

clean:
	rm -rf $(DEMO) $(DEV) build dist *.egg-info tracekit/ingest/*.so .mypy_cache .pytest_cache .ruff_cache .hypothesis

# A stamp in the environment says that it holds what these files ask for.
$(DEMO)/.installed: pyproject.toml constraints.txt $(NATIVE) Makefile
	@echo "== installing tracekit into $(DEMO)"
	@$(call new_environment,$(DEMO))
	@$(DEMO)/bin/python $(PIP_INSTALL) --constraint constraints.txt --editable .
	@touch $@

$(DEV)/.packages: pyproject.toml constraints.txt Makefile
	@echo "== installing what tracekit's collectors need into $(DEV)"
	@$(call new_environment,$(DEV))
	@$(PYTHON) tests/extras.py collect | \
		$(DEV)/bin/python $(PIP_INSTALL) --no-compile --constraint constraints.txt \
		--requirement /dev/stdin
	@touch $@

$(DEV)/.collects: $(DEV)/.packages $(NATIVE)
	@echo "== installing tracekit into $(DEV)"
	@$(DEV)/bin/python $(PIP_INSTALL) --no-compile --no-deps --constraint constraints.txt --editable .
	@touch $@

$(DEV)/.installed: $(DEV)/.collects
	@echo "== installing the developers' tools into $(DEV)"
	@$(DEV)/bin/python tests/extras.py dev loops docs remote ray view plot shell tui mcp | \
		$(DEV)/bin/python $(PIP_INSTALL) --no-compile --constraint constraints.txt \
		--requirement /dev/stdin
	@touch $@

# The pip that a Python brings may look at every version of a package for seconds.
define new_environment
$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tracekit needs Python 3.11 or later; this is " \
	+ sys.version.split()[0] + ". Choose another: make PYTHON=python3.12 ...")' && \
$(PYTHON) -m venv --clear $(1) && $(1)/bin/python $(PIP_INSTALL) --no-compile \
	--constraint constraints.txt --upgrade pip
endef
