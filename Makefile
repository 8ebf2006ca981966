# trainlab's commands; `make` alone lists them.
# Needs make and Python 3.11 or newer; everything else is installed into .venv by pip, from requirements.lock.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
# The lock was made with Python 3.11, so that one is taken first where there are several.
PYTHON ?= $(shell for python in python3.11 python3 python3.12 python3.13 python3.14; do \
	$$python -c 'import sys, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
# One thread a process: two test processes share two cores.
PYTEST := OMP_NUM_THREADS=1 MPLBACKEND=Agg $(BIN)/python -m pytest

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-slow check format bench tables results lab lock

help:  ## list the commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 18

setup: $(READY)  ## a virtual environment in .venv, from the lock

$(READY): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "error: no Python 3.11 or newer with venv found; install one (Debian: apt install python3-venv) or give make PYTHON=/path/to/python" >&2; exit 2; }
	@$(BIN)/python -c pass 2>/dev/null || $(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(READY)  ## the demo study and its report, in ./demo
	@mkdir -p demo
	cd demo && OMP_NUM_THREADS=1 ../$(BIN)/trainlab sweep ../experiments/studies/demo.yaml  # small models: one thread is faster
	@cd demo && ../$(BIN)/trainlab report demo
	@echo "To see every run in MLflow's own pages:  cd demo && ../$(BIN)/trainlab ui"

test: $(READY)  ## the fast tests
	$(PYTEST) -m "not slow" -n 2 --dist loadfile -q

test-slow: $(READY)  ## the slow tests
	$(PYTEST) -m slow -n 2 --dist loadfile -q

check: $(READY)  ## lint, format, types and layout
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(PYTEST) -q tests/test_house.py

format: $(READY)  ## mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)  ## speed, side by side with a raw loop and plain Lightning
	@mkdir -p docs
	$(BIN)/python tests/benchmarks/overhead.py > $(VENV)/benchmarks.md
	$(BIN)/python tests/benchmarks/logger.py > $(VENV)/loggers.md
	$(BIN)/python tests/benchmarks/first_step.py > $(VENV)/first_step.md
	@{ echo "# Benchmarks"; echo; echo "Overhead of training, by \`make bench\`: medians over turns, one thread, on $$(uname -m) with $$(getconf _NPROCESSORS_ONLN) cores."; \
		echo; cat $(VENV)/benchmarks.md; \
		echo; echo "Loggers under Lightning's Trainer, a module that logs its loss: medians over turns of the difference to no logger."; \
		echo; cat $(VENV)/loggers.md; echo; cat $(VENV)/first_step.md; } | tee docs/benchmarks.md
	$(BIN)/python -m tests.benchmarks.sweeps > $(VENV)/sweeps.md
	$(BIN)/python -m tests.benchmarks.mirror > $(VENV)/mirror.md
	@{ echo "# Sweeps beside a hand-written peer"; echo; echo "By \`make bench\`: Optuna, Lightning and MLFlowLogger as a good user would write it, and trainlab, the same trials in turns."; \
		echo; cat $(VENV)/sweeps.md; echo; cat $(VENV)/mirror.md; } | tee docs/benchmarks_sweeps.md
	$(BIN)/python -m tests.benchmarks.reports > $(VENV)/reports.md
	$(BIN)/python -m tests.benchmarks.algoperf --copy > $(VENV)/algoperf.md
	@{ echo "# Reports, figures and imports"; echo; echo "By \`make bench\`; the last part needs \`TRAINLAB_DATA\`."; \
		echo; cat $(VENV)/reports.md; echo; cat $(VENV)/algoperf.md; } | tee docs/benchmarks_reports.md
	$(BIN)/python -m tests.benchmarks.optimizers --output docs/benchmarks_optimizers.md

tables: $(READY)  ## docs/parity.md and docs/support.md, from the tests' cases and the conformance battery (about 7 minutes)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.algos.tables

results: $(READY)  ## the long results under docs/results (many seeds)
	$(BIN)/python -m trainlab.workflows.results

lab: $(READY)  ## the notebooks, in JupyterLab
	$(BIN)/jupytext --to ipynb --update notebooks/*.py
	$(BIN)/jupyter lab notebooks

lock:  ## make requirements.lock anew from pyproject.toml
	$(PYTHON) -m venv --clear build/lock
	build/lock/bin/python -m pip install --quiet $$($(PYTHON) -c "import tomllib; \
		p = tomllib.load(open('pyproject.toml', 'rb')); e = p['project']['optional-dependencies']; \
		print(*(r.replace(' ', '') for r in p['project']['dependencies'] + e['notebooks'] + e['dev'] + p['build-system']['requires']))")
	{ sed -n '/^#/p' requirements.lock; build/lock/bin/python -m pip freeze --all \
		| grep -E '^[A-Za-z0-9_.-]+==' | grep -vE '^(pip|wheel)==' | sed -E 's/\+[a-z0-9.]+$$//'; } > build/requirements.lock
	mv build/requirements.lock requirements.lock
