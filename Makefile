SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help demo test test-long check docs bench measured goldens mutants ops protos clean distclean

PYTHON ?= $(shell for p in python3.11 python3; do $$p -c '' 2>/dev/null && echo $$p && exit; done; echo python3)
PYTEST := .venv/bin/python -m pytest -rs
MEASURES := $(patsubst %,tests/cluster/test_%.py,ack_window demo network)
WIDE := $(patsubst %,tests/numerics/test_%.py,corpus cut_corpus rewrites)
PIP := .venv/bin/python -m pip --disable-pip-version-check install -q --no-deps

help: ## say what there is to make
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

demo: .venv/.ready ## see what tfwave does, on a small job on this machine
	@.venv/bin/tfwave demo

test: .venv/.ready check ## check, then run all tests
	@echo '== pytest: unit, property, fuzz, golden (no TensorFlow)'
	@$(PYTEST) tests/unit tests/property tests/fuzz tests/golden -n 2
	@echo '== pytest: numerics (TensorFlow in this process)'
	@$(PYTEST) tests/numerics -n 2 --dist loadgroup --no-loadscope-reorder
	@echo '== pytest: cluster (real TensorFlow servers on loopback)'
	@$(PYTEST) tests/cluster $(MEASURES:%=--ignore=%) -n 2 --dist loadfile --no-loadscope-reorder
	@echo '== pytest: cluster (links of a set rate, one test at a time)'
	@$(PYTEST) $(MEASURES)

test-long: .venv/.ready ## run the tests of large networks at their full width
	@echo '== pytest: numerics (ResNet50 and InceptionV3 with all channels)'
	@TFWAVE_TEST_SHARE=1 $(PYTEST) $(WIDE) -k 'resnet50 or inception' -n 2 --dist loadgroup --no-loadscope-reorder

check: .venv/.ready ## lint, format, types, layers: changes nothing
	@echo '== ruff check'
	@.venv/bin/ruff check -q .
	@echo '== ruff format --check'
	@.venv/bin/ruff format -q --check .
	@echo '== pyright'
	@PYRIGHT_PYTHON_IGNORE_WARNINGS=1 .venv/bin/pyright
	@echo '== lint-imports'
	@.venv/bin/lint-imports

docs: .venv/.ready ## build docs/_build/html, and write docs/passes.md again from the docstrings
	@.venv/bin/python -m tools.docs

bench: .venv/.ready ## measure on this machine: NAMES="demo reduce"; what was stopped goes on. Then make measured
	@.venv/bin/python tools/bench/record.py $(NAMES)
	@.venv/bin/python tools/measured.py

measured: .venv/.ready ## write docs/measured.md again from tools/bench/results
	@.venv/bin/python tools/measured.py

ops: .venv/.ready ## write tfwave/graph/ops.pb again from the installed TensorFlow
	@.venv/bin/python tools/gen_ops.py

goldens: .venv/.ready ## write tests/golden/expected again: what is decided of real models, and made of them
	@.venv/bin/python tools/goldens.py

mutants: .venv/.ready ## plant bugs one by one: the tests must catch each (some minutes)
	@.venv/bin/python tools/mutants.py

protos: ## write tfwave/proto/*_pb2* again from the .proto files
	@echo 'Compiling tfwave/proto/*.proto'
	@PYTHON=$(PYTHON) tools/gen_protos.sh

clean: ## remove caches and build products; keep .venv
	@rm -rf build dist docs/_build ./*.egg-info .ruff_cache .hypothesis .pytest_cache .import_linter_cache demo-run
	@find . -path './.venv*' -prune -o -name __pycache__ -exec rm -rf {} +

distclean: clean ## clean, and remove .venv too
	@rm -rf .venv .venv-*

.venv/.ready: requirements.lock setup.py pyproject.toml
	@$(PYTHON) -c "$$CHECK_PYTHON"
	@[ -x .venv/bin/pip ] || { echo "Making .venv with $$($(PYTHON) -V)"; $(PYTHON) -m venv --clear .venv; }
	@echo 'Installing requirements.lock into .venv (at first about 400 MB to download, a few minutes)'
	@$(PIP) -r requirements.lock
	@$(PIP) --no-build-isolation -e .
	@touch $@

define CHECK_PYTHON
import sys
from importlib.util import find_spec
if not (3, 11) <= sys.version_info < (3, 14):
    sys.exit(f"tfwave needs Python 3.11 to 3.13, this is {sys.version.split()[0]}: make PYTHON=python3.11")
if not (find_spec("venv") and find_spec("ensurepip")):
    sys.exit("This Python cannot make virtual environments: apt install python3-venv")
endef
export CHECK_PYTHON
