# make demo  – set up and run the main job: fit, predict and report on bundled data
# make test  – set up and run the tests; make test-all runs those that are slow or statistical, too
# make wheel – build wheel and sdist, and use the wheel from empty environments: make wheel PYTHONS="python3.11 python3.13"
SHELL := /bin/bash
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3)
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test test-all test-avx2 lint format bench papers docs lock wheel clean
.DELETE_ON_ERROR:

$(READY): dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "bayesprop needs Python 3.11 or newer; name one: make PYTHON=/path/to/python3.11"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv \
	  || { rm -rf .venv; echo "cannot create .venv; on Debian: apt-get install python3-venv"; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $(READY)

demo: $(READY)
	@mkdir -p demo
	$(BIN)/bayesprop fit concrete --target compressive_strength --test-fraction 0.2 --seed 0 --out demo/concrete.bayesprop --report demo/report.html
	$(BIN)/bayesprop predict demo/concrete.bayesprop concrete --interval 0.9 --out demo/predictions.csv
	@echo
	@echo "The report:       $(CURDIR)/demo/report.html   (open it in a browser)"
	@echo "The predictions:  $(CURDIR)/demo/predictions.csv"
	@echo "The model:        $(CURDIR)/demo/concrete.bayesprop"

test: $(READY)
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-all: $(READY)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "exhaustive or not exhaustive"

# What rounds, as a processor without AVX-512 rounds it.
AVX2 := XLA_FLAGS=--xla_cpu_max_isa=AVX2 NUMBA_CPU_NAME=haswell NUMBA_CPU_FEATURES= \
  NUMBA_CACHE_DIR=$(CURDIR)/.cache/numba-avx2 OPENBLAS_CORETYPE=Haswell NPY_DISABLE_CPU_FEATURES="X86_V4 AVX512_ICL"
ROUNDING := tests/test_golden.py tests/numerics tests/linear tests/moments tests/tabular_default tests/estimators/test_every_method.py

test-avx2: $(READY)
	$(AVX2) $(BIN)/python -m pytest -n 2 --dist worksteal -m "exhaustive or not exhaustive" $(ROUNDING)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python docs/hooks/words.py
	$(BIN)/pyright

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)
	$(BIN)/python -m benchmarks

# make papers lists the tables and figures of the papers; make papers NAME=pbp-toy ARGS=--quick runs one
papers: $(READY)
	$(BIN)/python -m papers $(or $(NAME),--list) $(ARGS)

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "The documentation:  $(CURDIR)/site/index.html   (open it in a browser; no server, no network)"

lock: $(READY)
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --all-extras --group dev \
	  --no-header --no-annotate pyproject.toml -o dev.lock

wheel: $(READY)
	$(BIN)/python .ci/wheel.py $(PYTHONS)

clean:
	rm -rf .venv .cache build dist site demo .pytest_cache .ruff_cache .hypothesis
	find src papers tests benchmarks -name __pycache__ -prune -exec rm -rf {} +
