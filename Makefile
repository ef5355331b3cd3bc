SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help demo test test-fast test-faults test-long fuzz check wheel docs bench measured goldens mutants kills ops protos \
	clean distclean

# Hundreds of processes import tfwave and its tests: each would compile them where no bytecode is kept.
export PYTHONDONTWRITEBYTECODE :=

PYTHON ?= $(shell for p in python3.11 python3; do $$p -c '' 2>/dev/null && echo $$p && exit; done; echo python3)
TF ?=
VENV := .venv$(TF:%=-%)
PYTEST := $(VENV)/bin/python -m pytest -rs
MEASURES := $(patsubst %,tests/cluster/%.py,runtime/test_ack_window demo/test_network)
SHORT := -m 'not long'
LONG := -m long
MANY := $(patsubst %,tests/numerics/%,memory/test_fit_memory.py passes/test_cross_step.py waves)
FAULT_STEPS ?= 500
SEED ?= 1
SEEDS ?= 1000000
MINUTES ?= 60
PIP := .venv/bin/python -m pip --disable-pip-version-check install -q --no-deps

help: ## say what there is to make
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

demo: .venv/.ready ## see what tfwave does, on a small job on this machine
	@.venv/bin/tfwave demo

# Goldens are those of the TensorFlow that is locked: another one comes with another protobuf.
test: $(VENV)/.ready ## check, and run all tests that are not long; with TF=2.20 the tests, on that TensorFlow
	@$(if $(TF),$(VENV)/bin/tfwave doctor)
	@$(MAKE) --no-print-directory -j2 $(if $(TF),,check) test-fast
	@echo '== pytest: numerics (TensorFlow in this process)'
	@$(PYTEST) tests/numerics $(SHORT) -n 3 --dist loadgroup --no-loadscope-reorder
	@echo '== pytest: cluster, and faults in a short form (real TensorFlow servers on loopback)'
	@$(PYTEST) tests/cluster tests/faults $(SHORT) $(MEASURES:%=--ignore=%) -n 3 --dist loadfile --no-loadscope-reorder
	@echo '== pytest: cluster (links of a set rate, one test at a time)'
	@$(PYTEST) $(MEASURES) $(SHORT)

test-fast: $(VENV)/.ready ## run the tests that need no TensorFlow: those that wait leave their core to others
	@echo '== pytest: unit, property, fuzz, golden (no TensorFlow)'
	@$(PYTEST) tests/unit tests/property tests/fuzz $(SHORT) $(if $(TF),,tests/golden) -n 4

test-faults: .venv/.ready ## let faults strike trainings of 500 steps (minutes), and write docs/reliability.md
	@echo '== pytest: faults'
	@$(PYTEST) tests/faults --steps $(FAULT_STEPS) --seed $(SEED) --timeout 3600 --ledger .faults.json
	@.venv/bin/python tools/reliability.py .faults.json
	@rm .faults.json

test-long: export TFWAVE_TEST_FULL := 1
test-long: .venv/.ready ## run what takes long, and in full what make test has some of: whole networks, more random steps
	@echo '== pytest: property, unit (what takes long)'
	@$(PYTEST) tests/property -n 3
	@$(PYTEST) tests/unit $(LONG) -n 3
	@echo '== pytest: numerics (what takes long, as ResNet50 and InceptionV3 with all blocks and channels)'
	@$(PYTEST) tests/numerics $(LONG) -n 2 --dist loadgroup --no-loadscope-reorder
	@echo '== pytest: numerics (all combinations)'
	@$(PYTEST) $(MANY) $(SHORT) -n 3 --dist loadgroup --no-loadscope-reorder
	@echo '== pytest: cluster (what takes long, and all combinations)'
	@$(PYTEST) tests/cluster $(LONG) -n 3 --dist loadfile --no-loadscope-reorder
	@$(PYTEST) tests/cluster/keras/test_burst.py $(SHORT)

fuzz: .venv/.ready ## a million tensors under sanitizers, then SEEDS of damaged input, at most MINUTES (60) of them
	@echo '== pytest: storms of a million hand-offs'
	@TFWAVE_TEST_HAND_OFFS=1000000 TFWAVE_TEST_SEED=$(SEED) $(PYTEST) tests/unit/native/test_storm.py
	@echo '== pytest: what peers say to the native library'
	@TFWAVE_TEST_ROUNDS=100000 TFWAVE_TEST_SEED=$(SEED) $(PYTEST) tests/fuzz/test_native_peers.py
	@echo '== fuzz'
	@.venv/bin/python tools/fuzz.py --seeds $(SEEDS) --minutes $(MINUTES)

check: .venv/.ready ## lint, format, types, layers: changes nothing
	@echo '== ruff check'
	@.venv/bin/ruff check -q .
	@echo '== ruff format --check'
	@.venv/bin/ruff format -q --check .
	@echo '== pyright'
	@PYRIGHT_PYTHON_IGNORE_WARNINGS=1 .venv/bin/pyright
	@echo '== lint-imports'
	@.venv/bin/lint-imports

wheel: .venv/.ready ## build the sdist, and a wheel with a native library for each TensorFlow, into dist/
	@SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)} .venv/bin/python -m tools.wheel

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

kills: .venv/.ready ## go on with tools/kills.json: which phase of the tests catches which planted bug (hours)
	@.venv/bin/python tools/mutants.py --missing --phase unit property fuzz golden numerics cluster

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

.venv-%/.ready: setup.py
	@$(PYTHON) -c "$$CHECK_PYTHON"
	@[ -x .venv-$*/bin/pip ] || $(PYTHON) -m venv --clear .venv-$*
	@echo 'Installing TensorFlow $* into .venv-$*'
	@.venv-$*/bin/pip --disable-pip-version-check install -q -e '.[cpu,test,docs]' 'tensorflow-cpu==$*.*'
	@.venv-$*/bin/pip --disable-pip-version-check install -q --no-deps 'tf_keras==$*.*' # it asks for the full tensorflow
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
