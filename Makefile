# Every target does its own set-up (scripts/setup.sh: a .venv with pinned packages, and Java) and is quick the second time.
# PYTHON=… picks the interpreter, ARGS=… is passed on, as in: make unit ARGS="-k explain"

RUN := scripts/run.sh
JOBS ?= 2
export PYTHON

.DEFAULT_GOAL := help
.PHONY: help demo demo-kafka test lint typecheck unit format bench docs setup java clean
.NOTPARALLEL:

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## run several overlapping stream joins of a web shop on local Spark, and check the results
	@$(RUN) clash demo $(ARGS)

demo-kafka: ## the same over a real Kafka broker from Maven: events in topics, results in topics, checked
	@$(RUN) python scripts/test_servers.py kafka kafka-connector > /dev/null
	@$(RUN) python scripts/demo_kafka.py

test: lint typecheck unit ## all checks: lint, types, tests

lint: ## ruff: rules and format, changing nothing
	@$(RUN) ruff check .
	@$(RUN) ruff format --check .

typecheck: ## mypy, strict
	@$(RUN) mypy

unit: ## pytest alone
	@$(RUN) pytest -n $(JOBS) $(ARGS)

format: ## ruff: fix what can be fixed, and format
	@$(RUN) ruff check --fix .
	@$(RUN) ruff format .

bench: ## the benchmark of the planner; results go into bench/results (others: clash bench --help)
	@$(RUN) clash bench ilp $(ARGS)

docs: ## the documentation as a site, in build/site
	@NO_MKDOCS_2_WARNING=1 $(RUN) mkdocs build --strict --quiet
	@echo build/site/index.html

setup: ## the set-up alone
	@scripts/setup.sh

java: ## which Java is used (installed if it is missing and the machine allows it)
	@scripts/java.sh ensure

clean: ## remove .venv, caches and build leftovers
	rm -rf .venv build dist src/*.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
